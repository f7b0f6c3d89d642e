"""Every golden answer of the real tfprof (TensorFlow 2.15.1), to the byte."""

import json
from pathlib import Path

import pytest
from support.recordings import recorded
from support.tfprof import advice_text, options_of

from stepscope.analyze.tfprof.advise import advise
from stepscope.analyze.tfprof.report import profile
from stepscope.trace.tfprof import Profile, read_profile

DATA = recorded("tfprof")
MODELS = ("wide_deep", "convnet")
SETS = sorted({path.stem for path in DATA.glob("*/*.json")})


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest) -> tuple[Path, Profile]:
    folder = DATA / request.param
    return folder, read_profile(folder / "profile.context")


@pytest.mark.parametrize("name", SETS)
def test_view_is_what_tfprof_wrote(model: tuple[Path, Profile], name: str) -> None:
    folder, source = model
    options = json.loads((folder / f"{name}.json").read_text())
    view = options.pop("view")
    assert profile(view, source, options_of(options)).text == (folder / f"{name}.txt").read_text()


def test_all_sets_were_found() -> None:
    assert len(SETS) == 10


def test_advice_is_what_tfprof_gave(model: tuple[Path, Profile]) -> None:
    folder, source = model
    assert advice_text(advise(source)) == (folder / "advise.txt").read_text()
