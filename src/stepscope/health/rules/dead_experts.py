"""dead-experts: the router of a mixture of experts sends some of them nothing, or one far too much."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from stepscope.health.batch import StreamBatch
from stepscope.health.gate import AlarmGate
from stepscope.health.layers import AcrossLayers, Place, expert_of
from stepscope.health.rows import StepValues
from stepscope.health.rule import At, thresholds
from stepscope.health.series import Stream


class DeadExperts(AcrossLayers):
    """Compares the experts of each layer by their share of tokens, or else by how far their weights move.

    The share of a fair router is 1 / number of experts.
    """

    id = "dead-experts"
    title = "Unused or overloaded experts"
    severity = "medium"
    formula = (
        "an expert's share of tokens < dead / number of experts, or, where no shares are recorded, every "
        "update ratio of it <= still * the largest of another expert; or a share > overload / number of "
        "experts (low); samples times in a row"
    )
    source = "Switch Transformer (arXiv 2101.03961, load balancing and capacity factor); the limits: ours"
    window = "at the twentieth such sample"
    chance = "none from noise: 20 samples in a row"
    fewest = "20 samples of 2 experts"
    grouped = in_a_row = True
    roles = ("expert_load", "update_ratio")
    defaults = thresholds(dead=0.02, overload=4, still=1e-3, samples=20, calm=5)
    action = (
        "raise the weight of the load-balancing loss, add noise to the router or a z-loss, keep the router "
        "in float32, lower its learning rate; restart dead experts from a copy of a used one"
    )

    def __init__(self, limits: Mapping[str, float] | None = None) -> None:
        super().__init__(limits)
        self._gates: dict[tuple[Place, str, str], tuple[AlarmGate, list[int]]] = {}

    def look(self, batch: StreamBatch) -> None:
        """Gather steps of experts; most models have none, which must then cost nothing."""
        own = [each for each in batch.of(self.roles) if is_of_expert(each.stream)]
        if own:
            super().look(StreamBatch(own))

    def row(self, place: Place, row: StepValues) -> None:
        """Judge the experts of each layer at one step."""
        loads: dict[str, dict[str, tuple[Stream, float]]] = {}
        moved: dict[str, dict[str, tuple[Stream, float]]] = {}
        for stream, value in row.values.items():
            if stream.layer is None or not isfinite(value):
                continue
            if stream.role == "expert_load":
                loads.setdefault(stream.layer.rpartition("/load/")[0], {})[stream.layer] = stream, value
                continue
            name = expert_of(stream.layer)
            if name is not None:
                parts = moved.setdefault(name.rpartition(".")[0], {})
                known = parts.get(name)
                parts[name] = (stream if known is None else known[0]), max(value, known[1] if known else 0.0)
        for group in loads.values():
            self._loads(place, row, group)
        for group in moved.values() if not loads else ():
            self._updates(place, row, group)

    def _loads(self, place: Place, row: StepValues, group: dict[str, tuple[Stream, float]]) -> None:
        total, count = sum(value for _, value in group.values()), len(group)
        if count < 2 or total <= 0:
            return
        for name, (stream, value) in group.items():
            share = value / total
            self._see(place, row, stream, name, share * count < self.limits["dead"], share, "dead")
            self._see(place, row, stream, name, share * count > self.limits["overload"], share, "overload")

    def _updates(self, place: Place, row: StepValues, group: dict[str, tuple[Stream, float]]) -> None:
        # With momentum the weights of an expert that gets nothing go on moving for a while, ever less.
        largest = max(value for _, value in group.values())
        if len(group) < 2 or largest <= 0:
            return
        for name, (stream, value) in group.items():
            self._see(place, row, stream, name, value <= self.limits["still"] * largest, value, "dead")

    def _see(
        self, place: Place, row: StepValues, stream: Stream, name: str, bad: bool, value: float, about: str
    ) -> None:
        known = self._gates.get((place, name, about))
        if known is None:
            known = AlarmGate(opens=self.limit("samples"), closes=self.limit("calm")), []
            self._gates[place, name, about] = known
        gate, steps = known
        steps.append(row.step)
        del steps[: -gate.opens]
        if len(steps) == gate.opens:
            self.judged()
        change = gate.see(bad)
        if change is None:
            return
        at = At(stream, row.step, row.wall, min(steps))
        if change == "close":
            self.close(at, about=about)
            return
        what = name.replace("/load/", " expert ")
        if stream.role == "update_ratio":
            text = f"the weights of {what} hardly moved in {len(steps)} samples, those of others did"
            values = {"update_ratio": value}
        else:
            much = "only " if about == "dead" else ""
            text, values = f"{what} gets {much}{value:.2%} of the tokens", {"share": value}
        self.open(at, text, values, about=about, severity="low" if about == "overload" else None)

    @property
    def missing(self) -> str | None:
        """Updates of a model without experts say nothing."""
        if not self._judged and "expert_load" not in self._seen and not self._gates:
            return "not recorded: shares of tokens of the experts, as router/LAYER/load/EXPERT"
        return super().missing


def is_of_expert(stream: Stream) -> bool:
    """True for a series of an expert."""
    return stream.role == "expert_load" or expert_of(stream.layer) is not None
