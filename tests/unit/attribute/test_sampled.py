"""What is told by sampled stacks: the user's line, what waited, and nothing that was seen too seldom."""

from dataclasses import replace

import numpy as np
import pytest

from stepscope.attribute.activity import Activities
from stepscope.attribute.purpose import Purpose
from stepscope.attribute.sampled import Sampled
from stepscope.attribute.spans import Spans
from stepscope.attribute.table import ACTIVITIES
from stepscope.trace.sampled import Samples

HOME = "/home/u/torch"  # a folder with a library's name
MAIN, LOAD = f"{HOME}/train.py(3): main", f"{HOME}/datasets/files.py(9): load"
LOADER = "/v/lib/python3.11/site-packages/torch/utils/data/dataloader.py(701): __next__"
SAVE = "/v/lib/python3.11/site-packages/torch/serialization.py(967): save"
COMPILE = "/v/lib/python3.11/site-packages/jax/_src/compiler.py(350): backend_compile"
TRACED = f"{HOME}/model.py(5): loss"
VENV = f"{HOME}/.venv/lib/code.py(5): run"
FRAMES = (MAIN, LOAD, LOADER, SAVE, COMPILE, TRACED, VENV)
STACKS = ((), (0,), (0, 2, 1), (0, 3), (0, 4, 5), (0, 6))


def sampled(*stacks: int, cpu=10, directory=HOME) -> Sampled:
    """Samples of 10 ns each."""
    at = np.arange(len(stacks)) * 10
    return Sampled(
        Samples(0, at, at + 10, np.full(len(stacks), cpu), np.array(stacks), STACKS, FRAMES, directory)
    )


def everything() -> Spans:
    return Spans.window(0, 1000)


def test_the_innermost_line_of_the_users_code_is_named_shortly() -> None:
    lines = sampled(1, 2, 2, 2).lines(everything())
    assert [(str(one.line), one.time_ns, one.rows) for one in lines] == [
        ("datasets/files.py:9 load", 30, 3),
        ("train.py:3 main", 10, 1),
    ]


def test_only_the_asked_time_counts() -> None:
    assert sampled(1, 2, 2, 2).lines(Spans.window(0, 35))[0].time_ns == 25


def test_a_stack_taken_after_a_time_is_no_line_of_it() -> None:
    """The loader ran in 35 of 60 ns; at 40 the thread had gone on, whatever the sample before had seen."""
    seen = sampled(2, 2, 2, 1, 1, 1)
    assert [(one.line.function, one.time_ns) for one in seen.lines(Spans.window(0, 35))] == [("load", 30)]
    assert [(one.line.function, one.time_ns) for one in seen.lines(Spans.window(35, 60))] == [("main", 25)]
    short = Spans.of(np.array([5, 15, 25]), np.array([8, 18, 28]))
    assert sampled(1, 1, 1, 1).lines(short) == [], "no stack was taken in these times"


def test_what_is_around_all_steps_is_no_activity_of_them() -> None:
    """A program may save a model in a function in which it also evaluates it."""

    def saves(text: str) -> int:
        return 1 if text == SAVE else -1

    inside = sampled(3, 3)
    assert inside.of_frames(saves)[3] == 1
    assert Sampled(replace(inside.samples, around=(3, 3))).of_frames(saves)[3] == -1
    loop = Sampled(replace(inside.samples, around=(1, 3)))  # main alone
    assert loop.of_frames(saves)[3] == 1


def test_a_line_is_told_with_the_lines_that_call_it() -> None:
    seen = sampled(2, 2, 1)
    load, main = (one.line for one in sampled(2, 2, 2, 1).lines(everything()))
    assert [str(one) for one in seen.callers(load)] == ["train.py:3 main"]
    assert seen.callers(main) == []
    # What is around all steps calls everything.
    assert Sampled(replace(seen.samples, around=(1,))).callers(load) == []


def test_a_loop_is_the_line_around_all_that_was_seen_of_it() -> None:
    lines = sampled(2, 1, 2, 1, 2).around_all(Spans.of(np.array([0, 40]), np.array([40, 50])))
    assert [(str(one.line), one.time_ns, one.rows) for one in lines] == [("train.py:3 main", 40, 4)]


def test_two_samples_are_no_line() -> None:
    assert sampled(2, 2).lines(everything()) == []


def test_environments_below_the_programs_directory_are_not_its_code() -> None:
    assert [str(one.line) for one in sampled(5, 5, 5).lines(everything())] == ["train.py:3 main"]


def test_the_line_around_compiling_is_the_call_not_what_is_traced() -> None:
    found = sampled(4, 4, 4)
    assert str(found.lines(everything())[0].line) == "model.py:5 loss"
    around = found.lines(everything(), around=lambda text: text == COMPILE)
    assert str(around[0].line) == "train.py:3 main"


