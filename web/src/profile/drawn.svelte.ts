/** What the timeline has from the server: the part in view and half a view on each side, one question at a time. */
import { ENOUGH, receive } from "../server/receive";
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
  #end = (): void => undefined;

  constructor(readonly path: string) {}

  /** Asks for a view, after the answer that is on its way. */
  want(wanted: Wanted): void {
    this.#next = wanted;
    if (!this.busy) this.#ask();
  }

  /** The page was left: what is still on its way is of no use. */
  leave(): void {
    this.#end();
  }

  #ask(): void {
    if (!this.#next) return;
    const { whole, view, width, lanes, tracks } = this.#next;
    this.#next = null;
    const margin = (view[1] - view[0]) / 2;
    const [from, to] = [Math.max(whole[0], view[0] - margin), Math.min(whole[1], view[1] + margin)];
    const pixels = Math.min(
      MOST_PIXELS,
      Math.max(64, Math.round((width * (to - from)) / (view[1] - view[0]))),
    );
    const key = `${Math.floor(from)} ${Math.ceil(to)} ${pixels} ${lanes.join(",")} ${tracks.join(",")}`;
    if ((!lanes.length && !tracks.length) || key === this.#have || to <= from) return;
    this.#end();
    this.busy = true;
    this.#end = receive(
      () =>
        Promise.all([
          fetchSpans(this.path, from, to, pixels, lanes),
          tracks.length ? fetchTracks(this.path, from, to, pixels, tracks) : null,
        ]),
      ([spans, levels]) => {
        [this.spans, this.tracks, this.#have, this.busy] = [spans, levels, key, false];
        this.#ask();
        return ENOUGH;
      },
      // Asked again, unless another view is wanted meanwhile.
      () => ([this.#have, this.busy] = ["", false]),
      { every: AGAIN_MS },
    );
  }
}
