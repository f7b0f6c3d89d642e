"""Runs recorded to a URL, on fsspec's own file system in memory, and on one that fails."""

import os
import subprocess
import sys
import threading
import time
import types
import warnings
from pathlib import Path
from typing import ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from support.waiting import until
from tbparse import SummaryReader
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import stepscope as ss
from stepscope import store
from stepscope.compat import SummaryWriter
from stepscope.errors import LogDirectoryError, UsageError
from stepscope.events.pieces import covering, first_record, parse_piece, piece_name, records_end
from stepscope.record import mounts
from stepscope.record import spool as spools
from stepscope.record import transfer as transfers
from stepscope.record import uploader as uploads
from stepscope.record.spool import SpoolEntry, SpoolRoom, entries, folder_of, plain_options, spool_home
from stepscope.record.transfer import Transfer, left_in
from stepscope.record.uploader import send, survey
from stepscope.remote import Remote
from stepscope.urls import join, shown, without_secrets

URL = "memory://bucket/runs/x"


@pytest.fixture(autouse=True)
def place(memory_store):
    return memory_store


class Broken(MemoryFileSystem):
    """A store that refuses to take anything while ``broken`` says why."""

    protocol = "brokenstore"
    store: ClassVar = {}
    pseudo_dirs: ClassVar = [""]
    broken: Exception | None = None

    def pipe_file(self, path, value, **options):
        if self.broken:
            raise self.broken
        return super().pipe_file(path, value, **options)

    def put_file(self, *arguments, **options):
        if self.broken:
            raise self.broken
        return super().put_file(*arguments, **options)


@pytest.fixture
def broken():
    fsspec.register_implementation("brokenstore", Broken, clobber=True)
    Broken.store.clear()
    Broken.pseudo_dirs[:] = [""]
    yield Broken
    Broken.broken = None


def names(system, folder="/bucket/runs/x"):
    return sorted(path.removeprefix(f"{folder}/") for path in system.store if path.startswith(folder))


def steps_of(url, tag="loss", run="x"):
    with store.open(url, cache=False) as log:
        return [(series.attempt, list(series.step)) for series in log.run(run).columns(tag)]


def test_a_run_is_in_the_store_as_two_objects_once_it_has_ended(place):
    with ss.Run(URL, config={"lr": 0.1}) as run:
        assert (run.url, Path(run.log_dir).is_dir()) == (URL, True)
        for step in range(100):
            run.scalar("loss", 1 / (step + 1), step)
    assert len(names(place)) == 2
    assert all(parse_piece(name) is None for name in names(place))
    assert steps_of("memory://bucket/runs") == [(1, list(range(100)))]
    assert entries() == []
    assert run.problems == {}


def test_a_writer_of_another_interface_records_to_a_store(place):
    with SummaryWriter(URL) as writer:
        writer.add_scalar("loss", 1.0, 0)
    assert steps_of("memory://bucket/runs") == [(1, [0])]


def test_each_process_start_is_a_new_attempt(place):
    for _ in range(2):
        with ss.Run(URL) as run:
            run.scalar("loss", 1.0, 0)
    assert run.attempt == 2
    assert steps_of("memory://bucket/runs") == [(1, [0]), (2, [0])]


def test_the_attempt_is_known_from_this_machine_where_the_store_does_not_answer(place):
    with ss.Run(URL) as run:
        run.scalar("loss", 1.0, 0)
    place.store.clear()
    with ss.Run(URL) as run:
        assert run.attempt == 2