def test_a_thread_without_a_processor_waits() -> None:
    assert sampled(1, 1, 1, cpu=1).waiting.measure_ns == 30
    assert sampled(1, 1, 1, cpu=1).working.measure_ns == 0
    assert sampled(1, 1, 1, cpu=9).working.measure_ns == 30
    unknown = sampled(1, 1, 1, cpu=-1)
    assert unknown.waiting.measure_ns == unknown.working.measure_ns == 0


@pytest.mark.parametrize(("times", "expected"), [(3, 30), (2, 0)])
def test_activities_are_seen_where_enough_samples_tell(make, times, expected) -> None:
    trace = make.build([make.event("aten::add", make.Kind.HOST_OP, 0, 5)])
    activities = Activities(trace, [sampled(1, *[3] * times)])
    assert activities.spans(0, Purpose.SAVING).measure_ns == expected
    assert activities.spans(0).measure_ns == expected


def test_what_an_event_says_comes_before_samples(make) -> None:
    trace = make.build([make.event("data_loading", make.Kind.DATA_LOADING, 0, 30)])
    activities = Activities(trace, [sampled(3, 3, 3, 3)])
    assert activities.spans(0, Purpose.LOADING).measure_ns == 30
    assert activities.spans(0, Purpose.SAVING).measure_ns == 10


def test_lines_of_workers_are_summed_over_them() -> None:
    one, two = sampled(1, 2, 2, 2).samples, sampled(2, 2, 2, 2, 2).samples
    main = Sampled(replace(sampled(1, 1, 1).samples, workers=(one, two)))
    assert [(str(each.line), each.time_ns, each.rows) for each in main.worker_lines(everything())] == [
        ("datasets/files.py:9 load", 80, 8),
        ("train.py:3 main", 10, 1),
    ]
    assert main.worker_lines(Spans.window(500, 600)) == []


def late(gap_ns: int, ran_ns: int) -> Sampled:
    """One sample that came late, in another function than the one before."""
    at = np.array([0, 1_000_000, 1_000_000 + gap_ns])
    return Sampled(
        Samples(
            0, at[:-1], at[1:], np.array([1_000_000, ran_ns]), np.array([1, 2]), STACKS, FRAMES, HOME,
            interval_ns=1_000_000,
        )
    )  # fmt: skip


def test_a_call_that_lets_nobody_run_is_counted_whole() -> None:
    """A garbage collection of 80 ms is one sample, when it is over."""
    everything = Spans.window(0, 1_000_000_000)
    lines = late(80_000_000, 79_000_000).lines(everything)
    assert (str(lines[0].line), lines[0].time_ns) == ("datasets/files.py:9 load", 80_000_000)
    assert late(80_000_000, 79_000_000).where_stack(np.arange(len(STACKS)) == 2).measure_ns == 80_000_000


@pytest.mark.parametrize(("gap", "ran"), [(80_000_000, 20_000_000), (8_000_000, 8_000_000)])
def test_a_late_sample_of_a_thread_that_may_have_gone_on_is_not(gap, ran) -> None:
    """It waited while another thread had the interpreter, or it is within what Python code may take."""
    assert late(gap, ran).lines(Spans.window(0, 1_000_000_000)) == []


def calling(*texts: str, own="/u/train.py(9): keep") -> Sampled:
    """Samples of 10 ns each in the loop; each stands in a line that calls what is given, "" nothing."""
    frames = ["/u/train.py(3): main", own, *dict.fromkeys(text for text in texts if text)]
    stacks = tuple((0, 1, *([frames.index(text)] if text else [])) for text in texts)
    at = np.arange(len(texts)) * 10
    ran, stood = np.full(len(texts), 10), np.arange(len(texts))
    return Sampled(Samples(0, at, at + 10, ran, stood, stacks, tuple(frames), "/u"))


