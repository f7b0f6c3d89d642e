"""Types sent about curves, embeddings and gradients; the page's types are generated from this too.

``None`` means not recorded. Walls are seconds since the epoch.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from stepscope.serve.types import Column, NonFinite

Reduction = Literal["pca", "umap"]
Metric = Literal["cosine", "euclidean"]
MAX_CURVE_STEPS = 300
"""Most steps of a curve for which the area is given."""
MAX_NEIGHBOURS = 200


class CurveStep(msgspec.Struct, frozen=True):
    """One step at which a curve was recorded."""

    at: int
    """Its place among all steps of the curve."""
    step: int
    wall: float
    area: float | None
    """Average precision, 0 to 1; null: nothing was positive, or it cannot be read."""


class CurveAnswer(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/curve?run=&tag=&step=``: a precision-recall curve.

    Attempts follow each other; of a step that several recorded, the newest counts.
    """

    run: str
    tag: str
    writer: str
    attempt: int
    total: int
    """Steps at which it was recorded."""
    steps: list[CurveStep]
    """Thinned evenly where they are many, the newest kept."""
    step: int
    """Step of the curve: the newest not after the requested one, or else the first."""
    wall: float
    error: str | None
    """Why it cannot be read."""
    thresholds: list[float]
    """Evenly from 0 to 1, as far as anything reaches."""
    true_positives: list[float]
    false_positives: list[float]
    true_negatives: list[float]
    false_negatives: list[float]
    precision: list[float]
    recall: list[float]
    area: float | None
    """Average precision."""


class EmbeddingFacts(msgspec.Struct, frozen=True):
    """One embedding of a run, as its projector config names it."""

    name: str
    sprite: list[int] | None
    """Width and height of the picture of one point; null: there are none."""
    error: str | None
    """Why it cannot be shown, as far as that is known without reading it."""
    version: str
    """Another one once its files are."""


class EmbeddingList(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/embeddings?run=``."""

    run: str
    embeddings: list[EmbeddingFacts]
    umap: bool
    """Whether umap-learn is installed where the server runs."""
    error: str | None
    """Why the config cannot be read."""


class EmbeddingHeader(msgspec.Struct, frozen=True):
    """Header of the frame that answers ``GET api/v1/embedding?run=&name=&method=&axes=``."""

    run: str
    name: str
    method: Reduction
    points: int
    dimensions: int
    exact: bool
    """False: components of a random sketch, because exact ones would take too long."""
    explained: list[float]
    """Share of the variance along each axis, 0 to 1; empty if axes mean nothing."""
    waiting_seconds: float | None
    """Since when it has been computed; null: it is done. Ask again until then."""
    columns: list[str]
    """Names of the columns of labels."""
    labels: list[list[str]]
    """One per point, each with a text per column."""
    labels_error: str | None
    places: Column
    """float32, three per point; absent axes are 0."""


class Neighbour(msgspec.Struct, frozen=True):
    """A point near another."""

    point: int
    distance: float


class NeighbourList(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/neighbours?run=&name=&point=&metric=&count=``, nearest first."""

    run: str
    name: str
    point: int
    metric: Metric
    neighbours: list[Neighbour]


class GradientNorm(msgspec.Struct, frozen=True):
    """L2 norm of the gradient of one parameter."""

    parameter: str
    step: int
    norm: float | NonFinite
    before: float | NonFinite | None
    """At the earlier step; null: it was not recorded then."""
    fell: bool
    """Whether it fell when most parameters did, and stayed so."""


class GradientNorms(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/gradient_norms?run=&step=``."""

    run: str
    steps: list[int]
    """Steps at which norms were recorded, thinned evenly if they are many, with the newest kept."""
    norms: list[GradientNorm]
    """The newest of each parameter that is not after the requested step; a parameter without one is left
    out.
    """
    before_step: int | None
    """The step of ``before``."""
    fell: list[int]
    """First and last step at which those that fell may have begun to; empty: none did."""


MAX_TABLE_ROWS = 1_000


class TableFacts(msgspec.Struct, frozen=True):
    """A table of a run, over all its steps."""

    tag: str
    name: str
    """Its tag as the user gave it."""
    version: str
    """Another one if the table changed."""


class TableList(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/tables?run=``: recorded tables, and files beside the run."""

    run: str
    tables: list[TableFacts]


class TableColumn(msgspec.Struct, frozen=True):
    """A column of a table, and its numbers in the rows that were found."""

    name: str
    typed: str
    """Its name in a filter."""
    kind: Literal["number", "text"]
    low: float | None = None
    mean: float | None = None
    high: float | None = None


class TableRow(msgspec.Struct, frozen=True):
    """A row; NaN and infinite numbers are texts."""

    number: int
    """For ``row=``."""
    run: int
    """Place of its run among those asked for."""
    step: int | float | str | None
    cells: list[str | int | float | bool | None]


class TableRows(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/table?run=&tag=``."""

    runs: list[str]
    tag: str
    steps: list[int]
    columns: list[TableColumn]
    total: int
    """Rows of the table."""
    found: int
    """Rows that the filter lets pass."""
    rows: list[TableRow]
    notes: list[str]
    """Sentences on rows that could not be read."""
