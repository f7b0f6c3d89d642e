/** What the timeline has from the server: the part in view and half a view on each side, one question at a time. */
import { fetchSpans, fetchTracks, type Spans, type TracksDrawn } from "./questions";

export interface Wanted {
  whole: readonly [number, number];
  view: readonly [number, number];
  width: number;
  lanes: readonly number[];
  tracks: readonly number[];
}

const MOST_PIXELS = 8192;
const AGAIN_MS = 2_000;

export class Drawn {
  spans = $state.raw<Spans | null>(null);
  tracks = $state.raw<TracksDrawn | null>(null);
  busy = $state(false);
  #next: Wanted | null = null;
  #have = "";
  #gone = false;

  constructor(readonly path: string) {}

  /** Asks for a view, after the answer that is on its way. */
  want(wanted: Wanted): void {
    this.#next = wanted;
    if (!this.busy) void this.#ask();
  }

  /** The page was left: what is still on its way is of no use. */
  leave(): void {
    this.#gone = true;
  }

  async #ask(): Promise<void> {
    while (this.#next && !this.#gone) {
      const { whole, view, width, lanes, tracks } = this.#next;
      this.#next = null;
      const margin = (view[1] - view[0]) / 2;
      const [from, to] = [Math.max(whole[0], view[0] - margin), Math.min(whole[1], view[1] + margin)];
      const pixels = Math.min(
        MOST_PIXELS,
        Math.max(64, Math.round((width * (to - from)) / (view[1] - view[0]))),
      );
      const key = `${Math.floor(from)} ${Math.ceil(to)} ${pixels} ${lanes.join(",")} ${tracks.join(",")}`;
      if ((!lanes.length && !tracks.length) || key === this.#have || to <= from) continue;
      this.busy = true;
      try {
        const [spans, levels] = await Promise.all([
          fetchSpans(this.path, from, to, pixels, lanes),
          tracks.length ? fetchTracks(this.path, from, to, pixels, tracks) : null,
        ]);
        if (this.#gone) return;
        [this.spans, this.tracks, this.#have] = [spans, levels, key];
      } catch {
        this.#have = "";
        const again = this.#next ?? { whole, view, width, lanes, tracks };
        this.#next = null;
        setTimeout(() => !this.#gone && this.#have === "" && this.want(again), AGAIN_MS);
      } finally {
        this.busy = false;
      }
    }
  }
}
