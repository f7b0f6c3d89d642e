"""Parts of advice, and what its answers hold; advise_cases.txt has what is advised about made traces."""

import numpy as np
import pytest

from stepscope.analyze.advise import RULES, Advice, Facts, Finding, _under, advise, joined, ordered
from stepscope.analyze.advise.activities import changed
from stepscope.analyze.advise.device import is_full_precision
from stepscope.analyze.advise.expensive import question_of
from stepscope.analyze.advise.lines import lines_of, lines_text
from stepscope.attribute.sampled import Sampled
from stepscope.attribute.spans import Spans
from stepscope.trace.model import Kind
from stepscope.trace.sampled import Samples
from stepscope.trace.tfprof import Profile, ProfileNode

STEP = 1_000_000


@pytest.fixture
def loaded(make):
    """Facts of three steps of 1 ms, each of which waits for data for 0.4 ms, and then computes."""
    events = []
    for step in range(3):
        at = step * STEP
        events += [
            make.event(f"ProfilerStep#{step}", Kind.STEP, at, STEP, step=step),
            make.event("data_loading", Kind.DATA_LOADING, at, 400_000),
            make.event("aten::mm", Kind.HOST_OP, at + 400_000, 590_000),
        ]
    return Facts(make.build(events))


def test_every_rule_is_there() -> None:
    assert [name for name, rule in RULES.items() if rule.check] == [
        "accelerator-utilization",
        "operation",
        "expensive-operation",
        "input-bound",
        "preprocessing",
        "compilation",
        "checkpoint",
        "logging",
        "evaluation",
        "blocking-call",
        "busy-machine",
        "host-callback",
        "between-steps",
        "communication-bound",
        "slow-rank",
        "hang",
        "host-bound",
        "sync-points",
        "small-kernels",
        "eager-operations",
        "unfused-optimizer",
        "dtype-hints",
        "memory-near-limit",
        "pageable-copies",
        "step-variation",
        "debug-setting",
        "double-precision",
        "too-many-threads",
        "interpreter-held",
        "host-arrays",
        "dense-gradient",
        "unused-gradients",
        "called-again",
        "passed-again",
        "computed-again",
        "process-messages",
        "recomputed",
        "growing-steps",
        "computed-each-step",
        "unused-results",
        "unused-option",
        "computed-longer",
        "product-order",
        "enlarged-first",
        "ignored-places",
        "scattered-rows",
        "weights-alone",
        "padding",
        "mostly-zeros",
    ]


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("volta_sgemm_128x64_nn", True),
        ("void implicit_convolve_sgemm<float, float, 1024, 6, 7, 3, 3, 5, 1, false, true, true>", True),
        ("ampere_sgemm_32x128_tn", True),
        ("cutlass_80_simt_sgemm_128x64_8x5_nn_align1", True),
        ("Cijk_Ailk_Bljk_SB_MT64x64x16", True),
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x256x64_MI16x16x1", False),
        ("ampere_bf16_s16816gemm_bf16_128x128", False),
        ("sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n", False),
        ("cutlass_80_tensorop_s1688gemm_128x256", False),
        ("volta_fp16_s884gemm_fp16_128x64", False),
        ("turing_h1688gemm_256x64", False),
    ],
)
def test_kernel_names_tell_their_precision(name: str, full: bool) -> None:
    assert is_full_precision(name) is full


def test_what_a_late_rank_waits_for_is_told_with_it_and_its_communication_is_not_a_cause() -> None:
    def one(rule, rank, gain):
        place = {"rank": rank}
        summary = f"{rule}; without it less"
        return Finding(rule, "medium", summary, {}, {}, "", gain_ns=gain, place=place, short=rule)

    late = one("slow-rank", 1, 9)
    mine, other = one("input-bound", 1, 5), one("input-bound", 0, 7)
    findings = [mine, one("communication-bound", 0, 8), other, one("slow-rank", 0, 6), late]
    rest = _under(late, findings)
    assert rest[:-1] == [mine, other]
    assert rest[-1].rule == "slow-rank"
    assert rest[-1].chain == ["input-bound"]
    assert _under(late, [other, late]) == [other, late]


