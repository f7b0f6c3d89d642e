/** Brings series of what is on the screen, one request at a time. */
import { SvelteMap, SvelteSet } from "svelte/reactivity";
import type { ChartRequest } from "../server/api";
import { SeriesCache, type Entry } from "../server/cache";
import { fetchSeries } from "../server/client";
import type { Range } from "../series/limits";
import { sharedRanges } from "../series/axis";
import { app } from "./app.svelte";

/** While the log is read, runs come all the time: what is drawn already is drawn anew only so often. */
const WHILE_LOADING_MS = 600;

/** Charts that are handed on in one turn, and what a trend takes of one. */
const AT_ONCE = 4;
const SMALL = 0.1;

class Feed {
  /** Fetched series by the id of the request; a chart re-reads its own entry when it changes. */
  readonly entries = new SvelteMap<string, Entry>();
  readonly #cache = new SeriesCache();
  /** Charts on the screen. */
  readonly #live = new SvelteSet<string>();
  /** Ranges that charts on the screen share, so that one x is at one place on all that count the same. */
  readonly #ranges = $derived.by(() => {
    const extents = new Map<string, Range>();
    for (const id of this.#live) {
      const chart = this.entries.get(id)?.chart;
      const [first, end] = [chart?.first ?? null, chart?.end ?? null];
      if (chart?.x === app.view.charts.x && first !== null && end !== null)
        extents.set(id, { min: first, max: end });
    }
    return sharedRanges(extents);
  });
  #busy = false;
  #asked = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #planned = false;

  constructor() {
    app.onChanges((dirty, reset) => {
      if (reset) this.#cache.invalidate();
      else this.#cache.dirty(dirty);
      this.#plan();
    });
    document.addEventListener("visibilitychange", () => this.#plan());
  }

  want(id: string, request: ChartRequest, place: number, live = false): void {
    this.#cache.want(id, request, place);
    if (live) this.#live.add(id);
    this.#plan();
  }

  release(id: string): void {
    this.#cache.want(id, null);
    this.#live.delete(id);
  }

  /** What a chart and those that share its axis cover together. */
  rangeOf(id: string): Range | null {
    return this.#ranges.get(id) ?? null;
  }

  /** The zoom as it holds for a chart: not for one whose axis has nothing there. */
  zoomOf(id: string): [number, number] | null {
    const { zoom } = app.view.charts;
    const range = this.rangeOf(id);
    return zoom && range && (zoom[0] > range.max || zoom[1] < range.min) ? null : zoom;
  }

  /** What can be zoomed into: the range that most charts share. */
  get extent(): Range | null {
    const counts = new Map<Range, number>();
    for (const range of this.#ranges.values()) counts.set(range, (counts.get(range) ?? 0) + 1);
    return (
      [...counts].reduce<[Range, number] | null>(
        (most, one) => (most && most[1] >= one[1] ? most : one),
        null,
      )?.[0] ?? null
    );
  }

  /** Whether charts on the screen have several x ranges. */
  get mixed(): boolean {
    return new Set(this.#ranges.values()).size > 1;
  }

  /** Whether everything that is on the screen is drawn from the newest points. */
  get complete(): boolean {
    return this.#cache.complete && !this.#busy;
  }

  /** Whether nothing that can be drawn is on the screen. */
  get idle(): boolean {
    return this.#cache.wanted === 0 && !this.#busy;
  }

  get fetched(): number {
    return this.entries.size;
  }

  /** After all that is said in this turn, so that it becomes one request. */
  #plan(): void {
    if (this.#planned) return;
    this.#planned = true;
    queueMicrotask(() => {
      this.#planned = false;
      void this.#pump();
    });
  }

  #later(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#pump(), ms);
  }

  /** Hands on what has come, little in a turn: what it draws is made at once, and keys and scrolling come between. */
  async #take(ids: readonly string[]): Promise<void> {
    let taken = 0;
    for (const id of ids) {
      if (taken >= AT_ONCE) {
        await new Promise((done) => setTimeout(done));
        taken = 0;
      }
      taken += this.#live.has(id) ? 1 : SMALL;
      const entry = this.#cache.get(id);
      if (entry) this.entries.set(id, entry);
    }
  }

  async #pump(): Promise<void> {
    if (this.#busy || document.hidden) return;
    const wait = app.catalog.loading ? this.#asked + WHILE_LOADING_MS - Date.now() : 0;
    const batch = this.#cache.next(wait > 0);
    if (!batch.length) {
      if (wait > 0) this.#later(wait);
      return;
    }
    this.#busy = true;
    this.#asked = Date.now();
    try {
      await this.#take(this.#cache.accept(batch, await fetchSeries(batch)));
      this.#busy = false;
      this.#plan();
    } catch {
      // The next answer to `changes` tries again; until then the badge says that the server is gone.
      this.#cache.reject(batch);
      this.#busy = false;
    }
  }
}

export const feed = new Feed();