def test_pieces_of_a_running_run_are_one_series(place, tmp_path):
    with ss.Run(URL) as run:
        for step in range(0, 30, 10):
            for each in range(step, step + 10):
                run.scalar("loss", 1.0, each)
                run.image("picture", [[0.5] * 4] * 4, each)
            run.flush()
            run._uploader.soon()
            until(lambda: sent_in_full(run))
        live = [name for name in names(place) if "tfevents" in name]
        assert len(live) >= 3
        assert [parse_piece(name).start > 0 for name in live[:2]] == [False, True]
        assert steps_of("memory://bucket/runs") == [(1, list(range(30)))]
        place.get("/bucket/runs/x", str(tmp_path / "got"), recursive=True)
        assert steps_of(tmp_path, run="got") == [(1, list(range(30)))]
        assert tensorboard_steps(tmp_path / "got") == list(range(30))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tbparse calls pandas in ways that pandas is giving up
            frame = SummaryReader(str(tmp_path / "got")).scalars
        assert sorted(frame.step) == list(range(30))


def sent_in_full(run):
    return left_in(SpoolEntry.load(Path(run.log_dir).parent)) == (0, 0)


def tensorboard_steps(path, tag="loss"):
    accumulator = EventAccumulator(str(path))
    accumulator.Reload()
    return [event.step for event in accumulator.Scalars(tag)]


def test_a_piece_of_one_s_own_is_followed_where_it_grows_into_the_whole(place):
    run = ss.Run(URL)
    run.scalar("loss", 1.0, 0)
    run.flush()
    run._uploader.soon()
    until(lambda: len(names(place)) == 2 and sent_in_full(run))
    log = store.open("memory://bucket/runs", cache=False)
    assert log.run("x").num_points() >= 1
    run.scalar("loss", 2.0, 1)
    run.close()
    log.refresh()
    [series] = log.run("x").columns("loss")
    assert list(series.step) == [0, 1]
    assert log.run("x").problems == []
    log.close()


def test_many_small_pieces_are_merged(place, monkeypatch):
    monkeypatch.setattr(transfers, "MERGE", 4)
    entry = SpoolEntry.begin(URL, {})
    log = ss.Run(entry.directory)
    transfer = Transfer(entry, Remote(URL), "/bucket/runs/x")
    for step in range(10):
        log.scalar("loss", 1.0, step)
        log.flush()
        transfer.push(0, everything=True)
    assert len([name for name in names(place) if "tfevents" in name]) < 6
    assert steps_of("memory://bucket/runs") == [(1, list(range(10)))]
    log.close()
    entry.forget()


@pytest.mark.parametrize("dies_at", range(12))
def test_what_a_killed_process_left_is_sent_exactly_once(place, dies_at, tmp_path):
    """Every call to the store may be the last one that a process makes."""

    class Dies(MemoryFileSystem):
        store, pseudo_dirs, calls = place.store, place.pseudo_dirs, 0

        def _call(self, name, *arguments, **options):
            Dies.calls += 1
            if Dies.calls > dies_at:
                raise KeyboardInterrupt
            found = getattr(MemoryFileSystem, name)(self, *arguments, **options)
            if Dies.calls == dies_at:  # the store has it, and the process never learns of it
                raise KeyboardInterrupt
            return found

        def pipe_file(self, *arguments, **options):
            return self._call("pipe_file", *arguments, **options)

        def put_file(self, *arguments, **options):
            return self._call("put_file", *arguments, **options)

        def rm_file(self, *arguments, **options):
            return self._call("rm_file", *arguments, **options)

    entry = SpoolEntry.begin(URL, {})
    log = ss.Run(entry.directory)
    transfer = Transfer(entry, Remote(URL, system=Dies()), "/bucket/runs/x")
    try:
        for step in range(3):
            log.scalar("loss", 1.0, step)
            log.flush()
            transfer.push(0, everything=True)
        transfer.compact()
    except KeyboardInterrupt:
        pass
    log.close()
    [events] = entry.directory.glob("*tfevents*")
    with events.open("ab") as file:
        file.write(b"\x20\x00\x00")  # half a record
    entry.forget()
    again = SpoolEntry.load(entry.path)
    assert again.lock()
    send(again, URL, {})
    expected = list(range(len(steps_of("memory://bucket/runs")[0][1])))
    assert steps_of("memory://bucket/runs") == [(1, expected)]
    assert not any(parse_piece(name) for name in names(place))
    assert entries() == []
    place.get("/bucket/runs/x", str(tmp_path / "got"), recursive=True)
    assert tensorboard_steps(tmp_path / "got") == expected


