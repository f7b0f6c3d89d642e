/** The pointer on the timeline: what lies under it, a drag that marks a range, a wheel that zooms or moves. */
import { counted } from "../format/number";
import { nsText } from "../format/units";
import { app } from "../state/app.svelte";
import { boxAt, rowAt } from "./layout";
import { readTrack } from "./levels";
import { overlayAt } from "./overlays";
import type { Scene } from "./paint";
import { spanAt } from "./spans";

/** How the view of the timeline is moved, and what is selected in it. */
export interface Moves {
  zoom: (factor: number, around?: number) => void;
  pan: (part: number) => void;
  select: (row: number | null) => void;
  clear: () => void;
}

interface Surroundings extends Moves {
  scene: () => Omit<Scene, "hover">;
  whole: () => [number, number];
  width: () => number;
}

interface Tip {
  x: number;
  y: number;
  title: string;
  note: string;
}

export class Pointer {
  hover = $state(-1);
  tip = $state.raw<Tip | null>(null);
  #drag: { time: number; x: number; moved: boolean } | null = null;

  constructor(private readonly around: Surroundings) {}

  get drags(): boolean {
    return this.#drag !== null;
  }

  wheel(event: WheelEvent): void {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      const { left } = (event.currentTarget as HTMLElement).getBoundingClientRect();
      this.around.zoom(Math.exp(event.deltaY * 0.0022), this.#time(event.clientX - left));
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      this.around.pan((event.deltaX || event.deltaY) / this.around.width());
    }
  }

  down(event: PointerEvent): void {
    if (event.button !== 0) return;
    const x = event.offsetX;
    this.#drag = { time: this.#time(x), x, moved: false };
    (event.currentTarget as HTMLElement).setPointerCapture(event.pointerId);
  }

  move(event: PointerEvent): void {
    const x = event.offsetX;
    const drag = this.#drag;
    if (drag && (drag.moved || Math.abs(x - drag.x) > 4)) {
      drag.moved = true;
      const whole = this.around.whole();
      const time = Math.min(whole[1], Math.max(whole[0], this.#time(x)));
      const [from, to] = drag.time < time ? [drag.time, time] : [time, drag.time];
      if (to - from >= 1) app.set({ profile: { range: [Math.floor(from), Math.ceil(to)], event: null } });
      return;
    }
    this.hover = this.#span(event);
    this.tip = this.#tipOf(event);
  }

  up(event: PointerEvent): void {
    const was = this.#drag;
    this.#drag = null;
    if (!was || was.moved) return;
    const { spans } = this.around.scene();
    const at = this.#span(event);
    const row = at < 0 ? (this.#onTrack(event)?.row ?? -1) : spans!.row[at]!;
    if (row < 0) this.around.clear();
    // Several events narrower than a pixel: go closer.
    else if (at >= 0 && spans!.count[at]! > 1) this.around.zoom(0.25, this.#time(event.offsetX));
    else this.around.select(row);
  }

  leave(): void {
    this.hover = -1;
    this.tip = null;
  }

  #time(x: number): number {
    const [from, to] = this.around.scene().window;
    return from + (x / this.around.width()) * (to - from);
  }

  #span(event: PointerEvent): number {
    const { spans, layout, scrolled, window } = this.around.scene();
    const row = rowAt(layout, event.offsetY + scrolled);
    if (!row || !spans) return -1;
    const slack = (3 * (window[1] - window[0])) / this.around.width();
    return spanAt(spans, row.lane, row.depth, this.#time(event.offsetX), slack);
  }

  #onTrack(event: PointerEvent): ReturnType<typeof readTrack> {
    const { tracks, layout, scrolled } = this.around.scene();
    const match = boxAt(layout, event.offsetY + scrolled);
    return match && tracks ? readTrack(tracks, match.box, match.below, this.#time(event.offsetX)) : null;
  }

  #tipOf(event: PointerEvent): Tip | null {
    const { offsetX: x, offsetY: y } = event;
    const { spans, layout, scrolled, overlays } = this.around.scene();
    const at = this.hover;
    const name = at >= 0 && spans ? spans.header.names[spans.name[at]!]! : "";
    const row = rowAt(layout, y + scrolled);
    const over = row && overlayAt(overlays, row.lane, row.depth, this.#time(x));
    if (over) {
      const note = over.kind === "wait" ? name : "No stream of the device was busy";
      return { x, y, title: over.text, note };
    }
    if (at < 0 || !spans) {
      const track = this.#onTrack(event);
      return track && { x, y, title: track.title, note: track.note };
    }
    const merged = spans.count[at]!;
    const time = nsText(spans.end[at]! - spans.start[at]!);
    return merged > 1
      ? { x, y, title: counted(merged, "event"), note: `${time}, the longest ${name}` }
      : { x, y, title: name, note: time };
  }
}
