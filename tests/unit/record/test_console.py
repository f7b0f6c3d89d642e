"""The last lines of the console: as a terminal shows them, of failed and stopped runs alone."""

import io
import sys

import pytest

import stepscope as ss
from stepscope.record.console import LINES, MAX_LINE, WRITES, Console

BOOM = ValueError("boom")


@pytest.fixture
def give_streams(monkeypatch):
    """A function that gives the process streams: pytest sets its own between a fixture and its test."""

    def give() -> list[io.TextIOWrapper]:
        streams = [io.TextIOWrapper(io.BytesIO()) for _ in range(2)]
        monkeypatch.setattr(sys, "stdout", streams[0])
        monkeypatch.setattr(sys, "stderr", streams[1])
        return streams

    return give


def failing(path, *lines: str, error: BaseException = BOOM, console: bool = True) -> None:
    with pytest.raises(type(error)), ss.Run(path, console=console):  # noqa: PT012  the lines belong to the run
        for line in lines:
            print(line)
        raise error


def console_of(path) -> str:
    (run,) = ss.open(path).runs()
    return run.info.console


def test_lines_come_as_a_terminal_shows_them(give_streams):
    give_streams()
    console = Console()
    console.watch()
    print("step 1", "\x1b[31mloss 0.5\x1b[0m")
    for done in range(3):
        print(f"\r{done}/3", end="", file=sys.stderr)
        print(f"step {done + 2}")
    assert console.last() == "step 1 loss 0.5\nstep 2\nstep 3\nstep 4\n2/3"
    console.leave()


def test_the_last_lines_are_remembered_within_bounds(give_streams):
    give_streams()
    console = Console()
    console.watch()
    for number in range(WRITES):
        print(number, "x" * MAX_LINE)
    lines = console.last().split("\n")
    assert len(lines) == LINES
    assert lines[-1].startswith(f"{WRITES - 1} xxx")
    assert len(lines[-1]) == MAX_LINE + 2
    print("y" * 10**6)
    assert len(console.last()) < 2 * LINES * MAX_LINE
    console.leave()


def test_the_streams_are_as_before_afterwards(give_streams):
    streams = give_streams()
    before = [stream.write for stream in streams]
    console = Console()
    console.watch()
    console.watch()
    assert [stream.write for stream in streams] != before
    print("loss 0.5")
    console.leave()
    assert [stream.write for stream in streams] == before
    assert streams[0].write("more\n") == 5


def test_a_write_that_another_has_wrapped_goes_on(give_streams):
    streams = give_streams()
    console = Console()
    console.watch()
    ours, seen = sys.stdout.write, []
    sys.stdout.write = lambda text: (seen.append(text), ours(text))[1]
    console.leave()
    print("loss 0.5")
    assert seen == ["loss 0.5", "\n"]
    streams[0].flush()
    assert streams[0].buffer.getvalue() == b"loss 0.5\n"
    assert console.last() == ""


def test_a_write_that_stood_on_the_stream_comes_back(give_streams):
    streams = give_streams()
    sys.stdout.write = earlier = lambda text: len(text)
    console = Console()
    console.watch()
    print("loss 0.5")
    assert console.last() == "loss 0.5"
    console.leave()
    assert streams[0].write is earlier


@pytest.mark.parametrize("stream", [None, object()])
def test_a_program_without_such_a_stream_is_left_alone(monkeypatch, stream):
    monkeypatch.setattr(sys, "stdout", stream)
    console = Console()
    console.watch()
    assert sys.stdout is stream
    console.leave()


def test_a_run_that_fails_keeps_them_without_secrets(tmp_path, give_streams):
    give_streams()
    failing(tmp_path / "a", "loading with api_key=sk-abcdefghijklmnopqrstuvwxyz123456", "step 7 loss nan")
    assert console_of(tmp_path) == "loading with api_key=[scrubbed]\nstep 7 loss nan"


def test_a_run_that_is_stopped_keeps_them(tmp_path, give_streams):
    give_streams()
    failing(tmp_path / "a", "step 7", error=KeyboardInterrupt())
    assert console_of(tmp_path) == "step 7"


def test_a_run_that_finishes_keeps_none(tmp_path, give_streams):
    give_streams()
    with ss.Run(tmp_path / "a"):
        print("step 7")
    assert console_of(tmp_path) == ""


def test_a_run_that_shall_not_keep_them_keeps_none(tmp_path, give_streams):
    give_streams()
    failing(tmp_path / "a", "step 7", console=False)
    assert console_of(tmp_path) == ""