def test_the_next_process_sends_what_the_last_one_left(place):
    entry = SpoolEntry.begin(URL, {})
    with ss.Run(entry.directory) as log:
        log.scalar("loss", 1.0, 7)
    entry.forget()
    with ss.Run(URL) as run:
        run.scalar("loss", 2.0, 0)
        until(lambda: len(entries()) == 1)
    assert sorted(step for _, steps in steps_of("memory://bucket/runs") for step in steps) == [0, 7]
    assert entries() == []


def test_profiles_records_and_the_files_of_ranks_are_sent(place, monkeypatch):
    with ss.Run(URL, rank=0, world_size=2) as run:
        run.scalar("loss", 1.0, 0)
        folder = Path(run.log_dir, "profiles")
        folder.mkdir()
        (folder / "step-1.json.gz").write_bytes(b"profile")
        (folder / "step-1.profile.json").write_text("{}")
        (folder / ".half-written").write_bytes(b"x")
    assert place.cat_file("/bucket/runs/x/profiles/step-1.json.gz") == b"profile"
    found = names(place)
    assert "profiles/step-1.profile.json" in found
    assert not any("half-written" in name for name in found)
    [rank] = [name for name in found if name.startswith("ranks/")]
    assert ".attempt-1." in rank
    with ss.Run(URL, rank=0, world_size=2) as run:
        assert run.attempt == 2


def test_a_file_that_changed_is_sent_again(place):
    entry = SpoolEntry.begin(URL, {})
    entry.directory.joinpath("state.json").write_text("1")
    transfer = Transfer(entry, Remote(URL), "/bucket/runs/x")
    transfer.push(0, everything=False)
    assert names(place) == []  # it may still be written
    transfer.push(time.time() + 60, everything=False)
    entry.directory.joinpath("state.json").write_text("22")
    assert transfer.left() == (1, 2)
    transfer.push(time.time() + 60, everything=False)
    assert place.cat_file("/bucket/runs/x/state.json") == b"22"
    assert transfer.left() == (0, 0)
    entry.forget()


@pytest.mark.slow
def test_a_store_that_refuses_is_said_once_and_nothing_is_lost(place, broken, monkeypatch):
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)
    broken.broken = PermissionError("403 for key hunter22 of hunter22")
    run = ss.Run("brokenstore://bucket/x", storage_options={"secret": "hunter22"})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run.scalar("loss", 1.0, 0)
        run._uploader.soon()
        until(lambda: run._problems.waiting)
        run.scalar("loss", 1.0, 1)
        run.close(timeout=1.5)
    said = [str(each.message) for each in caught]
    assert len(said) == 2, said
    said.sort(key=len)
    assert "cannot write to brokenstore://bucket/x: 403 for key [scrubbed] of [scrubbed]" in said[0]
    assert "2 files of the run" in said[1]
    assert "not in brokenstore://bucket/x yet" in said[1]
    assert "stepscope sync" in said[1]
    [entry] = entries()
    written = "".join(p.read_text(errors="replace") for p in entry.path.rglob("*") if p.is_file())
    assert "hunter22" not in written + "".join(said)
    broken.broken = None  # the thread of the run goes on as long as the process lives
    run._uploader._thread.join(60)
    assert entries() == []
    assert steps_of("brokenstore://bucket") == [(1, [0, 1])]