@pytest.mark.parametrize(
    ("text", "activity"),
    [
        ("<call of pickle.dump>", Purpose.SAVING),
        ("<call of cloudpickle.dumps>", Purpose.SAVING),
        ("<call of joblib.dump>", Purpose.SAVING),
        ("<call of weights.tofile>", Purpose.SAVING),
        ("/v/lib/python3.11/site-packages/flax/serialization.py(3): to_bytes", Purpose.SAVING),
        ("<call of print>", Purpose.LOGGING),
        ("<call of .writerows>", Purpose.LOGGING),
        ("<call of sys.stdout.write>", Purpose.LOGGING),
        ("<call of file.write>", Purpose.LOGGING),
        ("<call of json.dumps>", Purpose.LOGGING),
        ("<call of orjson.dumps>", Purpose.LOGGING),
        ("<call of cv2.imwrite>", Purpose.LOGGING),
        ("/u/lib/python3.11/pathlib.py(9): write_text", Purpose.LOGGING),
        ("/u/lib/python3.11/json/__init__.py(9): dump", Purpose.LOGGING),
        ("/v/site-packages/pandas/core/generic.py(9): to_csv", Purpose.LOGGING),
        ("/v/site-packages/pandas/core/frame.py(9): to_parquet", Purpose.LOGGING),
        ("/v/site-packages/polars/dataframe/frame.py(9): write_ndjson", Purpose.LOGGING),
        ("/v/site-packages/pyarrow/parquet/core.py(9): write_table", Purpose.LOGGING),
        ("/v/site-packages/PIL/Image.py(9): save", Purpose.LOGGING),
        ("/v/site-packages/torchvision/utils.py(9): save_image", Purpose.LOGGING),
        ("/v/site-packages/imageio/v3.py(9): imwrite", Purpose.LOGGING),
        ("/v/site-packages/PIL/Image.py(9): resize", Purpose.PREPROCESSING),
        ("/v/site-packages/pandas/core/frame.py(9): to_numpy", None),
        ("/v/site-packages/pandas/io/parsers/readers.py(9): read_csv", None),
        ("/u/lib/python3.11/json/__init__.py(9): loads", None),
        ("<call of orjson.loads>", None),
        ("<call of memory.rewrite>", None),
        ("/u/lib/python3.11/pathlib.py(9): read_text", None),
        ("/v/site-packages/torch/_functorch/vmap.py(9): vmap_impl", None),
        ("/v/site-packages/torch/_functorch/eager_transforms.py(9): grad_impl", None),
        ("/v/site-packages/torch/_functorch/_aot_autograd/graph_capture.py(9): capture", Purpose.COMPILING),
        ("/v/site-packages/torch/_functorch/_aot_autograd/runtime_wrappers.py(9): wrap", None),
        ("/v/site-packages/torch/_functorch/partitioners.py(9): cut", Purpose.COMPILING),
        ("/v/site-packages/torch/_inductor/graph.py(9): run", Purpose.COMPILING),
        ("/v/site-packages/torch/_dynamo/eval_frame.py(9): _fn", None),
        ("/v/site-packages/transformers/trainer.py(9): evaluate", Purpose.EVALUATING),
        ("/v/site-packages/transformers/trainer.py(9): _maybe_log_save_evaluate", None),
        ("<call of sorted>", None),
        ("<call of pickle.load>", None),
        ("<call of blueprint>", None),
        ("<call of file.read>", None),
        ("", None),
    ],
)
def test_what_a_line_calls_tells_what_it_is_for(make, text, activity) -> None:
    """Whatever the functions of the program are called."""
    trace = make.build([make.event("aten::add", make.Kind.HOST_OP, 0, 1)])
    activities = Activities(trace, [calling(*[text] * 4)])
    for each in {rule.purpose for rule in ACTIVITIES}:
        assert activities.spans(0, each).measure_ns == (40 if each is activity else 0)


def test_a_call_within_the_loop_itself_is_seen() -> None:
    """The function in which the steps begin is not an activity; what a line of it calls may be one."""
    loop = calling("<call of run.step>", *["<call of pickle.dump>"] * 3)
    around = Sampled(replace(loop.samples, around=(0, 0)))
    assert around._around == ["/u/train.py: main", "/u/train.py: keep", "<call of run.step>"]
    assert around.of_frames(lambda text: 1 if "pickle" in text else -1).tolist() == [-1, 1, 1, 1]


def test_python_of_a_package_that_ran_in_some_time_is_found_anywhere() -> None:
    """The user's own code and another package's are none of it, and so is the user's code that it calls."""
    seen = sampled(2, 3, 4, 3, 3, 1, 5, 3)
    # LOADER and SAVE are of torch, but LOADER calls the user's own code; COMPILE is JAX's and calls it, too.
    assert seen.in_packages_of(Spans.window(10, 20)).measure_ns == 40
    assert seen.in_packages_of(Spans.window(50, 60)).measure_ns == 0
    assert seen.in_packages_of(Spans.window(0, 10)).measure_ns == 0


def test_the_package_that_most_of_some_time_is_in_is_named_and_none_of_no_time() -> None:
    seen = sampled(1, 3, 3, 3)
    assert seen.package_in(everything()) == ("torch", 0.75)
    assert seen.package_in(Spans.empty())[1] == 0.0
    assert sampled(1, 1).package_in(everything()) == ("", 0.0)
