/** Pointer and keys on a chart: cursor, drag to zoom, arrow keys. */
import { readAt } from "../series/nearest";
import { nearestIndex } from "../series/shape";
import { cursor } from "../state/cursor.svelte";
import type { LineChart } from "./LineChart";
import type { ChartModel, StyledLine } from "./model";

interface Surroundings {
  chart: () => LineChart | undefined;
  model: () => ChartModel | null;
  host: () => HTMLElement;
  id: () => string;
  zoom: (zoom: [number, number] | null) => void;
  announce: (x: number) => void;
  /** Opens the profile of a captured step. */
  open?: (path: string) => void;
}

/** A click so near to the mark of a captured step means it. */
const NEAR_MARK = 8;

const LEAST_DRAG = 4;
/** A run farther from the pointer than this is not meant by it. */
const REACH = 60;

export class Pointing {
  #from: number | null = null;
  #dragged = false;

  constructor(private readonly around: Surroundings) {}

  move(event: PointerEvent): void {
    const chart = this.around.chart();
    const model = this.around.model();
    if (!chart || !model) return;
    const { left, top } = this.#place(event);
    if (this.#from !== null) return this.#drag(chart, left);
    const area = chart.area;
    if (left < area.left - 2 || left > area.left + area.width + 2) return cursor.leave(this.around.id());
    const pointed = chart.xAt(left);
    const reading = readAt(model.lines, pointed, (value) => chart.pixel(0, value).top, top, {
      superseded: model.superseded,
      rows: 1,
    });
    const nearest = reading.rows[0];
    cursor.move({
      chart: this.around.id(),
      x: nearest ? nearest.x : pointed,
      pointer: top,
      left: event.clientX,
      top: event.clientY,
      line: nearest?.line.id ?? null,
      family: nearest && nearest.distance <= REACH ? nearest.line.family : null,
    });
  }

  down(event: PointerEvent): void {
    const chart = this.around.chart();
    if (event.button !== 0 || !chart || event.pointerType === "touch") return;
    const { left } = this.#place(event);
    const { left: start, width } = chart.area;
    if (left < start || left > start + width) return;
    this.#from = left;
    this.#dragged = false;
    this.around.host().setPointerCapture(event.pointerId);
  }

  up(event: PointerEvent): void {
    const chart = this.around.chart();
    const from = this.#from;
    const dragged = this.#dragged;
    this.cancel();
    if (!chart || from === null) return;
    if (!dragged) return this.#clicked(chart, event);
    const ends = [chart.xAt(from), chart.xAt(this.#place(event).left)].sort((a, b) => a - b) as [
      number,
      number,
    ];
    const zoom = this.#inside(ends);
    if (zoom) this.around.zoom(zoom);
  }

  #clicked(chart: LineChart, event: PointerEvent): void {
    const { left, top } = this.#place(event);
    const { area } = chart;
    if (Math.abs(top - area.top - area.height) > 2 * NEAR_MARK) return;
    const marks = this.around.model()?.marks ?? [];
    const near = marks.find(
      ({ step, path }) => path !== null && Math.abs(chart.pixel(step, 0).left - left) <= NEAR_MARK,
    );
    if (near) this.around.open?.(near.path!);
  }

  cancel(): void {
    this.#from = null;
    this.#dragged = false;
    this.around.chart()?.setSelection(null);
  }

  leave(): void {
    if (this.#from === null) cursor.leave(this.around.id());
  }

  blur(): void {
    if (cursor.state.pointer === null) cursor.leave(this.around.id());
  }

  key(event: KeyboardEvent): void {
    const model = this.around.model();
    if (!model || event.altKey || event.metaKey || event.ctrlKey) return;
    const by: Record<string, number> = {
      ArrowLeft: -1,
      ArrowRight: 1,
      PageUp: -10,
      PageDown: 10,
      Home: -Infinity,
      End: Infinity,
    };
    const step = by[event.key];
    if (step !== undefined) this.step(step);
    else if (event.key === "Escape" && (this.#from !== null || cursor.state.x !== null)) {
      this.cancel();
      cursor.leave();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Moves the cursor by some points of the longest line. */
  step(by: number): void {
    const chart = this.around.chart();
    const model = this.around.model();
    const line = model && longest(model);
    if (!chart || !model || !line) return;
    const last = line.end - 1;
    const before =
      cursor.state.x === null ? (by > 0 ? -1 : last + 1) : nearestIndex(line.x, cursor.state.x, line.end);
    const at = Math.min(last, Math.max(0, by === Infinity ? last : by === -Infinity ? 0 : before + by));
    const x = line.x[at]!;
    const box = this.around.host().getBoundingClientRect();
    const place = chart.pixel(x, line.y[at]!);
    cursor.move({
      chart: this.around.id(),
      x,
      pointer: null,
      left: box.left + place.left,
      top: box.top + chart.area.top,
      line: line.id,
      family: null,
    });
    this.around.announce(x);
  }

  #drag(chart: LineChart, left: number): void {
    this.#dragged ||= Math.abs(left - this.#from!) >= LEAST_DRAG;
    if (!this.#dragged) return;
    cursor.leave();
    chart.setSelection([this.#from!, left]);
  }

  /** A range that holds something: whole steps on a step axis, never outside of what is drawn. */
  #inside([from, to]: [number, number]): [number, number] | null {
    const { x, xAxis } = this.around.model()!;
    let low = Math.max(from, x.min);
    let high = Math.min(to, x.max);
    if (xAxis === "step") [low, high] = [Math.floor(low), Math.ceil(high)];
    return high > low ? [low, high] : null;
  }

  #place(event: PointerEvent): { left: number; top: number } {
    const box = this.around.host().getBoundingClientRect();
    return { left: event.clientX - box.left, top: event.clientY - box.top };
  }
}

function longest(model: ChartModel): StyledLine | undefined {
  return model.lines.reduce<StyledLine | undefined>(
    (best, line) => (!best || line.end > best.end ? line : best),
    undefined,
  );
}
