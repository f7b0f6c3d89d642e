"""Traces made by hand, as the analyses' tests make them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

_path = Path(__file__).parents[1] / "analyze" / "conftest.py"
_spec = importlib.util.spec_from_file_location("analyze_traces", _path)
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)

make = _module.make
