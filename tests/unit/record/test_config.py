import argparse
import dataclasses
import enum
import json
import math
import pathlib
import types

import numpy as np
import pytest

from stepscope.errors import UsageError
from stepscope.record.config import MAX_ITEMS, MAX_TEXT, SCRUBBED, directory, flat, parent_from, plain


@dataclasses.dataclass
class Model:
    width: int = 64
    dropout: float = 0.1


class Mode(enum.Enum):
    FAST = "fast"


def test_mappings_dataclasses_and_namespaces():
    assert plain({"lr": 0.1, "model": Model()}) == {"lr": 0.1, "model": {"width": 64, "dropout": 0.1}}
    assert plain(argparse.Namespace(lr=0.1)) == {"lr": 0.1}
    assert plain(types.SimpleNamespace(lr=0.1)) == {"lr": 0.1}
    assert plain(Model()) == {"width": 64, "dropout": 0.1}


def test_anything_else_is_kept_under_its_own_name():
    assert plain(3) == {"config": 3}


def test_values_that_json_does_not_know():
    config = plain(
        {
            "path": pathlib.PurePosixPath("/data"),
            "nan": math.nan,
            "number": np.float32(0.5),
            "flag": np.bool_(True),
            "mode": Mode.FAST,
            "activation": math.tanh,
            "layers": (1, 2, {"a": None}),
            4: "four",
            "bytes": b"ab",
        }
    )
    assert config == {
        "path": "/data",
        "nan": "nan",
        "number": 0.5,
        "flag": True,
        "mode": "<Mode.FAST: 'fast'>",
        "activation": "math.tanh",
        "layers": [1, 2, {"a": None}],
        "4": "four",
        "bytes": "b'ab'",
    }
    json.dumps(config, allow_nan=False)


def test_secrets_are_taken_out():
    config = plain(
        {"api_key": "abc", "db": {"password": "p", "url": "http://u:p@h/"}, "max_tokens": 7, "key": 3}
    )
    assert config == {
        "api_key": SCRUBBED,
        "db": {"password": SCRUBBED, "url": f"http://{SCRUBBED}@h/"},
        "max_tokens": 7,
        "key": 3,
    }


def test_long_things_are_cut_and_say_so():
    config = plain(
        {"text": "x" * 5_000, "list": list(range(5_000)), "map": {str(i): i for i in range(5_000)}}
    )
    assert config["text"] == "x" * MAX_TEXT + "… 4,000 more characters"
    assert config["list"][-1] == "… 4000 more"
    assert len(config["list"]) == MAX_ITEMS + 1
    assert config["map"]["…"] == "4000 more"


def test_a_config_that_holds_itself_ends():
    config: dict[str, object] = {}
    config["me"] = config
    json.dumps(plain(config))


def test_a_repr_that_raises_is_no_problem():
    class Bad:
        def __repr__(self) -> str:
            raise RuntimeError

    assert plain({"bad": Bad()}) == {
        "bad": "<test_a_repr_that_raises_is_no_problem.<locals>.Bad whose repr raised RuntimeError>"
    }


@pytest.mark.parametrize(
    ("config", "found"),
    [
        (
            {"lr": 0.1, "model": {"width": 64, "name": "mlp"}, "amp": True},
            {"lr": 0.1, "model.width": 64.0, "model.name": "mlp", "amp": True},
        ),
        (
            {"seed": 2**60, "none": None, "list": [1, 2], "empty": {}},
            {"seed": str(2**60), "list": "[1, 2]", "empty": "{}"},
        ),
    ],
)
def test_flat_parameters(config, found):
    assert flat(config) == found


def test_a_relative_path_where_the_working_directory_was_deleted_is_a_mistake(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(UsageError, match="a working directory that was deleted"):
        directory("runs/first")
    assert directory(tmp_path / "run") == str(tmp_path / "run")


@pytest.mark.parametrize("parent", ["", 7])
def test_a_parent_is_a_run_or_names_one(parent):
    with pytest.raises(UsageError, match="parent must be a Run"):
        parent_from("/runs/a", parent)
