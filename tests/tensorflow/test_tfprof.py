"""Random options on models of its own: the same text as the tfprof that runs in this process."""

import random
from pathlib import Path
from types import ModuleType

import pytest
from support.modules import load
from support.tfprof import advice_text, options_of

from stepscope.analyze.tfprof.advise import advise
from stepscope.analyze.tfprof.report import profile
from stepscope.errors import EmptyTraceError
from stepscope.trace.set import step_files
from stepscope.trace.tfprof import find_profile, read_graph

MODELS = ("dense", "loop", "devices", "convolution", "calls")
DRAWS = 40


@pytest.fixture(scope="module")
def models() -> ModuleType:
    tensorflow = pytest.importorskip("tensorflow", reason="asks the real tfprof")
    if not tensorflow.__version__.startswith("2.15."):
        pytest.skip("the real tfprof is asked in TensorFlow 2.15")
    return load(Path(__file__).parent / "tfprof_models.py")


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("op_log", [True, False], ids=["op_log", "graph_only"])
@pytest.mark.parametrize("gpu", ["", "streams", "no_streams"])
@pytest.mark.parametrize("name", MODELS)
def test_says_what_tfprof_says(models: ModuleType, name: str, gpu: str, op_log: bool, tmp_path: Path) -> None:
    traced = models.Traced(name, gpu=gpu)
    chance = random.Random(f"{name} {gpu} {op_log}")
    with traced.profiler(op_log=op_log):
        traced.write(tmp_path, op_log=op_log)
        read = find_profile(tmp_path)
        assert read is not None
        sources = {
            "ProfileProto": read(),
            "graph and RunMetadata": read_graph(
                tmp_path / "graph.pb", step_files(tmp_path), tmp_path / "tfprof_log" if op_log else None
            ),
        }
        for _ in range(DRAWS):
            view, options = models.random_options(chance)
            expected = models.answer(view, options, tmp_path / "view.txt")
            for kind, source in sources.items():
                try:
                    text = profile(view, source, options_of(options)).text
                except EmptyTraceError:
                    text = ""
                assert text == expected, (kind, view, options)
        for source in sources.values():
            assert advice_text(advise(source)) == models.advice()
