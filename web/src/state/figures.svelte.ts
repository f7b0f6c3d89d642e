/** Newest, best and stepwise values of series: few buckets of each, fetched with the other series of the page. */
import { MAX_LINES, type Chart } from "../server/api";
import { linesOf, type Family, type LineOf } from "../runs/catalog";
import type { Entry } from "../server/cache";
import { readingOf, type Reading } from "../series/reading";
import { groupOf, type Group } from "../series/sides";
import { drawLines, type DrawLine } from "../series/shape";
import type { Track } from "../runs/sidelines";
import { feed } from "./feed.svelte";

const BUCKETS = 32;
const PLACE = 1e6;
const known = new WeakMap<Entry, Map<string, DrawLine[]>>();

class Figures {
  /** How many parts of the page follow a chart. */
  readonly #followed = new Map<string, number>();

  /** Keeps the values of some charts up to date; returns what ends it.
   *
   * @param upTo: Points up to this step only; null: all.
   */
  follow(charts: readonly Chart[], families: readonly Family[], upTo: number | null = null): () => void {
    const ids = charts.map((chart) => {
      const id = idOf(chart.id, upTo);
      const lines = linesOf(chart, families).map(({ run, tag }) => ({ run, tag }));
      this.#followed.set(id, (this.#followed.get(id) ?? 0) + 1);
      if (lines.length)
        feed.want(
          id,
          { id, lines: lines.slice(0, MAX_LINES), x1: upTo, buckets: BUCKETS, smoothing: 0 },
          PLACE,
        );
      return id;
    });
    return () => ids.forEach((id) => this.#release(id));
  }

  #release(id: string): void {
    const left = (this.#followed.get(id) ?? 1) - 1;
    this.#followed.set(id, left);
    if (!left) feed.release(id);
  }

  /** One figure for each run that has lines of a track; null where it is not recorded or not yet known. */
  values(
    track: Track,
    lines: readonly LineOf[],
    reading: Reading,
    lower: boolean | null,
    upTo: number | null = null,
  ): (number | null)[] {
    const found = this.#lines(idOf(track.chart.id, upTo));
    if (!found) return [];
    const families = [...new Set(lines.map((line) => line.family))];
    return families.map((family) =>
      readingOf(
        lines.filter((line) => line.family === family).flatMap((line) => found.get(key(line)) ?? []),
        reading,
        lower,
        upTo,
      ),
    );
  }

  /** Figures of the runs that have lines of a track. */
  group(
    track: Track,
    lines: readonly LineOf[],
    reading: Reading,
    lower: boolean | null,
    upTo: number | null = null,
  ): Group {
    return groupOf(this.values(track, lines, reading, lower, upTo));
  }

  /** The points of some lines of a chart, at most 32 of each; none where they have not come. */
  lines(chart: string, lines: readonly LineOf[], upTo: number | null = null): DrawLine[] {
    const found = this.#lines(idOf(chart, upTo));
    return found ? lines.flatMap((line) => found.get(key(line)) ?? []) : [];
  }

  /** Whether the values of a chart have come. */
  has(chart: string, upTo: number | null = null): boolean {
    return feed.entries.has(idOf(chart, upTo));
  }

  #lines(id: string): Map<string, DrawLine[]> | undefined {
    const entry = feed.entries.get(id);
    if (!entry) return undefined;
    let lines = known.get(entry);
    if (!lines) known.set(entry, (lines = grouped(drawLines(entry.chart))));
    return lines;
  }
}

/** Id of the request for the points of a chart, all or up to a step. */
function idOf(chart: string, upTo: number | null): string {
  return upTo === null ? `figures:${chart}` : `upto:${chart}`;
}

const key = ({ run, tag }: { run: string; tag: string }): string => `${run}\n${tag}`;

function grouped(lines: readonly DrawLine[]): Map<string, DrawLine[]> {
  const found = new Map<string, DrawLine[]>();
  for (const line of lines) found.set(key(line), [...(found.get(key(line)) ?? []), line]);
  return found;
}

export const figures = new Figures();
