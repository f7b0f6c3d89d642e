"""Numbers, histograms and arrays."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from stepscope.compat.base import Base
from stepscope.record.points import as_step
from stepscope.record.summaries.prepared import Prepared
from stepscope.record.values import read


class Arrays(Base):
    """The methods that record numbers, and how many of them are distributed."""

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: Any = None,
        walltime: float | None = None,
        new_style: bool | str = False,
        double_precision: bool | str = False,
        display_name: str = "",
        summary_description: str = "",
    ) -> None:
        """Record a number.

        Args:
            tag: Its series.
            scalar_value: The number.
            global_step: Its step.
            walltime: Its time in seconds since the epoch.
            new_style: Store it as a tensor; tensorboardX has ``display_name`` here.
            double_precision: With ``new_style``, as float64; tensorboardX has ``summary_description`` here.
            display_name: Title of the chart.
            summary_description: Markdown.
        """
        display_name = new_style if isinstance(new_style, str) else display_name
        said = double_precision if isinstance(double_precision, str) else summary_description
        wide = new_style is True and double_precision is True
        step, wall = self._place(global_step, walltime)
        if wide or display_name or said:
            about = (display_name, said)
            self._prepared(
                tag,
                step,
                wall,
                lambda: _scalar(scalar_value, about, wide=wide),
            )
            return
        run = self._run
        wall = -1.0 if wall is None else wall
        if not run._put(tag, scalar_value, step, wall):
            run._slow(tag, scalar_value, step, wall)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Record numbers that TensorBoard draws on one chart: each in a run of its own beside this one.

        Args:
            main_tag: The tag of all.
            tag_scalar_dict: Numbers by what they are called.
            global_step: Their step.
            walltime: Their time in seconds since the epoch.
        """
        step, wall = self._place(global_step, walltime)
        for name, value in tag_scalar_dict.items():
            place = f"{self.get_logdir()}/{str(main_tag).replace('/', '_')}_{name}"
            self._prepared(main_tag, step, wall, partial(self._branch, place, value, step, wall))

    def _branch(self, place: str, value: Any, step: Any, wall: float | None) -> Prepared:
        branch, number = self._branches.get(place), read(value)
        told = self.scalar_dict.setdefault(place, [])
        numbered = len(told) if step is None else as_step(step)
        if isinstance(number, float) and isinstance(numbered, int):
            told.append([self._run._wall() if wall is None else wall, numbered, number])
        return Prepared(lambda tag: branch.put(tag, number, numbered, wall), 256)

    def export_scalars_to_json(self, path: str | os.PathLike[str]) -> None:
        """Write the numbers of ``add_scalars`` so far as JSON, ``{line: [[time, step, value], …]}``."""
        Path(path).write_text(json.dumps(self.scalar_dict), encoding="utf-8")
        self.scalar_dict = {}

    def add_tensor(
        self, tag: str, tensor: Any, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Record an array as it is."""
        from stepscope.record.summaries import array

        self._add(tag, global_step, walltime, lambda: array.prepare(tensor))

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: Any = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Record how values are distributed.

        Args:
            tag: Its series.
            values: An array or tensor.
            global_step: Its step.
            bins: "tensorflow", or what ``numpy.histogram`` takes.
            walltime: Its time in seconds since the epoch.
            max_bins: Join bins until there are not many more.
        """
        from stepscope.compat import torch_values

        edges = torch_values.default_bins() if isinstance(bins, str) and bins == "tensorflow" else bins
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
        """Record a histogram that is counted already."""
        from stepscope.compat import torch_values

        facts = (min, max, num, sum, sum_squares)
        self._add(
            tag,
            global_step,
            walltime,
            lambda: torch_values.prepare_raw_histogram(facts, bucket_limits, bucket_counts),
        )


def _scalar(value: Any, about: tuple[str, str], *, wide: bool) -> Prepared:
    """Return a number with what is to be said of it, or with all its digits."""
    from stepscope.events.messages import DataClass, Metadata, Shape, Tensor, Value

    number = read(value)

    def make(tag: str) -> list[Value]:
        found = number if isinstance(number, float) else number.read()
        metadata = Metadata.of(
            "scalars", data_class=int(DataClass.SCALAR), display_name=about[0], summary_description=about[1]
        )
        tensor = Tensor(2, Shape(), double_val=[found]) if wide else Tensor(1, Shape(), float_val=[found])
        return [Value(tag, tensor=tensor, metadata=metadata)]

    return Prepared(make, 256)
