/** The verdict on each metric that both sides have, found once for all that shows it. */
import { SIDES } from "../runs/sides";
import { sideLine, tracksOf, type SideLine, type Track } from "../runs/sidelines";
import { keyCharts } from "../series/pick";
import type { Delta } from "../series/sides";
import { app } from "../state/app.svelte";
import { compare } from "../state/compare.svelte";
import { figures } from "../state/figures.svelte";
import { byChance, judge, judgedAs, sharedOf, type Judgement } from "./lead";
import { areSeeds } from "./seeds";

/** Series that are looked at, those that say most first. */
const MOST = 40;
/** The section of what Stepscope says of itself, which is no result. */
export const OWN = "stepscope";

const familyOf = (run: string): string => app.catalog.runs.get(run)?.base ?? run;

class Verdicts {
  readonly tracks = $derived(
    tracksOf(
      keyCharts(app.catalog.charts, MOST).filter((chart) => chart.section !== OWN),
      compare.A,
      compare.B,
    ).filter(({ a, b }) => a.length && b.length),
  );
  readonly charts = $derived([...new Set(this.tracks.map(({ chart }) => chart))]);
  /** Where one side is far behind, what both have is asked for by itself: of few places of all steps nothing is told. */
  readonly shared = $derived(
    sharedOf(SIDES.map((side) => Math.max(0, ...compare.side(side).map((run) => run.main.step ?? 0)))),
  );
  readonly sides = $derived(
    this.tracks.map((track) => ({ track, ...this.#sides(track, this.shared, "shared") })),
  );
  /** Whether both sides are one configuration with other seeds. */
  readonly seeds = $derived(areSeeds(compare.runs.map(({ main }) => main)));
  readonly judged = $derived(
    new Map(this.sides.map(({ track, a, b }) => [track.id, this.#judge(track, a, b)])),
  );

  #judge(track: Track, a: SideLine | null, b: SideLine | null): Judgement | null {
    const judged = judge(track, a, b);
    return judged && this.seeds ? byChance(track, judged) : judged;
  }

  #sides(track: Track, upTo: number | null, reader: "shared" | "upto") {
    const of = (lines: Track["a"]): SideLine | null =>
      sideLine(figures.lines(track.chart.id, lines, upTo, reader), familyOf);
    return { a: of(track.a), b: of(track.b) };
  }

  /** The verdict on a metric; of one that does not lead from the lines at hand, or all that is known of it. */
  of(track: Track, at?: { a: SideLine | null; b: SideLine | null }): Judgement | null {
    const known = this.judged.get(track.id);
    if (known !== undefined) return known;
    const { a, b } = at ?? this.#sides(track, null, "upto");
    return this.#judge(track, a, b);
  }

  /** A difference as it is read somewhere, with the verdict on its metric. */
  on(track: Track, delta: Delta | null, at?: { a: SideLine | null; b: SideLine | null }): Delta | null {
    return delta && judgedAs(delta, this.of(track, at));
  }
}

export const verdicts = new Verdicts();
