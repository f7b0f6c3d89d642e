"""Every command that a finding prints runs as it stands, on paths and names with all that a shell reads."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from stepscope.analyze.advise import Facts, advise
from stepscope.cli import main
from stepscope.trace.load import load_trace

TRACES = Path(__file__).resolve().parents[3] / "shared" / "data" / "traces"
HERE = Path(__file__).resolve().parents[1] / "data" / "traces"
ODD = 'a run\'s "best" $HOME (copy) [1]'

EVERY = sorted(path for root in (HERE, TRACES) for folder in ("kineto", "critical_path", "xplane")
               for path in (root / folder).glob("[!.]*"))  # fmt: skip
EVERY += [path for path in (TRACES / "dlrm_8xv100",) if path.exists()]


@pytest.mark.parametrize("path", EVERY, ids=lambda path: "-".join(path.parts[-4:]))
def test_every_printed_command_runs(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / ODD / path.name
    place.parent.mkdir()
    (shutil.copytree if path.is_dir() else shutil.copyfile)(path, place)
    for finding in advise(Facts(load_trace(place, cache=False), path=str(place))).findings:
        command = finding.command
        words = shlex.split(command)
        assert words[0] == "stepscope", command
        assert str(place) in words, command
        assert main(words[1:]) == 0, command
        shown = capsys.readouterr().out
        assert shown.strip(), command
        if "-show_name_regexes" in words:  # and shows what it names
            assert re.search(words[words.index("-show_name_regexes") + 1], shown), command
        if "--lines" in words and "file" in finding.place:
            listed = shown.partition("where the training thread was")[2]
            assert f"{finding.place['file']}:{finding.place['line']}" in listed, shown