def test_the_thread_that_trains_never_waits_for_the_store(place, broken, monkeypatch):
    hold = threading.Event()
    monkeypatch.setattr(broken, "pipe_file", lambda *_, **__: hold.wait(30))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = ss.Run("brokenstore://bucket/x")
        run._uploader.soon()
        began = time.perf_counter()
        for step in range(10_000):
            run.scalar("loss", 1.0, step)
        assert run.flush()
        run.close(timeout=0.5)
        assert time.perf_counter() - began < 10
    monkeypatch.undo()
    hold.set()
    run._uploader._thread.join(60)


def test_what_sending_costs_is_recorded(place):
    with ss.Run(URL) as run:
        run.scalar("loss", 1.0, 0)
        run._uploader.soon()
        until(lambda: run._uploader.requests)
    with store.open("memory://bucket/runs", cache=False) as log:
        requests = log.run("x").columns("stepscope/store_requests")[0].value
        sent = log.run("x").columns("stepscope/store_sent_bytes")[0].value
    assert requests[-1] > 0
    assert sent[-1] > 100


def test_mistakes(monkeypatch):
    with pytest.raises(LogDirectoryError, match=r"no driver for nosuch:// is installed"):
        ss.Run("nosuch://bucket/x")
    monkeypatch.setattr("stepscope.urls.find_spec", lambda name: None)
    with pytest.raises(LogDirectoryError, match=r"(?s)no driver for s3://.*pip install s3fs"):
        ss.Run("s3://bucket/x")
    with pytest.raises(UsageError, match="storage_options are for a store"):
        ss.Run("runs/x", storage_options={"anon": True})
    assert entries() == []


def test_an_evaluator_writes_below_the_url(place):
    with ss.Run(URL, role="evaluator") as run:
        run.scalar("loss", 1.0, 0)
    assert run.url == f"{URL}/eval"


@pytest.mark.parametrize(
    ("url", "safe"),
    [
        ("s3://bucket/a", "s3://bucket/a"),
        ("runs/what?", "runs/what?"),
        ("sftp://ada:hunter22@host/a", "sftp://ada:[scrubbed]@host/a"),
        ("sftp://ada@host/a", "sftp://ada@host/a"),
        ("https://host/a?sig=hunter22", "https://host/a"),
        ("hf://datasets/ada/runs@main/x", "hf://datasets/ada/runs@main/x"),
        ("simplecache::sftp://ada:hunter22@host/a", "simplecache::sftp://ada:[scrubbed]@host/a"),
    ],
)
def test_an_address_is_shown_without_its_secrets(url, safe):
    assert shown(url) == safe


def test_texts_of_drivers_lose_every_secret_they_were_given():
    url = "sftp://ada:hunt%20er22@host/a?sig=abcd%3D"
    options = {"key": "KEYKEY", "client_kwargs": {"aws_session_token": "SESSION"}}
    said = without_secrets("hunt er22 abcd= abcd%3D KEYKEY SESSION hunt%20er22", url, options)
    assert set(said.split()) == {"[scrubbed]"}
    assert plain_options({**options, "endpoint_url": "http://x", "token": "t", "password": "p"}) == {
        "client_kwargs": {}, "endpoint_url": "http://x",
    }  # fmt: skip
    assert join("https://host/a?sig=x", "eval") == "https://host/a/eval?sig=x"


def test_names_of_pieces():
    piece = parse_piece(piece_name("events.out.tfevents.1.h.2.0", 5, 17))
    assert (piece.name, piece.start, piece.end) == ("events.out.tfevents.1.h.2.0", 5, 17)
    assert parse_piece("events.out.tfevents.1.h.2.0") is None
    assert covering([piece, piece._replace(end=20)], 6).end == 20
    assert covering([piece], 17) is None


def test_a_piece_ends_with_a_record(tmp_path):
    with ss.Run(tmp_path / "a") as run:
        run.scalar("loss", 1.0, 0)
    [path] = (tmp_path / "a").glob("*tfevents*")
    size = path.stat().st_size
    with path.open("rb") as file:
        assert records_end(file, 0, size) == size
        assert records_end(file, 0, size - 1) == len(first_record(file))
        assert records_end(file, 0, size, 1) == len(first_record(file))


