"""Point clouds and meshes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.events.kinds import mesh
from stepscope.events.messages import Value
from stepscope.record.summaries.snapshot import Snapshot, snapshot
from stepscope.record.summary_encoder import Prepared, bounded, refused


def prepare(
    vertices: Any, colors: Any = None, faces: Any = None, config: Any = None, description: str = ""
) -> Prepared:
    """Return a point cloud, or with faces a mesh of triangles.

    Args:
        vertices: Positions [n, 3], or [batch, n, 3].
        colors: RGB of 0 to 255, one per vertex.
        faces: Numbers of the three vertices of each triangle.
        config: Settings of THREE.js.
        description: Markdown.

    Raises:
        RefusalError: They do not fit.
    """
    given = {"vertices": vertices, "faces": faces, "colors": colors}
    parts = {name: _part(name, each) for name, each in given.items() if each is not None}
    if "vertices" not in parts:
        raise refused("no vertices", "pass positions [n, 3]")
    if "colors" in parts and parts["colors"].shape != parts["vertices"].shape:
        raise refused(
            f"colors of shape {parts['colors'].shape} for vertices of shape {parts['vertices'].shape}",
            "pass one color per vertex",
        )
    if config is not None and not isinstance(config, Mapping):
        raise refused("a config that is no mapping", "config={'camera': …}")
    settings = json.dumps(config or {}, sort_keys=True)

    def make(tag: str) -> list[Value]:
        arrays = {name: _batch(held.fetch()) for name, held in parts.items()}
        if not np.isfinite(arrays["vertices"]).all():
            raise refused("positions that are NaN or infinite", "leave those vertices out")
        return mesh.values(tag, arrays, settings, description=description)

    return Prepared(make, bounded(sum(held.nbytes for held in parts.values())))


def _part(name: str, value: Any) -> Snapshot:
    held = snapshot(value, name)
    if len(held.shape) not in (2, 3) or held.shape[-1] != 3 or not held.size:
        raise refused(f"{name} of shape {held.shape}", f"pass {name} as [n, 3] or [batch, n, 3]")
    return held


def _batch(array: NDArray[Any]) -> NDArray[Any]:
    return array if array.ndim == 3 else array[np.newaxis]
