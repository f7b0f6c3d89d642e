"""``stepscope.compat.install`` and ``python -m stepscope.compat``, each in a separate process."""

import subprocess
import sys
import textwrap

import pytest

import stepscope as ss


def python(code, *arguments, cwd, expect=0):
    command = [sys.executable, *(["-c", textwrap.dedent(code)] if code else []), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=300, check=False)
    assert done.returncode == expect, done.stderr
    return done


@pytest.mark.slow
def test_imports_of_the_originals_find_the_stand_ins(tmp_path):
    pytest.importorskip("tensorboard")
    pytest.importorskip("tensorboardX")
    python(
        """
        import sys
        import stepscope.compat
        stepscope.compat.install()
        stepscope.compat.install()
        assert "torch" not in sys.modules and "tensorboardX" not in sys.modules
        import tensorboardX
        from tensorboardX.writer import SummaryWriter
        from tensorboardX.proto.summary_pb2 import Summary  # the original's own
        from tensorboardX.summary import hparams, scalar
        assert tensorboardX.SummaryWriter is SummaryWriter is stepscope.compat.SummaryWriter
        assert tensorboardX.GlobalSummaryWriter is stepscope.compat.GlobalSummaryWriter
        assert tensorboardX.RecordWriter.__module__ == "tensorboardX.record_writer"
        assert isinstance(scalar("a", 1.0), Summary)
        assert tensorboardX.__version__[0].isdigit()
        assert not hasattr(tensorboardX, "nothing")
        import importlib.util
        assert importlib.util.find_spec("tensorboardX") is not None
        import torch.utils.tensorboard
        from torch.utils import tensorboard
        from torch.utils.tensorboard import FileWriter, SummaryWriter, summary
        assert torch.utils.tensorboard is tensorboard
        assert SummaryWriter is stepscope.compat.SummaryWriter
        assert summary.__file__.endswith("torch/utils/tensorboard/summary.py")
        with SummaryWriter("run") as writer:
            writer.add_scalar("a", 1.0, 1)
            writer._get_file_writer().add_summary(summary.scalar("b", 2.0), 1)
        """,
        cwd=tmp_path,
    )
    with ss.open(tmp_path) as log:
        assert {"a", "b"} <= set(log.run("run").tags())


@pytest.mark.slow
def test_an_original_that_was_imported_before_is_replaced_in_its_package(tmp_path):
    pytest.importorskip("tensorboard")
    python(
        """
        import torch.utils.tensorboard, tensorboardX
        from tensorboardX import SummaryWriter as bound
        import stepscope.compat
        stepscope.compat.install()
        assert torch.utils.tensorboard.SummaryWriter is stepscope.compat.SummaryWriter
        from tensorboardX import SummaryWriter
        assert SummaryWriter is stepscope.compat.SummaryWriter is not bound
        """,
        cwd=tmp_path,
    )


@pytest.mark.slow
@pytest.mark.parametrize("package", ["tensorboardX", "torch.utils.tensorboard"])
def test_neither_original_has_to_be_installed(package, tmp_path):
    python(
        f"""
        import sys
        from importlib.machinery import PathFinder
        found = PathFinder.find_spec
        def find_spec(name, *arguments):  # as if neither were installed
            hidden = name.partition(".")[0] in ("tensorboard", "tensorboardX")
            return None if hidden else found(name, *arguments)
        PathFinder.find_spec = find_spec
        import stepscope.compat
        stepscope.compat.install()
        from {package} import SummaryWriter
        from {package}.summary import hparams
        with SummaryWriter("run") as writer:
            for record in hparams({{"lr": 0.5, "on": True}}, {{"loss": 1.0}}):
                writer._get_file_writer().add_summary(record)
        assert "tensorboard" not in sys.modules
        import {package} as package
        assert package.__version__
        assert not hasattr(package, "TorchVis")
        """,
        cwd=tmp_path,
    )
    with ss.open(tmp_path) as log:
        assert log.run("run").info.config == {"lr": 0.5, "on": 1.0}


PROGRAM = """
import sys
from tensorboardX import SummaryWriter
import beside
assert __name__ == "__main__"
with SummaryWriter(sys.argv[1]) as writer:
    writer.add_scalar("loss", 1.0, 1)
print(sys.argv, SummaryWriter.__module__, beside.__name__)
"""


@pytest.mark.parametrize("named", [["folder/program.py"], ["-m", "program"]], ids=["script", "module"])
def test_a_program_runs_unchanged(named, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "program.py").write_text(PROGRAM)
    (folder / "beside.py").write_text("")
    cwd = folder if named[0] == "-m" else tmp_path
    done = python(None, "-m", "stepscope.compat", *named, "run", "--verbose", cwd=cwd)
    assert "'run', '--verbose'] stepscope.compat.writer beside" in done.stdout
    with ss.open(cwd / "run") as log:
        assert "loss" in log.run(".").tags()


@pytest.mark.parametrize("named", [[], ["-m"], ["--help"]])
def test_without_a_program_it_says_how_it_is_used(named, tmp_path):
    done = python(None, "-m", "stepscope.compat", *named, cwd=tmp_path, expect=2)
    assert "usage: python -m stepscope.compat SCRIPT" in done.stderr
    assert "hint: " in done.stderr


def test_what_a_program_raises_and_its_exit_status_are_its_own(tmp_path):
    (tmp_path / "program.py").write_text("import sys\nsys.exit(7)\n")
    python(None, "-m", "stepscope.compat", "program.py", cwd=tmp_path, expect=7)
