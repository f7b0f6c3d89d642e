"""Peak rates of devices and of the links between them, from their makers' data sheets.

Rates of devices are dense, without sparsity, at boost clock. Those of links are in one direction: a bus
bandwidth, as nccl-tests define it, is the rate of each device's link in one direction, so it is compared with
that. Makers state the sum of both directions, of which this is half. A device that is not listed has no peak:
nothing is guessed from similar ones. The network between machines has none, because nothing recorded says it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from stepscope.trace.model import Device

GIB = 1 << 30
TERA = 1e12


@dataclass(frozen=True, slots=True)
class PeakRates:
    """One kind of device; operations per second by number format, and bytes per second to its memory."""

    name: str
    flops_per_second: dict[str, float]
    """By ``float64 float32 tf32 float16 bfloat16 float8``; TF32 is for float32 on tensor cores."""
    bytes_per_second: float
    source: str


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str]
    peak: PeakRates
    least_memory_bytes: int = field(default=0)
    """Distinguishes variants of one name; the first rule that applies is taken."""


_TABLE = r"""
\bV100\b.*(SXM|DGXS)   | V100 SXM2  | 900  | float16 125 float32 15.7 float64 7.8 | NVIDIA V100 data sheet, 2020
\bV100\b             | V100 PCIe  | 900  | float16 112 float32 14 float64 7 | NVIDIA V100 data sheet, 2020
Tesla T4|^T4$          | T4         | 320  | float16 65 float32 8.1 | NVIDIA T4 data sheet, 2019
\bA100\b >60          | A100 80GB  | 2039 | float16 312 tf32 156 float32 19.5 float64 9.7 | NVIDIA A100 data sheet, 2021
\bA100\b             | A100 40GB  | 1555 | float16 312 tf32 156 float32 19.5 float64 9.7 | NVIDIA A100 data sheet, 2021
\bA10$               | A10        | 600  | float16 125 tf32 62.5 float32 31.2 | NVIDIA A10 data sheet, 2021
\bL4$                | L4         | 300  | float8 242.5 float16 121 tf32 60 float32 30.3 | NVIDIA L4 data sheet, 2023
\bL40S\b             | L40S       | 864  | float8 733 float16 362 tf32 183 float32 91.6 | NVIDIA L40S data sheet, 2023
\bH200\b             | H200 SXM   | 4800 | float8 1979 float16 989.4 tf32 494.7 float32 67 float64 34 | NVIDIA H200 data sheet, 2024
\bH100\b.*PCIe       | H100 PCIe  | 2000 | float8 1513 float16 756 tf32 378 float32 51 float64 26 | NVIDIA H100 data sheet, 2023
\bH100\b.*NVL        | H100 NVL   | 3900 | float8 1671 float16 835.5 tf32 417.5 float32 60 float64 30 | NVIDIA H100 data sheet, 2024
\bH100\b             | H100 SXM   | 3350 | float8 1979 float16 989.4 tf32 494.7 float32 67 float64 34 | NVIDIA H100 data sheet, 2023
\bB200\b             | B200       | 8000 | float8 4500 float16 2250 tf32 1125 float32 80 | NVIDIA Blackwell brief, 2024
\bMI300X\b           | MI300X     | 5300 | float8 2614.9 float16 1307.4 tf32 653.7 float32 163.4 float64 81.7 | AMD MI300X data sheet, 2023
\bMI325X\b           | MI325X     | 6000 | float8 2614.9 float16 1307.4 tf32 653.7 float32 163.4 float64 81.7 | AMD MI325X data sheet, 2024
"""  # noqa: E501
"""Name's pattern (and least memory in GiB), name, GB/s, tera-operations per second by format, source.