@pytest.mark.parametrize("forced", [False, True])
def test_a_run_on_a_mounted_bucket_is_written_in_pieces(tmp_path, monkeypatch, forced):
    if forced:
        monkeypatch.setenv("STEPSCOPE_SEGMENTS", "always")
    else:
        table = tmp_path / "mountinfo"
        table.write_text(
            f"1 0 8:1 / / rw - ext4 /dev/sda rw\n2 1 0:4 / {tmp_path}/runs rw - fuse.gcsfuse bucket rw\n"
        )
        monkeypatch.setattr(mounts, "TABLE", table)
    run = ss.Run(tmp_path / "runs" / "x")
    run.scalar("loss", 1.0, 0)
    run.flush()
    run._uploader.soon()
    until(lambda: sent_in_full(run))
    assert steps_of(tmp_path / "runs") == [(1, [0])]
    run.scalar("loss", 1.0, 1)
    run.close()
    assert steps_of(tmp_path / "runs") == [(1, [0, 1])]
    assert len(list((tmp_path / "runs" / "x").iterdir())) == 2


def test_the_spool_lies_in_the_state_directory_of_the_user(monkeypatch, tmp_path):
    monkeypatch.delenv("STEPSCOPE_SPOOL")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert spool_home() == tmp_path / "stepscope" / "spool"
    assert folder_of("sftp://a:b@h/x") == folder_of("sftp://a:c@h/x/")


def test_the_survey_of_a_store(place):
    assert survey(Remote(URL), "/bucket/none") == (0, ())
    with ss.Run(URL) as run:
        run.scalar("loss", 1.0, 0)
    assert survey(Remote(URL), "/bucket/runs/x").attempt == 1


