"""A finding as it stands in a run's event file: JSON for programs, and a text for people."""

from __future__ import annotations

import json
from typing import Any

from stepscope.events.messages import DataClass, Metadata, Shape, Tensor, Value
from stepscope.health import Finding
from stepscope.scrub import scrub_text

TAG = "stepscope/finding"
"""Plugin ``stepscope``, a string tensor: the JSON of one finding, written when it opens and when it "
"closes."""
TEXT_TAG = "health/"
"""Before the rule's id; TensorBoard shows these texts."""
SCHEMA = 1
DT_STRING = 7


def finding_values(finding: Finding) -> list[Value]:
    """Return what is written of a finding."""
    return [
        Value(
            tag=TAG,
            tensor=strings(finding_json(finding)),
            metadata=Metadata.of("stepscope", data_class=int(DataClass.TENSOR)),
        ),
        Value(
            tag=TEXT_TAG + finding.rule,
            tensor=strings(finding_text(finding), Shape.of(1)),
            metadata=Metadata.of("text", data_class=int(DataClass.TENSOR)),
        ),
    ]


def finding_facts(finding: Finding) -> dict[str, Any]:
    """Return a finding as JSON types, without anything that has the shape of a secret."""
    facts = finding.as_dict()
    facts["stack"] = [scrub_text(line) for line in finding.stack]
    return {"schema": SCHEMA, **facts}


def finding_json(finding: Finding) -> str:
    """Return a finding as JSON."""
    return json.dumps(finding_facts(finding), ensure_ascii=False, allow_nan=False)


def finding_text(finding: Finding) -> str:
    """Return a finding as Markdown."""
    if not finding.is_open:
        return f"**{finding.title}**: over at step {finding.closed_step}, since step {finding.since}"
    values = ", ".join(f"{name} {value:.4g}" for name, value in finding.values.items())
    lines = [
        f"**{finding.title}** ({finding.severity}): {finding.summary}",
        f"Steps {finding.first_step} to {finding.step} of `{finding.tag}`: {values}",
        f"Do: {finding.action}",
    ]
    if finding.stack:
        lines.append("```\n" + scrub_text("\n".join(finding.stack)) + "\n```")
    return "\n\n".join(lines)


def strings(text: str, shape: Shape | None = None) -> Tensor:
    """Return a text as a string tensor."""
    return Tensor(
        dtype=DT_STRING, tensor_shape=shape or Shape(), string_val=[text.encode("utf-8", "replace")]
    )
