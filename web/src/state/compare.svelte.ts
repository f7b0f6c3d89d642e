/** The two sides that are compared, and what can be done with them. */
import { slotStroke } from "../theme/colour";
import { recordedBy } from "../runs/catalog";
import { runsQuery, sideOf, toggled, type SideName } from "../runs/sides";
import { strokeColour } from "../theme/palette";
import { app } from "./app.svelte";

class Compare {
  /**
   * The queries of the sides: those of the address, else the baseline or first run and the one after it. Of runs of
   * different programs those are taken first that have the metric by which runs are ranked: others share nothing.
   */
  queries = $derived.by((): Record<SideName, string> => {
    const { baseline, selected } = app.view.runs;
    const { sideA, sideB } = app.view.compare;
    const { metric } = app;
    const ranked = metric ? app.matching.filter((family) => recordedBy(metric, [family])) : [];
    const names = [...new Set([...ranked, ...app.matching].map((family) => family.name))];
    const first = [baseline, ...names].find((name) => name !== null && names.includes(name));
    const second = [selected, ...names].find(
      (name) => name !== null && name !== first && names.includes(name),
    );
    return { A: sideA || this.#only(first), B: sideB || this.#only(second) };
  });
  A = $derived(sideOf(this.queries.A, app.catalog.families, app.metricOf));
  B = $derived(sideOf(this.queries.B, app.catalog.families, app.metricOf));
  /** Runs of both sides, each once. */
  runs = $derived([...new Set([...this.A, ...this.B])]);
  /** Names of runs that are on both sides. */
  shared = $derived(this.A.filter((family) => this.B.includes(family)).map((family) => family.name));
  colours = $derived<Record<SideName, string>>({
    A: strokeColour(slotStroke(0), app.palette),
    B: strokeColour(slotStroke(1), app.palette),
  });

  side(name: SideName): typeof this.A {
    return name === "A" ? this.A : this.B;
  }

  holds(side: SideName, run: string): boolean {
    return this.side(side).some((family) => family.name === run);
  }

  set(side: SideName, query: string): void {
    const { A, B } = this.queries;
    app.set({ compare: { sideA: A, sideB: B, [side === "A" ? "sideA" : "sideB"]: query } });
  }

  /** Puts a run on a side, or takes it off; the last one stays. */
  toggle(side: SideName, run: string): void {
    const names = toggled(this.side(side), run);
    if (names.length) this.set(side, runsQuery(names, [...app.catalog.runs.values()]));
  }

  /** Puts one run alone on a side. */
  put(side: SideName, run: string): void {
    this.set(side, this.#only(run));
  }

  swap(): void {
    const { A, B } = this.queries;
    app.set({ compare: { sideA: B, sideB: A } });
    app.announcement = "A and B swapped";
  }

  #only(name: string | null | undefined): string {
    return name ? runsQuery([name], [...app.catalog.runs.values()]) : "";
  }
}

export const compare = new Compare();
