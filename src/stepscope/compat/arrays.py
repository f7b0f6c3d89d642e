"""Numbers, histograms and arrays."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from stepscope.compat import encodings, torch_values
from stepscope.compat.base import Base
from stepscope.compat.dialect import number
from stepscope.errors import RecordError
from stepscope.record.problems import RefusalError
from stepscope.record.summaries.encoder import Prepared
from stepscope.record.values import as_step


class NumberMethods(Base):
    """The methods that record numbers, arrays and histograms."""

    def _add_unusual(
        self,
        tag: str,
        value: Any,
        step: Any,
        wall: float | None,
        new_style: bool | str,
        double_precision: bool | str,
        display_name: str,
        summary_description: str,
    ) -> None:
        step, wall = self._place(step, wall)
        tag = self._dialect.tag(tag)
        if new_style or double_precision or display_name or summary_description:
            about = (
                new_style if isinstance(new_style, str) else display_name,
                double_precision if isinstance(double_precision, str) else summary_description,
            )
            style = bool(new_style is not False and not isinstance(new_style, str)), double_precision is True
            if style[0] or any(about):
                self._prepared(tag, step, wall, lambda: _scalar(value, about, *style))
                return
        if not isinstance(value, float):
            value = self._number(tag, value)
            if value is None:
                return
        if wall is None:
            self._run.scalar(tag, value, step)
        else:
            self._run.record({tag: value}, step, wall=wall)

    def _number(self, tag: str, value: Any) -> Any:
        """Return text that spells a number as that number, anything else unchanged; None if it is refused."""
        kind = getattr(getattr(value, "dtype", None), "kind", "")
        if not isinstance(value, str | bytes | list) and (
            not isinstance(kind, str) or kind not in ("S", "U")
        ):
            return value
        try:
            return number(value)
        except RefusalError as refusal:
            found = f"not recorded: {tag!r} must be one number, got {refusal.found}"
            self._run.report("value", RecordError(found, hint=refusal.hint, path=self._run.log_dir))
            return None

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Record numbers that TensorBoard draws on one chart, each in a run of its own beside this one.

        Args:
            main_tag: The tag that they share.
            tag_scalar_dict: Numbers by name.
            global_step: Their step.
            walltime: Their time in seconds since the epoch.
        """
        step, wall = self._place(global_step, walltime)
        for name, value in tag_scalar_dict.items():
            place = self._dialect.line(self.get_logdir(), str(main_tag), str(name))
            tag = self._dialect.tag(main_tag)
            self._prepared(tag, step, wall, partial(self._branch, place, value, step, wall))

    def _branch(self, place: str, value: Any, step: Any, wall: float | None) -> Prepared:
        branch, found = self._line(place), number(value)
        numbered = as_step(step)
        told = self.scalar_dict.setdefault(place, [])
        if isinstance(found, float) and isinstance(numbered, int):
            told.append([self._run.clock.wall() if wall is None else wall, numbered, found])
        return Prepared(lambda tag: branch.put(tag, found, numbered, wall), 256)

    def export_scalars_to_json(self, path: str | os.PathLike[str]) -> None:
        """Write the numbers of ``add_scalars`` so far as JSON, ``{line: [[time, step, value], …]}``."""
        Path(path).write_text(json.dumps(self.scalar_dict), encoding="utf-8")
        self.scalar_dict = {}

    def add_tensor(
        self, tag: str, tensor: Any, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Record an array unchanged."""
        self._add(tag, global_step, walltime, lambda: encodings.tensor(tensor))

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: Any = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Record the distribution of values.

        Args:
            tag: Its series.
            values: An array or tensor.
            global_step: Its step.
            bins: "tensorflow", or what ``numpy.histogram`` takes.
            walltime: Its time in seconds since the epoch.
            max_bins: Join bins until there are about this many.
        """
        edges = self.default_bins if isinstance(bins, str) and bins == "tensorflow" else bins
        tag = self._dialect.tag(tag)
        self._add(tag, global_step, walltime, lambda: torch_values.prepare_histogram(values, edges, max_bins))

    def add_histogram_raw(
        self,
        tag: str,
        min: float,  # noqa: A002  the originals' names
        max: float,  # noqa: A002
        num: float,
        sum: float,  # noqa: A002
        sum_squares: float,
        bucket_limits: Any,
        bucket_counts: Any,
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Record a histogram that has been counted already."""
        facts = (min, max, num, sum, sum_squares)
        self._add(
            tag,
            global_step,
            walltime,
            lambda: torch_values.prepare_raw_histogram(facts, bucket_limits, bucket_counts),
        )


def _scalar(value: Any, about: tuple[str, str], new_style: bool, double: bool) -> Prepared:
    """Return a number as a tensor, or with its title and description."""
    found = number(value)
    later = found.read if not isinstance(found, float) else lambda: found
    if new_style:
        return encodings.scalar(later, double=double)
    return encodings.titled_scalar(later, *about)