def test_a_tfprof_profile_gets_tfprofs_rules_and_the_others_abstain() -> None:
    node = ProfileNode("BatchNorm/add", op="Add", types={"Add"})
    advice = advise(Facts(None, Profile(nodes={node.name: node})))
    assert [one.rule for one in advice.findings] == ["operation"]
    assert {one.rule for one in advice.abstained} >= {"input-bound", "host-bound", "accelerator-utilization"}
    assert (
        next(one for one in advice.abstained if one.rule == "input-bound").missing == "no timeline of events"
    )


def test_without_any_rule_nothing_was_judged() -> None:
    assert Advice([], []).text == "nothing could be judged\n"


@pytest.mark.parametrize(
    ("one", "wide", "left"),
    [
        # name, severity, gain, begin and end of its time
        (("eager-operations", "high", 60, 0, 60), ("small-kernels", "high", 80, 0, 80), ["eager-operations"]),
        (("eager-operations", "high", 30, 0, 30), ("small-kernels", "high", 80, 0, 80), ["small-kernels"]),
        (("eager-operations", "high", 60, 0, 60), ("small-kernels", "high", 80, 90, 170), None),
        (
            ("unfused-optimizer", "info", 60, 0, 60),
            ("small-kernels", "info", 80, 0, 80),
            ["unfused-optimizer"],
        ),
        # What it may be for is not known.
        (("computed-again", "info", 60, 0, 60), ("small-kernels", "info", 80, 0, 80), None),
        (("computed-again", "info", 75, 0, 60), ("small-kernels", "info", 80, 0, 80), ["computed-again"]),
        # Half of the time, but waits for a processor are most of it.
        (("unfused-optimizer", "info", 20, 0, 60), ("small-kernels", "info", 80, 0, 80), ["small-kernels"]),
        (("unfused-optimizer", "info", 60, 0, 60), ("eager-operations", "high", 80, 0, 80), None),
        (("input-bound", "high", 30, 0, 30), ("host-bound", "high", 80, 0, 80), None),
        (("growing-steps", "high", 60, 0, 60), ("python-overhead", "high", 80, 0, 80), ["growing-steps"]),
        (("sync-points", "high", 60, None, None), ("host-bound", "high", 80, None, None), ["sync-points"]),
        (("small-kernels", "high", 60, None, None), ("host-bound", "high", 80, None, None), ["host-bound"]),
    ],
)
def test_findings_about_the_same_time_are_one(one, wide, left) -> None:
    """The narrower one stays if it accounts for half of the wider one's time, else the wider one.

    One that is not sure of what the time is for has to gain as much as the wider one does in most steps.
    """
    narrow, about = (
        Finding(
            rule, severity, f"{rule}; without it 1 ms", {}, {}, "", gain_ns=gain, place={"rank": 0},
            gain_range_ns=(gain - 9, gain), short=rule,
            spans=None if begin is None else Spans.window(begin, end),
        )
        for rule, severity, gain, begin, end in (one, wide)
    )  # fmt: skip
    findings = joined([about, narrow])
    assert [each.rule for each in findings] == (left or [wide[0], one[0]])
    gone = {one[0], wide[0]} - {each.rule for each in findings}
    assert {told for each in findings for told in each.chain} == gone


@pytest.mark.parametrize(
    ("severity", "gain", "first", "verdict"),
    [
        ("info", 0.2, "expensive-operation", "no sure cause; of the step, 90% is aten::eigh at train.py:9"),
        ("info", 0.5, "small-kernels", "small ones; 0 more"),
        ("low", 0.04, "small-kernels", "small ones; 0 more"),
        (None, None, "expensive-operation",
         "no known cause above 3% of a step; of the step, 90% is aten::eigh at train.py:9"),
    ],
)  # fmt: skip
def test_the_largest_operation_comes_first_if_nothing_surely_saves_more(
    severity, gain, first, verdict
) -> None:
    """A change that is not sure counts half, the largest operation a quarter of its time."""
    part = {"name": "aten::eigh", "host_ratio": 0.9, "line": "train.py:9"}
    findings = [Finding("expensive-operation", "info", "", {"operators": [part]}, {}, "")]
    if severity:
        findings.append(Finding("small-kernels", severity, "small ones", {}, {}, "", gain_ratio=gain))
    advice = Advice(ordered(findings), [], ["host-bound"])
    assert (advice.findings[0].rule, advice.verdict) == (first, verdict.removesuffix("; 0 more"))


