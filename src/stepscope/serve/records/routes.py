"""The endpoints of records, and what answers each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from stepscope.events.kinds.image import EncodedImage
from stepscope.serve.records import answers, gradients
from stepscope.serve.records.curves import CurveAnswers
from stepscope.serve.records.embeddings import EmbeddingAnswers

if TYPE_CHECKING:
    from stepscope.store import Log

Answer = Callable[[Mapping[str, str], "Log | None"], "bytes | EncodedImage"]
JSON, FRAME = "application/json", "application/octet-stream"


class RecordAnswers:
    """Answers what is asked about records, and holds what was computed for it. Safe for threads."""

    def __init__(self) -> None:
        curves, embeddings = CurveAnswers(), EmbeddingAnswers()
        self._by_name: dict[str, Answer] = {
            "records": answers.listing,
            "record": answers.record,
            "blob": answers.blob,
            "graph": answers.graph_answer,
            "gradient_norms": gradients.norms,
            "curve": curves.answer,
            "embeddings": embeddings.listing,
            "embedding": embeddings.points,
            "neighbours": embeddings.neighbours,
            "sprite": embeddings.sprite,
        }

    def answer(
        self, name: str, query: Mapping[str, str], log: Log | None
    ) -> EncodedImage | tuple[bytes, str]:
        """Return recorded bytes, or a message and its media type.

        Raises:
            Refusal: The question cannot be answered.
        """
        found = self._by_name[name](query, log)
        return found if isinstance(found, EncodedImage) else (found, FRAME if name == "embedding" else JSON)