@pytest.mark.parametrize("ends", ["", "import sys; sys.exit(3)", "1 / 0"])
def test_a_run_that_nobody_closes_is_sent_while_drivers_still_have_their_pools(tmp_path, ends):
    """Python ends its thread pools before it calls what is registered with ``atexit``."""
    code = f"""
import concurrent.futures, time
import fsspec, stepscope as ss
from fsspec.implementations.local import LocalFileSystem

class Pooled(LocalFileSystem):
    protocol = "pooled"
    def _late(self, name, *arguments, **options):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            return pool.submit(getattr(LocalFileSystem, name), self, *arguments, **options).result()
    def pipe_file(self, *arguments, **options):
        return self._late("pipe_file", *arguments, **options)
    def put_file(self, *arguments, **options):
        return self._late("put_file", *arguments, **options)

fsspec.register_implementation("pooled", Pooled)
run = ss.Run("pooled://{tmp_path}/runs/x")
run.scalar("loss", 1.0, 0)
{ends}
"""
    environment = {**os.environ, "STEPSCOPE_SPOOL": str(tmp_path / "spool")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == {"": 0, "1 / 0": 1}.get(ends, 3)
    assert "not in" not in done.stderr
    with store.open(tmp_path / "runs", cache=False) as log:
        assert log.run("x").info.status == ("failed" if ends else "finished")
    assert entries() == []


@pytest.mark.slow
def test_a_run_that_ends_before_the_store_has_said_anything_is_written_here(place, broken, monkeypatch):
    """What was logged must not wait in memory for the store while the time to end runs out."""
    hold = threading.Event()
    monkeypatch.setattr(broken, "ls", lambda *_, **__: hold.wait(30) and [], raising=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = ss.Run("brokenstore://bucket/x")
        run.scalar("loss", 1.0, 0)
        run.close(timeout=2)
    said = " ".join(str(each.message) for each in caught)
    assert "nothing is lost" in said
    assert "could be written" not in said
    monkeypatch.undo()
    hold.set()
    run._uploader._thread.join(60)
    assert steps_of("brokenstore://bucket") == [(1, [0])]


def test_credentials_that_come_back_and_a_bucket_that_vanished_are_taken_up_again(place, broken, monkeypatch):
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)
    monkeypatch.setattr(uploads, "LONGEST_RETRY_SECS", 0.2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = ss.Run("brokenstore://bucket/x")
        for step, error in enumerate(
            [PermissionError("ExpiredToken"), FileNotFoundError("no such bucket"), None]
        ):
            run.scalar("loss", float(step), step)
            assert run.flush()
            broken.broken = error
            run._uploader.soon()
            if error is None:
                until(lambda: sent_in_full(run))
            else:
                until(lambda error=error: str(error) in run._uploader._failure)
        run.scalar("loss", 3.0, 3)
        run.close()
    assert run.problems == {}
    assert steps_of("brokenstore://bucket") == [(1, [0, 1, 2, 3])]
    assert entries() == []
    assert 1 <= len(caught) <= 2  # it is said, and not at every try


SYNC = """
import sys, fsspec
from pathlib import Path
from fsspec.implementations.local import LocalFileSystem
from stepscope.record.spool import SpoolEntry
from stepscope.record.uploader import send

class Slow(LocalFileSystem):
    protocol = "slowstore"
    def _late(self, name, *arguments, **options):
        import time
        time.sleep(0.05)
        return getattr(LocalFileSystem, name)(self, *arguments, **options)
    def pipe_file(self, *arguments, **options):
        return self._late("pipe_file", *arguments, **options)
    def put_file(self, *arguments, **options):
        return self._late("put_file", *arguments, **options)

fsspec.register_implementation("slowstore", Slow)
sys.stdin.readline()
entry = SpoolEntry.load(Path(sys.argv[1]))
took = entry is not None and entry.lock()
if took:
    send(entry, sys.argv[2], {})
print(took)
"""


@pytest.mark.slow
def test_two_processes_that_send_one_spool_send_it_once(tmp_path, place):
    url = f"slowstore://{tmp_path}/store/x"
    entry = SpoolEntry.begin(url, {})
    with ss.Run(entry.directory) as run:
        for step in range(100):
            run.scalar("loss", 1.0, step)
    for number in range(20):
        entry.directory.joinpath(f"file-{number}").write_text(str(number))
    entry.forget()
    pipe = subprocess.PIPE
    started = [
        subprocess.Popen(
            [sys.executable, "-c", SYNC, str(entry.path), url], stdin=pipe, stdout=pipe, text=True
        )
        for _ in range(3)
    ]
    for process in started:
        process.stdin.write("\n")
        process.stdin.flush()
    assert "True" in [process.communicate(timeout=120)[0].strip() for process in started]
    assert [process.returncode for process in started] == [0, 0, 0]
    assert steps_of(tmp_path / "store") == [(1, list(range(100)))]
    assert len(list((tmp_path / "store" / "x").glob("file-*"))) == 20
    assert not any(".bytes-" in path.name for path in (tmp_path / "store" / "x").iterdir())
    assert entries() == []


def test_a_clock_that_is_wrong_makes_no_difference_to_what_is_sent(place, monkeypatch):
    """Neither that of this machine, which goes back meanwhile, nor that of the store."""
    entry = SpoolEntry.begin(URL, {})
    log = ss.Run(entry.directory)
    transfer = Transfer(entry, Remote(URL), "/bucket/runs/x")
    for step, now in enumerate([2e9, 1e9, 0.0, 3e9]):
        log.scalar("loss", 1.0, step)
        log.flush()
        entry.directory.joinpath("state.json").write_text(f"{step:03d}")
        os.utime(entry.directory / "state.json", (now, now))
        transfer.push(now, everything=True)
        assert place.cat_file("/bucket/runs/x/state.json") == b"%03d" % step
    log.close()
    transfer.push(0.0, everything=True)
    transfer.compact()
    entry.forget()
    assert transfer.left() == (0, 0)
    assert steps_of("memory://bucket/runs") == [(1, [0, 1, 2, 3])]


# --- the bound of the spool -----------------------------------------------------------------------------


@pytest.mark.slow
def test_what_waits_is_bounded_and_what_found_no_room_is_counted(place, broken, monkeypatch):
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)
    monkeypatch.setenv("STEPSCOPE_SPOOL_BYTES", "3000000")
    monkeypatch.setattr(spools, "MEASURE_SECS", 0.0)
    broken.broken = ConnectionError("no route to host")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = ss.Run("brokenstore://bucket/x")
        heard = []
        run.listen(lambda tag, steps, values, walls: heard.append(len(steps)), ["loss"])
        for step in range(100_000):
            run.scalar("loss", 1.0, step)
            if step % 20_000 == 0:
                assert run.flush()
        run.flush()
        held = spools.folder_bytes(folder_of("brokenstore://bucket/x"))
        lost = run.problems["spool"]
        run.scalar("loss", 1.0, 100_000)
        run.close(timeout=1)
    assert 3_000_000 <= held < 4_500_000  # a chunk of points, and what the run says of itself
    assert 0 < lost < 100_000
    assert sum(heard) == 100_001  # the health rules go on
    said = " ".join(str(each.message) for each in caught)
    assert "its bound" in said
    assert "STEPSCOPE_SPOOL_BYTES" in said
    broken.broken = None
    run._uploader._thread.join(60)
    with store.open("brokenstore://bucket", cache=False) as log:
        found = log.run("x")
        read = [step for series in found.columns("loss") for step in series.step.tolist()]
        assert len(read) + run.problems["spool"] == 100_001
        assert read == list(range(len(read)))
        assert found.state == "finished"
        assert any("points were not recorded: spool" in each.text for each in found.problems)
    assert entries() == []


@pytest.mark.slow
def test_a_long_run_takes_no_more_room_than_the_bound_where_the_store_takes_it(place, monkeypatch):
    monkeypatch.setenv("STEPSCOPE_SPOOL_BYTES", "4000000")
    monkeypatch.setattr(spools, "MEASURE_SECS", 0.0)
    held = 0
    with ss.Run(URL) as run:
        for step in range(150_000):
            run.scalar("loss", float(step), step)
            if step % 10_000 == 9_999:
                assert run.flush()
                run._uploader.soon()
                until(lambda: not run._uploader.ended_files)
                held = max(held, spools.folder_bytes(folder_of(URL)))
    assert run.problems == {}
    assert held < 2_000_000  # the files that were ended are in the store, and not here
    [(attempt, *_), *_] = steps_of("memory://bucket/runs")
    assert attempt == 1
    with store.open("memory://bucket/runs", cache=False) as log:
        [series] = log.run("x").columns("loss")
        assert series.step.tolist() == list(range(150_000))
        assert series.value.tolist() == [float(step) for step in range(150_000)]
    assert len([name for name in names(place) if "tfevents" in name]) > 3
    assert entries() == []


def test_a_disk_that_is_nearly_full_is_left_to_others(tmp_path, monkeypatch):
    room = SpoolRoom(tmp_path, 1000)
    assert room.left(0.0) == 1000
    room.take(400)
    assert room.left(1.0) == 600
    monkeypatch.setattr(spools.shutil, "disk_usage", lambda path: types.SimpleNamespace(free=50, total=1000))
    assert room.left(3.0) == 0
    assert room.why == "the disk of the spool is nearly full"


def test_a_bound_that_is_no_number_is_a_mistake(monkeypatch):
    monkeypatch.setenv("STEPSCOPE_SPOOL_BYTES", "8GB")
    with pytest.raises(UsageError, match="expected a number of bytes"):
        ss.Run(URL)
    assert entries() == []
