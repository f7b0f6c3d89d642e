"""Peak rates of the links between devices of one machine, from their makers' data sheets: one direction.

A bus bandwidth, as nccl-tests define it, is what each device's link carries in one direction, so it is
compared with that. Makers state the sum of both directions, of which this is half. Devices that are not
listed have no peak, and neither does the network between machines, because nothing recorded says it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_TABLE = r"""
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


def _rules() -> tuple[tuple[re.Pattern[str], DeviceLink], ...]:
    rows = (re.split(r"\s+\|\s+", line.strip()) for line in _TABLE.splitlines() if line)
    return tuple(
        (re.compile(pattern), DeviceLink(name, float(rate) * 1e9, source))
        for pattern, name, rate, source in rows
    )


_RULES = _rules()


def link_of(device: str) -> DeviceLink | None:
    """Return the link of a device by its name, None if it is not in the table."""
    return next((link for pattern, link in _RULES if pattern.search(device)), None)
