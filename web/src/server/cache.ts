/** Series of charts: what is on the screen, what of it is missing or old, and what to ask for next.
 *
 * Charts that are wanted are asked for in batches of a bounded number of lines, the first one small so that something
 * is drawn soon. What has been fetched stays drawn until its newer answer arrives.
 */
import { MAX_CHARTS, MAX_LINES, type ChartRequest, type LineRequest } from "./api";
import type { DecodedChart } from "./wire";

export const FIRST_LINES = 120;
export const BATCH_LINES = 600;
const KEPT_CHARTS = 200;

export interface Entry {
  request: ChartRequest;
  key: string;
  chart: DecodedChart;
}

interface Want {
  request: ChartRequest;
  key: string;
  /** Lower is sooner. */
  order: number;
}

interface Asked {
  request: ChartRequest;
  key: string;
  /** Whether points came while the answer was on its way. */
  overtaken: boolean;
}

export class SeriesCache {
  readonly #wants = new Map<string, Want>();
  readonly #entries = new Map<string, Entry>();
  readonly #stale = new Set<string>();
  readonly #asked = new Map<string, Asked>();
  #answers = 0;

  /** Says that a chart is on the screen, or, with null, that it is not. */
  want(id: string, request: ChartRequest | null, order = 0): void {
    if (!request) {
      this.#wants.delete(id);
      return;
    }
    const key = JSON.stringify(request);
    this.#wants.set(id, { request, key, order });
  }

  /** Says that series have new points.
   *
   * @returns: ids of known charts that hold one of them.
   */
  dirty(changed: Record<string, readonly string[]>): string[] {
    const tags = new Map(Object.entries(changed).map(([run, names]) => [run, new Set(names)]));
    if (tags.size === 0) return [];
    const holds = (request: ChartRequest): boolean =>
      request.lines.some((line) => touches(line, request.x_tag ?? null, tags));
    const touched = [...this.#entries].filter(([, { request }]) => holds(request)).map(([id]) => id);
    for (const id of touched) this.#stale.add(id);
    // An answer that is on its way may have been made before these points came.
    for (const asked of this.#asked.values()) asked.overtaken ||= holds(asked.request);
    return touched;
  }

  /** Voids everything that has been fetched; it stays drawn until it is fetched again. */
  invalidate(): void {
    for (const id of this.#entries.keys()) this.#stale.add(id);
    for (const asked of this.#asked.values()) asked.overtaken = true;
  }

  /** The charts to ask for now; empty: nothing is missing. They count as asked for.
   *
   * @param unseenOnly: Leave out charts of which something, if older, is drawn.
   */
  next(unseenOnly = false): ChartRequest[] {
    const limit = this.#answers === 0 ? FIRST_LINES : BATCH_LINES;
    const batch: ChartRequest[] = [];
    let lines = 0;
    for (const [id, want] of this.#missing()) {
      if (unseenOnly && this.#entries.has(id)) continue;
      const size = want.request.lines.length;
      if (batch.length && (lines + size > limit || lines + size > MAX_LINES || batch.length >= MAX_CHARTS))
        break;
      batch.push(
        size > MAX_LINES ? { ...want.request, lines: want.request.lines.slice(0, MAX_LINES) } : want.request,
      );
      this.#asked.set(id, { request: want.request, key: want.key, overtaken: false });
      this.#stale.delete(id);
      lines += size;
    }
    return batch;
  }

  #missing(): [string, Want][] {
    return [...this.#wants]
      .filter(([id, want]) => this.#asked.get(id)?.key !== want.key && !this.#fresh(id, want.key))
      .sort(([, a], [, b]) => a.order - b.order);
  }

  #fresh(id: string, key: string): boolean {
    return this.#entries.get(id)?.key === key && !this.#stale.has(id);
  }

  /** Takes an answer; charts that meanwhile are wanted differently are kept until the right answer comes. */
  accept(requests: ChartRequest[], charts: DecodedChart[]): string[] {
    this.#answers += 1;
    const byId = new Map(charts.map((chart) => [chart.id, chart]));
    const changed: string[] = [];
    for (const request of requests) {
      const chart = byId.get(request.id);
      const key = JSON.stringify(request);
      const wanted = this.#wantedKey(request, key);
      const asked = this.#asked.get(request.id);
      if (asked?.key === wanted) this.#asked.delete(request.id);
      if (!chart) continue;
      if (asked?.overtaken) this.#stale.add(request.id);
      this.#entries.delete(request.id);
      this.#entries.set(request.id, { request, key: wanted, chart });
      changed.push(request.id);
    }
    this.#forget();
    return changed;
  }

  /** A request that was cut to the most lines the server takes counts as the whole one. */
  #wantedKey(request: ChartRequest, key: string): string {
    const want = this.#wants.get(request.id);
    return want && want.request.lines.length > MAX_LINES && request.lines.length === MAX_LINES
      ? want.key
      : key;
  }

  /** A question failed: its charts are missing again. */
  reject(requests: ChartRequest[]): void {
    for (const request of requests) {
      this.#asked.delete(request.id);
      if (this.#entries.has(request.id)) this.#stale.add(request.id);
    }
  }

  get(id: string): Entry | undefined {
    return this.#entries.get(id);
  }

  /** Whether everything wanted is there and new. */
  get complete(): boolean {
    return this.#wants.size > 0 && [...this.#wants].every(([id, want]) => this.#fresh(id, want.key));
  }

  get wanted(): number {
    return this.#wants.size;
  }

  #forget(): void {
    for (const id of this.#entries.keys()) {
      if (this.#entries.size <= KEPT_CHARTS) return;
      if (!this.#wants.has(id)) this.#entries.delete(id);
    }
  }
}

/** Whether new points change a line; an expression may be over any tag of its run, or of the parts of that. */
function touches(
  { run, tag, expression }: LineRequest,
  axis: string | null,
  tags: ReadonlyMap<string, ReadonlySet<string>>,
): boolean {
  const own = tags.get(run);
  if (!expression) return own !== undefined && (own.has(tag) || (axis !== null && own.has(axis)));
  const base = run.replace(/\/[^/]*$/, "");
  return (
    own !== undefined ||
    [...tags.keys()].some(
      (name) => name === base || name.startsWith(`${run}/`) || name.startsWith(`${base}/`),
    )
  );
}
