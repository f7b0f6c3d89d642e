"""The methods of a run that record more than a number. The module of each kind does the work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from stepscope import lazy
from stepscope.events.hparams import experiment_value
from stepscope.record.config import flat, plain
from stepscope.record.problems import RefusalError, shown

if TYPE_CHECKING:
    from stepscope.events.kinds.graph import Node, NodeCost
    from stepscope.record.info import AttemptInfo
    from stepscope.record.intake import Intake
    from stepscope.record.summaries import arrays, documents, media
else:
    arrays, documents, media = (
        lazy.module(f"stepscope.record.summaries.{name}") for name in ("arrays", "documents", "media")
    )


class SummaryMethods:
    """The methods of a run that record more than a number.

    All of them copy their arguments, hand them to a thread of its own, and return. A failure to record is a
    warning and a count, as with ``scalar``. ``step`` is that of ``scalar`` everywhere.
    """

    log_dir: str
    _info: AttemptInfo
    _intake: Intake

    # --- arrays -------------------------------------------------------------------------------------

    def histogram(
        self,
        tag: str,
        values: Any,
        step: int | None = None,
        *,
        buckets: int | Literal["fixed"] = 30,
        description: str = "",
    ) -> None:
        """Record how values are distributed.

        NaN and infinite values are left out; their number is a series of its own, ``<tag>/nonfinite``, that
        has a point only if there are any.

        Args:
            tag: Name of the series.
            values: An array or tensor of any shape.
            step: As for ``scalar``.
            buckets: So many of one width between the smallest and the largest value, as in TensorBoard. Or
                "fixed": edges that are the same always and everywhere, so that histograms of steps, ranks and
                shards add up exactly.
            description: Markdown.
        """
        self._intake.summary(tag, step, lambda: arrays.prepare_histogram(values, buckets, description))

    def histogram_counts(
        self, tag: str, counts: Any, edges: Any, step: int | None = None, *, description: str = ""
    ) -> None:
        """Record a histogram that is counted already.

        Args:
            tag: Name of the series.
            counts: One per bucket.
            edges: One more, ascending: the beginning of each bucket, and the end of the last one.
            step: As for ``scalar``.
            description: Markdown.
        """
        self._intake.summary(tag, step, lambda: arrays.prepare_histogram_counts(counts, edges, description))

    def tensor(self, tag: str, values: Any, step: int | None = None) -> None:
        """Record an array as it is. TensorBoard keeps it without showing it; ``stepscope.open`` reads it.

        Args:
            tag: Name of the series.
            values: An array or tensor.
            step: As for ``scalar``.
        """
        self._intake.summary(tag, step, lambda: arrays.prepare_array(values))

    # --- pictures and sound -------------------------------------------------------------------------

    def image(
        self,
        tag: str,
        image: Any,
        step: int | None = None,
        *,
        dataformats: str | None = None,
        description: str = "",
    ) -> None:
        """Record an image.

        Args:
            tag: Name of the series.
            image: An array or tensor: uint8, booleans, or floats of 0 to 1, with 1 (grey), 2 (grey and
                alpha), 3 (RGB) or 4 (RGBA) channels; a PIL image; a matplotlib figure; or the bytes of a PNG,
                JPEG, GIF or WebP.
            step: As for ``scalar``.
            dataformats: Which dimension of an array is which, as ``HWC``, ``CHW`` or ``HW``. By default
                the channels are the last dimension of 1, 3 or 4, or the first, as the shape says; if both are
                possible, the first of a torch tensor and the last of any other array.
            description: Markdown.
        """
        self._intake.summary(tag, step, lambda: media.prepare_image(image, dataformats, description))

    def images(
        self,
        tag: str,
        images: Any,
        step: int | None = None,
        *,
        dataformats: str | None = None,
        max_images: int | None = None,
        description: str = "",
    ) -> None:
        """Record several images of one step.

        Args:
            tag: Their series.
            images: An array or tensor of four dimensions, or a list of images as ``image`` takes them.
            step: As for ``scalar``.
            dataformats: As ``NHWC`` or ``NCHW``; of each image if they are a list.
            max_images: Record only so many, the first ones.
            description: Markdown.
        """
        self._intake.summary(
            tag, step, lambda: media.prepare_images(images, dataformats, max_images, description)
        )

    def video(
        self,
        tag: str,
        frames: Any,
        step: int | None = None,
        *,
        fps: float = 10,
        dataformats: str | None = None,
        description: str = "",
    ) -> None:
        """Record a video.

        Args:
            tag: Name of the series.
            frames: An array or tensor [frames, height, width, channels], of numbers as ``image`` takes them,
                which becomes a GIF of at most 256 colours; or the bytes of a GIF, WebP, MP4 or WebM.
                TensorBoard shows GIF and WebP.
            step: As for ``scalar``.
            fps: Frames per second of an array.
            dataformats: As ``THWC`` or ``TCHW``, with ``N`` in front for several; by default as for images.
            description: Markdown.
        """
        self._intake.summary(tag, step, lambda: media.prepare_video(frames, fps, dataformats, description))

    def audio(
        self,
        tag: str,
        audio: Any,
        step: int | None = None,
        *,
        sample_rate: int = 44_100,
        label: str = "",
        description: str = "",
    ) -> None:
        """Record a sound.

        Args:
            tag: Name of the series.
            audio: Samples [frames] or [frames, channels], floats of -1 to 1 (beyond is clipped) or int16,
                which become a WAV of 16 bits; [channels, frames] if only that makes sense. Or the bytes of
                a WAV, FLAC, MP3 or Ogg; TensorBoard plays the formats of the browser.
            step: As for ``scalar``.
            sample_rate: Frames per second of an array.
            label: Markdown, shown with this sound.
            description: Markdown.
        """
        self._intake.summary(tag, step, lambda: media.prepare_audio(audio, sample_rate, label, description))

    # --- words --------------------------------------------------------------------------------------

    def text(self, tag: str, text: str, step: int | None = None, *, description: str = "") -> None:
        """Record a text in Markdown.

        Args:
            tag: Name of the series.
            text: The text, in Markdown.
            step: As for ``scalar``.
            description: Markdown.
        """
        self._intake.summary(tag, step, lambda: documents.prepare_text(text, description))

    def table(
        self,
        tag: str,
        rows: Any,
        step: int | None = None,
        *,
        columns: Sequence[str] | None = None,
        description: str = "",
    ) -> None:
        """Record a table. TensorBoard shows it as text; the cells themselves are kept under ``<tag>/table``.

        Args:
            tag: Name of the series.
            rows: Dictionaries; or sequences of one cell per column; or a pandas or Polars data frame.
            step: As for ``scalar``.
            columns: Their names, by default those of the dictionaries or the data frame.
            description: Markdown.
        """
        self._intake.summary(tag, step, lambda: documents.prepare_table(rows, columns, description))

    # --- what models do -----------------------------------------------------------------------------

    def pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        step: int | None = None,
        *,
        num_thresholds: int = 200,
        weights: Any = None,
        description: str = "",
    ) -> None:
        """Record precision and recall of a classifier of two classes.

        Args:
            tag: Name of the series.
            labels: Booleans, or 0 and 1.
            predictions: As many probabilities.
            step: As for ``scalar``.
            num_thresholds: Even steps from 0 to 1.
            weights: Of each example.
            description: Markdown.
        """
        self._intake.summary(
            tag, step, lambda: arrays.prepare_curve(labels, predictions, num_thresholds, weights, description)
        )

    def mesh(
        self,
        tag: str,
        vertices: Any,
        step: int | None = None,
        *,
        colors: Any = None,
        faces: Any = None,
        config: Mapping[str, Any] | None = None,
        description: str = "",
    ) -> None:
        """Record a point cloud, or with faces a mesh of triangles.

        Args:
            tag: Its series; TensorBoard sees ``<tag>_VERTEX``, ``<tag>_FACE`` and ``<tag>_COLOR``.
            vertices: Positions [n, 3], or [batch, n, 3].
            step: As for ``scalar``.
            colors: RGB of 0 to 255, one per vertex.
            faces: Numbers of the three vertices of each triangle.
            config: Settings of TensorBoard's THREE.js scene.
            description: Markdown.
        """
        self._intake.summary(
            tag, step, lambda: arrays.prepare_mesh(vertices, colors, faces, config, description)
        )

    def embedding(
        self,
        tag: str,
        vectors: Any,
        step: int | None = None,
        *,
        labels: Sequence[Any] | None = None,
        columns: Sequence[str] | None = None,
        images: Any = None,
        dataformats: str | None = None,
    ) -> None:
        """Record vectors for TensorBoard's projector: files under ``projector/`` of the run.

        Args:
            tag: Its name.
            vectors: [points, dimensions].
            step: As for ``scalar``; each is an embedding of its own.
            labels: One per point: a text, or one for each of ``columns``.
            columns: Names of several columns of labels.
            images: One per point, as for ``images``.
            dataformats: Of the images.
        """
        if not self._info.role.writes:
            return
        try:
            position = self._intake.event_step(step, tag)
            number = position if isinstance(position, int) else int(position.read())
        except RefusalError as refusal:
            self._intake.refuse(refusal.reason, refusal.found, refusal.hint)
            return
        options = {"labels": labels, "columns": columns, "images": images, "dataformats": dataformats}
        self._intake.summary(
            tag, number, lambda: arrays.prepare_embedding(self.log_dir, vectors, number, **options)
        )

    def graph(
        self,
        graph: bytes | Iterable[Node] | Any,
        *,
        costs: bytes | Iterable[NodeCost] | Any = None,
        tag: str = "step",
        step: int | None = None,
    ) -> None:
        """Record the graph of a model, and the cost of each of its nodes in a step.

        TensorBoard colours the graph by compute time and memory if the costs name the graph's nodes.
        ``stepscope.integrations.torch.graph`` and ``.jax.graph`` make both of a model.

        Args:
            graph: Nodes, or a GraphDef, serialized or not. None to add costs to the graph recorded before.
            costs: Of nodes, or a RunMetadata, serialized or not.
            tag: Name of the costs.
            step: As for ``scalar``.
        """
        for what, value in (("graph", graph), ("costs", costs)):
            if value is not None:
                self._intake.summary(tag, step, partial(documents.prepare_graph, what, value))

    # --- the run as a whole -------------------------------------------------------------------------

    def hparams(
        self, hparams: Any, metrics: Mapping[str, Any] | None = None, step: int | None = None
    ) -> None:
        """Record hyper-parameters and their results, in this run: TensorBoard's HParams page shows both.

        The hyper-parameters become part of ``config``; the metrics are scalars. TensorBoard keeps the first
        hyper-parameters of a run that it reads, Stepscope the last. How the run ends is its status there.
        If metrics are named, it shows these and no other series; of several runs it takes the word of one.

        Args:
            hparams: A mapping.
            metrics: Numbers by tag.
            step: Of the metrics, as for ``scalar``.
        """
        if not isinstance(hparams, Mapping):
            self._intake.refuse("value", f"hparams of {shown(hparams)}", "pass a mapping of names to values")
            return
        self._info.describe(plain(hparams))
        if not metrics:
            return
        self._intake.log_many(metrics, step)
        if isinstance(metrics, Mapping):
            value = experiment_value(flat(self._info.config), map(str, metrics))
            self._intake.event(lambda: [value], 0, 0, value.tag, None)

    def layout(self, categories: Mapping[str, Mapping[str, Sequence[Any]]]) -> None:
        """Record which tags share a chart on TensorBoard's Custom Scalars page; it takes one layout per run.

        Args:
            categories: ``{category: {chart: ["Multiline", [tag, …]] or ["Margin", [value, lower, upper]]}}``;
                the tags of a multiline chart are regular expressions.
        """
        self._intake.summary("custom_scalars__config__", 0, lambda: documents.prepare_layout(categories))
