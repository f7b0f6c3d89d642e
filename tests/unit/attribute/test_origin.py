"""Whose code a frame is: by where its file lay, or by its path, or by the names of common distributions."""

import sys
from types import ModuleType

import pytest

from stepscope.attribute.origin import Origin, Origins, origins, scripts_of
from stepscope.capture.places import places
from stepscope.trace.model import Kind
from stepscope.trace.sampled import Places

FOREIGN = [
    # XPlane: names of files alone
    ("$gen_dataset_ops.py:3008 iterator_get_next", Origin.LIBRARY),
    ("$math_ops.py:944 cast", Origin.LIBRARY),
    ("$function_type.py:188 __init__", Origin.LIBRARY),
    ("$array_creation.py:98 ones", Origin.LIBRARY),
    ("$pjit.py:211 _cpp_pjit", Origin.LIBRARY),
    ("$fromnumeric.py:2080 _shape_dispatcher", Origin.LIBRARY),
    ("$threading.py:637 wait", Origin.INTERPRETER),
    ("$train.py:7 step", Origin.USER),
    # Kineto: paths within the folder of packages
    ("torch/nn/modules/module.py(1773): _wrapped_call_impl", Origin.LIBRARY),
    ("deepspeed/runtime/engine.py(80): step", Origin.LIBRARY),
    ("multiprocessing/connection.py(390): _recv", Origin.INTERPRETER),
    ("train.py(31): main", Origin.USER),
    ("nets/math_ops.py(9): cast", Origin.USER),
    # whole paths
    ("/v/lib/python3.12/site-packages/flax/core.py(3): apply", Origin.LIBRARY),
    ("/usr/lib/python3/dist-packages/yaml/__init__.py(3): dump", Origin.LIBRARY),
    ("/usr/lib/python3.12/queue.py(154): get", Origin.INTERPRETER),
    ("/home/ann/nets/math_ops.py(9): cast", Origin.USER),
    ("/home/ann/keras/train.py(9): step", Origin.USER),
    ("stepscope/record/run.py(9): step", Origin.PROFILER),
    # code without a file
    ("<stdin>(8): slow_loader", Origin.USER),
    ("<ipython-input-4-0f3a>(2): <module>", Origin.USER),
    ("<string>(2): __init__", Origin.INTERPRETER),
    ("<frozen importlib._bootstrap>(8): load", Origin.UNKNOWN),
    ("<attrs generated init train.Config>(8): load", Origin.UNKNOWN),
    ("/tmp/__autograph_generated_file1x.py(22): loop_body", Origin.INTERPRETER),
    ("/tmp/torchinductor_me/ob/cob.py(22): loop_body", Origin.INTERPRETER),
    ("/tmp/mine.py(22): loop_body", Origin.USER),
    ("aten::mm", Origin.UNKNOWN),
]


@pytest.mark.parametrize(("frame", "origin"), FOREIGN)
def test_a_path_tells_whose_code_it_is(frame: str, origin: Origin) -> None:
    assert Origins().of(frame) == origin


@pytest.mark.parametrize(
    ("frame", "origin"),
    [
        ("$optimizer.py:7 step", Origin.USER),  # the frameworks have such a file, too
        ("$math_ops.py:944 cast", Origin.LIBRARY),
        ("$brandnew.py:9 call", Origin.LIBRARY),  # a file that no list knows, and that the user has not
        ("$queue.py:154 get", Origin.INTERPRETER),
        ("keras/optimizer.py(7): step", Origin.USER),  # a folder of the user's that is called like a package
        ("keras/src/layer.py(7): call", Origin.LIBRARY),
        ("brandnew/core.py(7): call", Origin.LIBRARY),
        ("/opt/packages/brandnew/core.py(7): call", Origin.LIBRARY),
        ("/job/keras/optimizer.py(7): step", Origin.USER),
    ],
)
def test_where_files_lay_decides(frame: str, origin: Origin) -> None:
    lay = Places(
        ("/opt/packages/", "/usr/lib/python3.12/"),
        frozenset({"keras", "brandnew", "queue"}),
        frozenset({"/job/keras/optimizer.py"}),
    )
    assert Origins(lay).of(frame) == origin


def test_the_directory_of_the_program_is_the_users() -> None:
    here = Origins(directory="/lib/python3/job")
    assert here.is_own("/lib/python3/job/a.py(1): f")
    assert not here.is_own("/lib/python3/job/.venv/a.py(1): f")
    assert not here.is_own("/lib/python3/other/a.py(1): f")


def test_the_file_that_ran_as_the_program_is_the_users(make) -> None:
    trace = make.build(
        [
            make.event("profile.py(3): <module>", Kind.PYTHON_FRAME, 0, 10),
            make.event("profile.py(9): fit", Kind.PYTHON_FRAME, 1, 5),
            make.event("queue.py(9): <module>", Kind.PYTHON_FRAME, 2, 2),
        ]
    )
    assert origins(trace).is_own("profile.py(9): fit")
    assert not origins(trace).is_own("queue.py(9): <module>")
    assert scripts_of(["train.py(3): main"]) == frozenset()


def test_a_process_tells_where_its_code_lies(tmp_path, monkeypatch) -> None:
    (tmp_path / "target" / "brandnew-1.dist-info").mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "target"), str(tmp_path / "missing")])
    loaded = {}
    for name, file in [
        ("brandnew.core", "target/brandnew/core.py"), ("train", "train.py"), ("_native", "target/native.so"),
    ]:  # fmt: skip
        loaded[name] = ModuleType(name)
        loaded[name].__file__ = str(tmp_path / file)
    loaded["torch.ops"] = ModuleType("torch.ops")
    loaded["torch.ops"].__file__ = "_ops.py"  # a namespace, not a file
    loaded["sys"], loaded["queue"] = sys, sys.modules["queue"]
    found = places(loaded)
    assert found["installed"] == ["brandnew", "queue"]
    assert found["own"] == [str(tmp_path / "train.py")]
    assert f"{tmp_path}/target/" in found["folders"]
    assert f"{tmp_path}/" not in found["folders"]