bfloat16 is as fast as float16 on all that have it, which the V100 and the T4 do not.
"""


def _rules() -> tuple[_Rule, ...]:
    rules = []
    for line in filter(None, _TABLE.splitlines()):
        # The pattern has bars of its own; the columns' have spaces around them.
        pattern, name, bandwidth, rates, source = (part.strip() for part in re.split(r"\s+\|\s+", line))
        pattern, _, least = pattern.partition(" >")
        words = rates.split()
        flops = {key: float(value) * TERA for key, value in zip(words[::2], words[1::2], strict=True)}
        if "V100" not in name and name != "T4":
            flops["bfloat16"] = flops["float16"]
        peak = PeakRates(name, flops, float(bandwidth) * 1e9, source)
        rules.append(_Rule(re.compile(pattern), peak, int(least or 0) * GIB))
    return tuple(rules)


_RULES = _rules()


def peak_of(device: Device) -> PeakRates | None:
    """Return the peak rates of a device, None if it is not in the table."""
    for rule in _RULES:
        if rule.pattern.search(device.name) and device.memory_bytes >= rule.least_memory_bytes:
            return rule.peak
    return None


def common_peak(devices: Iterable[Device]) -> tuple[PeakRates | None, list[str]]:
    """Return the peak rates of all these devices, None if they differ or are not in the table, and why."""
    known = {device.name: peak_of(device) for device in devices if device.name}
    if not known:
        return None, ["no device with a name was recorded, so its peak is not known"]
    names = ", ".join(sorted(known))
    if len(known) > 1:
        return None, [f"devices differ: {names}"]
    (peak,) = known.values()
    if peak is None:
        return None, [f"the peak of {names} is not known"]
    return peak, [f"peaks of {peak.name} are from: {peak.source}"]


# --- links ------------------------------------------------------------------------------------------


_LINK_TABLE = r"""
\bV100\b.*(SXM2|DGXS) | NVLink 2 | 150 | NVIDIA V100 data sheet, 2020
\bV100\b             | PCIe 3.0 x16 | 16 | NVIDIA V100 data sheet, 2020
Tesla T4|^T4$        | PCIe 3.0 x16 | 16 | NVIDIA T4 data sheet, 2019
\bA100\b.*SXM        | NVLink 3 | 300 | NVIDIA A100 data sheet, 2021
\bA100\b             | PCIe 4.0 x16 | 32 | NVIDIA A100 data sheet, 2021
\bA10$               | PCIe 4.0 x16 | 32 | NVIDIA A10 data sheet, 2021
\bL4$                | PCIe 4.0 x16 | 32 | NVIDIA L4 data sheet, 2023
\bL40S\b             | PCIe 4.0 x16 | 32 | NVIDIA L40S data sheet, 2023
\bH100\b.*(PCIe|NVL) | PCIe 5.0 x16 | 64 | NVIDIA H100 data sheet, 2024
\b(H100|H200)\b      | NVLink 4 | 450 | NVIDIA H200 data sheet, 2024
\bB200\b             | NVLink 5 | 900 | NVIDIA Blackwell brief, 2024
\b(MI300X|MI325X)\b  | Infinity Fabric | 448 | AMD MI300X data sheet, 2023
"""
"""Name's pattern, link, GB/s in one direction, source. Cards that a bridge may join in pairs have PCIe."""


@dataclass(frozen=True, slots=True)
class DeviceLink:
    """The link of one kind of device to the others of its machine."""

    name: str
    bytes_per_second: float
    """In one direction, of all lanes together."""
    source: str


def _link_rules() -> tuple[tuple[re.Pattern[str], DeviceLink], ...]:
    rows = (re.split(r"\s+\|\s+", line.strip()) for line in _LINK_TABLE.splitlines() if line)
    return tuple(
        (re.compile(pattern), DeviceLink(name, float(rate) * 1e9, source))
        for pattern, name, rate, source in rows
    )


_LINK_RULES = _link_rules()


def link_of(device: str) -> DeviceLink | None:
    """Return the link of a device by its name, None if it is not in the table."""
    return next((link for pattern, link in _LINK_RULES if pattern.search(device)), None)
