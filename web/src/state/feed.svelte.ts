/** Brings series of what is on the screen, one request at a time. */
import { SvelteMap } from "svelte/reactivity";
import type { ChartRequest } from "../server/api";
import { SeriesCache, type Entry } from "../server/cache";
import { fetchSeries } from "../server/client";
import type { Range } from "../series/limits";
import type { Axis } from "../series/axis";
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
  /** Charts on the screen; those that share the x axis of the page. */
  readonly #live = new SvelteMap<string, Axis>();
  /** What all charts of an axis on the screen cover together, so that one x is at one place on all of them. */
  readonly #common = $derived(this.#covered("common"));
  readonly #epochs = $derived(this.#covered("epochs"));
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

  want(id: string, request: ChartRequest, place: number, axis: Axis | null = null): void {
    this.#cache.want(id, request, place);
    if (axis) this.#live.set(id, axis);
    this.#plan();
  }

  release(id: string): void {
    this.#cache.want(id, null);
    this.#live.delete(id);
  }

  /** What the charts that are drawn over the same axis cover together. */
  extentOf(axis: Axis): Range | null {
    return axis === "epochs" ? this.#epochs : this.#common;
  }

  /** What can be zoomed into: the common axis, or that of epochs if there is nothing else. */
  get extent(): Range | null {
    return this.#common ?? this.#epochs;
  }

  #covered(axis: Axis): Range | null {
    let [min, max] = [Infinity, -Infinity];
    for (const [id, own] of this.#live) {
      const chart = own === axis ? this.entries.get(id)?.chart : undefined;
      if (!chart || chart.x !== app.view.charts.x) continue;
      min = Math.min(min, chart.x0 ?? Infinity);
      max = Math.max(max, chart.x1 ?? -Infinity);
    }
    return min <= max ? { min, max } : null;
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
