"""Texts, curves, meshes and embeddings."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from stepscope.compat import encodings, torch_values
from stepscope.compat.base import Base
from stepscope.record.summaries.encoder import Prepared
from stepscope.record.values import as_step


class Curves(Base):
    """The methods that record texts, curves, meshes and embeddings."""

    def add_text(
        self, tag: str, text_string: str, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Record a text in Markdown."""
        self._add(f"{tag}/text_summary", global_step, walltime, lambda: encodings.text(text_string))

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: Any = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Record precision and recall of a binary classifier."""
        self._add(
            tag,
            global_step,
            walltime,
            lambda: encodings.pr_curve(labels, predictions, num_thresholds, weights),
        )

    def add_pr_curve_raw(
        self,
        tag: str,
        true_positive_counts: Any,
        false_positive_counts: Any,
        true_negative_counts: Any,
        false_negative_counts: Any,
        precision: Any,
        recall: Any,
        global_step: Any = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Record a curve that has been computed already, one number per threshold in each argument."""
        rows = [
            true_positive_counts,
            false_positive_counts,
            true_negative_counts,
            false_negative_counts,
            precision,
            recall,
        ]
        self._add(tag, global_step, walltime, lambda: encodings.pr_curve_counts(rows, num_thresholds))

    def add_mesh(
        self,
        tag: str,
        vertices: Any,
        colors: Any = None,
        faces: Any = None,
        config_dict: Mapping[str, Any] | None = None,
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Record a point cloud or a mesh: [batch, n, 3]."""
        numbered = self._dialect.numbered_meshes
        self._add(
            tag,
            global_step,
            walltime,
            lambda: encodings.mesh(vertices, colors, faces, config_dict, numbered=numbered),
        )

    def add_embedding(
        self,
        mat: Any,
        metadata: Any = None,
        label_img: Any = None,
        global_step: Any = None,
        tag: str = "default",
        metadata_header: Sequence[str] | None = None,
    ) -> None:
        """Record vectors for the projector.

        Args:
            mat: [points, dimensions].
            metadata: One label per point.
            label_img: (N, C, H, W), one image per point.
            global_step: Its step.
            tag: Its name.
            metadata_header: Names of several columns of labels.
        """

        def prepare() -> Prepared:
            found = as_step(step)
            number = found if isinstance(found, int) else int(found.read())
            return torch_values.prepare_embedding(
                os.fspath(self._run.log_dir), str(tag), number, mat, metadata, metadata_header, label_img
            )

        step, wall = self._place(global_step, None)
        self._prepared(tag, step, wall, prepare)
