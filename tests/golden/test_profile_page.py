"""The endpoints of the Profile page on real profiles: the same numbers as the command line."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from support.recordings import recorded, whole

from stepscope.cli.session import ProfileSession
from stepscope.cli.source import ProfileSource
from stepscope.serve.profiles.compare import compare
from stepscope.serve.profiles.kernels import kernels
from stepscope.serve.profiles.memory import memory
from stepscope.serve.profiles.open_profiles import OpenProfile, Profiles
from stepscope.serve.profiles.tree import OP_ROWS, tree

RESNET = "traces/kineto/resnet50_v100_workers0.json.gz"


@pytest.fixture(scope="module")
def opened():
    known: dict[Path, Profiles] = {}

    def get(path: str, find: Callable[[str], Path] = recorded) -> OpenProfile:
        root = find(path).parents[path.count("/")]
        return known.setdefault(root, Profiles(root, cache=False)).get(path)

    return get


def of_command(path: str, view: str, options: dict[str, str], steps: str = "") -> dict:
    words = [word for name, value in options.items() for word in (f"-{name}", value)]
    return ProfileSession(ProfileSource(recorded(path), cache=False, steps=steps)).run([view, *words]).data


@pytest.mark.parametrize("view", ["scope", "graph", "op", "code"])
@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({"order_by": "micros"}, ""),
        ({"order_by": "occurrence", "min_micros": "200", "max_depth": "6"}, ""),
        ({"order_by": "name", "show_name_regexes": ".*(conv|batch).*",
          "account_displayed_op_only": "true"}, "5-6"),
        ({"order_by": "peak_bytes", "select": "micros,bytes,peak_bytes", "min_bytes": "1"}, "6"),
        ({"order_by": "cpu_micros", "account_type_regexes": "kernel,memcpy",
          "hide_name_regexes": "Memcpy.*"}, ""),
    ],
)  # fmt: skip
def test_a_view_has_the_numbers_of_the_command(opened, view, options, steps):
    shown = tree(opened(RESNET), view, options, steps)
    asked = {
        **options,
        **({"max_depth": str(OP_ROWS)} if view == "op" and "max_depth" not in options else {}),
    }
    said = of_command(RESNET, view, asked, steps)
    assert shown.denominator == said["denominator"]
    assert [(row.name, row.depth) for row in shown.rows] == [
        (row["name"], row["depth"]) for row in said["rows"]
    ]
    keys = [column.key for column in shown.columns]
    for mine, theirs in zip(shown.rows, said["rows"], strict=True):
        for key, value in zip(keys, mine.values, strict=True):
            assert value == (None if theirs[key] is None else pytest.approx(theirs[key], rel=1e-6, abs=1e-6))


@pytest.mark.parametrize("view", ["scope", "graph", "op", "code"])
@pytest.mark.parametrize("model", ["convnet", "wide_deep"])
@pytest.mark.parametrize(
    "options",
    [
        {"order_by": "micros", "select": "micros,bytes,params,float_ops,occurrence"},
        {"order_by": "float_ops", "min_float_ops": "1", "account_displayed_op_only": "true",
         "select": "float_ops"},
        {"order_by": "bytes", "step": "1", "min_bytes": "1000", "select": "bytes,peak_bytes,residual_bytes"},
    ],
)  # fmt: skip
def test_tfprofs_own_profile_has_tfprofs_numbers(opened, view, model, options):
    path = f"tfprof/{model}/profile.context"
    shown = tree(opened(path), view, options)
    assert shown.source == "tfprof"
    said = of_command(path, view, {**options, **({"max_depth": str(OP_ROWS)} if view == "op" else {})})
    metrics = [name for name in ("micros", "bytes", "float_ops") if name in options["select"].split(",")]
    keys = [column.key for column in shown.columns]
    for mine, theirs in zip(shown.rows, said["rows"], strict=True):
        assert (mine.name, mine.depth) == (theirs["name"], theirs["depth"])
        for metric in metrics:
            scale = 1000 if metric == "micros" else 1
            key = "total_ns" if metric == "micros" else metric
            if view == "op":
                assert mine.values[keys.index(key)] == theirs["own"][metric] * scale
            else:
                place = keys.index(key if metric == "micros" else f"{key}_all")
                assert mine.values[place] == theirs["total"][metric] * scale
                own = theirs["own"][metric] * scale if theirs["accounted"] else None
                assert mine.values[place + 1] == own


def test_one_step_of_tfprofs_own_is_its_option(opened):
    profile = opened("tfprof/convnet/profile.context")
    one, same = tree(profile, "op", {}, "1"), tree(profile, "op", {"step": "1"})
    assert one.rows == same.rows
    assert one.rows != tree(profile, "op", {}).rows


@pytest.mark.parametrize(
    "name", ["resnet50_v100_workers0", "v100_rank1of2", "a100_ddp_rank0of2", "b200_rank0of8"]
)
def test_kernels_add_up_to_the_kernel_view(opened, name):
    path = f"traces/kineto/{name}.json.gz"
    said = kernels(opened(path))
    view = of_command(path, "kernel", {"order_by": "accelerator_micros", "max_depth": "10000"})["rows"]
    assert said.step_mean_ns == pytest.approx(view[0]["device_ns"])
    by_name: dict[str, float] = {}
    for row in said.rows:
        by_name[row.name] = by_name.get(row.name, 0) + row.step_mean_ns
    assert by_name == pytest.approx({row["name"]: row["device_ns"] for row in view[1:]})
    assert math.fsum(row.share_ratio for row in said.rows) == pytest.approx(1)


def test_matrix_products_stay_below_the_roof(opened):
    said = kernels(opened("traces/kineto/b200_rank0of8.json.gz"))
    rated = [row for row in said.rows if row.efficiency_ratio is not None]
    assert len(rated) >= 3
    assert all(0 < row.efficiency_ratio < 1 for row in rated)
    assert said.peak.name == "B200"


def test_memory_at_the_peak_is_attributed_although_addresses_were_not_recorded(opened):
    """ResNet-50 at batch 32 holds 2.7 GB of activations when its forward pass ends."""
    device = memory(opened(RESNET)).devices[0]
    assert (device.by_address, device.level) == (False, "summed")
    assert device.held_bytes == device.peak_bytes
    held = {one.name: one.bytes for one in device.holders["category"]}
    assert held["activation"] > 0.9 * device.peak_bytes
    assert sum(held.values()) == device.peak_bytes
    for holders in device.holders.values():
        assert sum(one.bytes for one in holders) == device.peak_bytes


def test_memory_with_totals_says_what_was_there_before(opened):
    device = memory(opened("traces/kineto/v100_rank1of2.json.gz", whole)).devices[0]
    assert device.before_bytes + device.held_bytes == device.peak_bytes
    assert device.reserved_bytes > device.peak_bytes
    assert len(device.steps) == 5
    assert max(device.most_bytes) == device.peak_bytes == max(step.peak_bytes for step in device.steps)


@pytest.mark.parametrize(
    "path",
    ["traces/xplane/jax_mi300_8dev.xplane.pb", "tf_estimator/single/timeline-400.json.gz",
     "tfprof/convnet/run_metadata_step1.pb"],
)  # fmt: skip
def test_every_source_of_memory_answers(opened, path):
    said = memory(opened(path))
    for device in said.devices:
        assert device.peak_bytes == max(device.most_bytes) > 0
        assert device.reserved_bytes is None
    json.dumps([one.bytes for device in said.devices for one in device.largest])


def test_more_workers_end_the_waiting_for_data(opened):
    """workers0 is input-bound, workers4 is not: that is what the difference must say first."""
    said = compare(None, opened(RESNET, whole), opened("traces/kineto/resnet50_v100_workers4.json.gz", whole))
    assert said.step.verdict == "faster"
    parts = next(table for table in said.tables if table.key == "parts")
    assert (parts.rows[0].name, parts.rows[0].verdict) == ("data_loading", "faster")
    assert parts.rows[0].explains_ratio > 0.9
