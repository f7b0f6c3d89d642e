"""AMD's GPUs, from written files as the kernel's driver has them."""

import pytest

from stepscope.record.gpus import amd


def card(number, vendor="0x1002", **more):
    device = f"class/drm/card{number}/device"
    return {
        f"class/drm/card{number}-DP-1/x": "",
        f"{device}/vendor": f"{vendor}\n",
        f"{device}/mem_info_vram_total": 1000,
        **{f"{device}/{name.replace('__', '/')}": value for name, value in more.items()},
    }


FULL = {
    "gpu_busy_percent": 50,
    "mem_busy_percent": 25,
    "mem_info_vram_used": 250,
    "product_name": "Instinct MI300X\n",
    "hwmon__hwmon3__power1_average": 250_000_000,
    "hwmon__hwmon3__power1_cap": 750_000_000,
    "hwmon__hwmon3__temp1_label": "edge\n",
    "hwmon__hwmon3__temp1_input": 41_000,
    "hwmon__hwmon3__temp2_label": "junction\n",
    "hwmon__hwmon3__temp2_input": 55_000,
    "hwmon__hwmon3__freq1_label": "sclk\n",
    "hwmon__hwmon3__freq1_input": 1_700_000_000,
    "hwmon__hwmon3__freq2_label": "mclk\n",
    "hwmon__hwmon3__freq2_input": 900_000_000,
}


def test_what_a_gpu_tells(tree):
    gpus = amd({}, sys=tree(card(0, **FULL)))
    assert gpus.names() == {"gpu0": "Instinct MI300X"}
    assert gpus.read(0.0) == {
        "system/gpu0/utilization_ratio": 0.5,
        "system/gpu0/memory_utilization_ratio": 0.25,
        "system/gpu0/memory_used_bytes": 250,
        "system/gpu0/memory_used_ratio": 0.25,
        "system/gpu0/power_watts": 250,
        "system/gpu0/power_limit_watts": 750,
        "system/gpu0/temperature_celsius": 41,
        "system/gpu0/clock_mhz": 1700,
        "system/gpu0/memory_clock_mhz": 900,
    }


def test_newer_gpus_have_other_sensors(tree):
    newer = {
        "hwmon__hwmon3__power1_input": 300_000_000,
        "hwmon__hwmon3__temp2_label": "junction\n",
        "hwmon__hwmon3__temp2_input": 55_000,
    }
    gpus = amd({}, sys=tree(card(0, **newer)))
    assert gpus.read(0.0) == {"system/gpu0/power_watts": 300, "system/gpu0/temperature_celsius": 55}
    assert gpus.names() == {"gpu0": "AMD"}


@pytest.mark.parametrize(
    ("environ", "numbers"),
    [
        ({}, ["gpu0", "gpu1", "gpu2"]),
        ({"HIP_VISIBLE_DEVICES": "2"}, ["gpu2"]),
        ({"ROCR_VISIBLE_DEVICES": "1,2", "HIP_VISIBLE_DEVICES": "1"}, ["gpu2"]),
        ({"ROCR_VISIBLE_DEVICES": "GPU-abc"}, ["gpu0", "gpu1", "gpu2"]),
    ],
)
def test_those_that_this_process_may_use(tree, environ, numbers):
    sys = tree(card(0, vendor="0x8086") | card(1) | card(2) | card(10))
    assert sorted(amd(environ, sys=sys).names()) == numbers
    assert len(amd(environ, sys=sys, every=True).names()) == 3


def test_a_machine_without(tree):
    assert amd({}, sys=tree({})) is None
    assert amd({}, sys=tree(card(0, vendor="0x8086"))) is None