@pytest.mark.parametrize(
    ("compiled", "told"),
    [
        ([("f", ("a[1]", "b[2]")), ("g", ("c",)), ("f", ("a[1]", "b[3]"))], ["f, argument 1: b[2], b[3]"]),
        ([("f", ("a",)), ("f", ("a", "b"))], ["f: 1 arguments, 2 arguments"]),
        (
            [("f", ("a",)), ("f", ("a",))],
            [
                "f: the same shapes each time, so a static argument differs or the function is created anew "
                "each time"
            ],
        ),
        ([("f", ("a",)), ("g", ("a",))], []),
        ([], []),
    ],
)
def test_arguments_that_changed_between_compilations_are_told(compiled, told) -> None:
    assert changed(compiled) == told


def test_the_json_has_exactly_the_agreed_keys(loaded) -> None:
    advice = advise(loaded).as_dict()
    assert set(advice) == {"findings", "abstained", "judged", "caveats", "verdict"}
    keys = "rule severity summary evidence threshold action cost_ns cost_ratio gain_ns gain_ratio gain_from"
    assert {" ".join(one) for one in advice["findings"]} == {
        f"{keys} gain_range_ns place chain events command withdrawn"
    }
    assert {tuple(one) for one in advice["abstained"]} == {("rule", "missing")}


def test_the_text_of_advice(loaded, approved) -> None:
    approved.check("advise_texts", "a step that waits for data", advise(loaded).text)
    alone = Facts(loaded.timeline, path="runs/a b/t.json", ranks=(0,))
    approved.check("advise_texts", "of one rank, in a file of a run", advise(alone).text)


def test_lines_are_listed_with_their_share(loaded) -> None:
    assert lines_text(lines_of(loaded)).startswith("no line of the program's own code")
    times = np.arange(0, 3 * STEP, 50_000)
    stood, zeros = np.where(times % STEP >= 400_000, 1, 0), np.zeros(len(times), int)
    frames, stacks = ("/u/train.py(3): main", "/u/train.py(9): fetch"), ((0,), (0, 1))
    ran, unknown = np.full(len(times), 50_000), np.full(len(times), -1)
    worker = Samples(-1, times, times + 50_000, unknown, zeros, ((0,),), ("/u/data.py(7): get",), "/u")
    samples = Samples(0, times, times + 50_000, ran, stood, stacks, frames, "/u", (0,), workers=(worker,))
    facts = Facts(loaded.timeline)
    facts.__dict__["sampled"] = {0: Sampled(samples)}
    listed = lines_of(facts)
    own = [one for one in listed if one["file"] == "train.py"]
    assert {one["line"] for one in own} == {9, 3}
    assert sum(one["ratio"] for one in own) == pytest.approx(1, abs=0.02)
    text = lines_text(listed)
    assert text.index("train.py:9 fetch") < text.index("where loader workers were meanwhile")
    assert text.index("where loader workers were meanwhile") < text.index("data.py:7 get")


@pytest.mark.parametrize(
    ("names", "asked"),
    [
        (("aten::sort", "aten::argsort", "sort.12"), "topk"),
        (("aten::mm", "aten::addmm_", "aten::linear_backward", "dot_general.3", "MatMul"), "mostly zeros"),
        (("aten::_scaled_dot_product_flash_attention_for_cpu_backward",), "longest sequence"),
        (("aten::linalg_eigh", "aten::cholesky_solve", "aten::inverse"), "decompose"),
        (("aten::_fft_r2c", "fft.2", "aten::stft"), "prime factors"),
        (("aten::cat", "aten::stack", "concatenate.7"), "made once"),
        (("aten::mul_", "aten::sub", "multiply.4"), "broadcasting"),
        (("aten::native_layer_norm", "aten::copy_", "sorted", "resort", "aten::linspace", "multinomial"), ""),
    ],
)
def test_what_is_asked_about_the_operation_that_takes_most(names, asked):
    questions = {name: question_of(name) for name in names}
    assert [name for name, question in questions.items() if asked not in question] == []
    assert asked or not any(questions.values())
