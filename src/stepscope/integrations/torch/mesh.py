"""The work of a rank, by the device mesh in which a model's tensors lie."""

from __future__ import annotations

from typing import Any

from torch import nn

WORKS = {
    "pp": "pipeline",
    "pipeline": "pipeline",
    "pipeline_parallel": "pipeline",
    "ep": "experts",
    "expert": "experts",
    "expert_parallel": "experts",
}
"""Dimensions of a mesh along which ranks do different work, by their usual names."""


def work_of(model: nn.Module) -> str | None:
    """Return the name of this rank's part of a model, as "pipeline 1"; None if all ranks do the same.

    Along the dimensions of data, sequence and tensor parallelism all ranks do the same. A parameter that
    lies in a part of a mesh leads to the whole of it.
    """
    places: dict[str, int] = {}
    for parameter in model.parameters():
        mesh = getattr(parameter, "device_mesh", None)
        if mesh is not None:
            places.update(places_in(root_of(mesh)))
    return " ".join(f"{work} {place}" for work, place in sorted(places.items(), reverse=True)) or None


def places_in(mesh: Any) -> dict[str, int]:
    """Return this rank's place along each dimension of a mesh along which ranks do different work."""
    names, coordinate = mesh.mesh_dim_names, mesh.get_coordinate()
    if names is None or coordinate is None:  # a mesh need not name its dimensions
        return {}
    return {
        WORKS[name.lower()]: int(place)
        for name, place, size in zip(names, coordinate, mesh.shape, strict=True)
        if name.lower() in WORKS and size > 1
    }


def root_of(mesh: Any) -> Any:
    """Return the mesh that a mesh is a part of; itself if it is whole."""
    find = getattr(mesh, "_get_root_mesh", None)
    if find is None:  # before PyTorch 2.9
        from torch.distributed import device_mesh

        find = getattr(getattr(device_mesh, "_mesh_resources", None), "get_root_mesh", None)
        return mesh if find is None else find(mesh)
    return find()
