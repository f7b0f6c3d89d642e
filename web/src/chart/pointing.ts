/** Pointer and keys on a chart: cursor, drag or wheel to zoom, arrow keys. */
import { readAt } from "../series/nearest";
import { nearestIndex } from "../series/shape";
import { cursor } from "../state/cursor.svelte";
import type { LineChart } from "./LineChart";
import type { Range } from "../series/limits";
import { NEAR_MARK, marksNear } from "./marks";
import type { ChartModel, Mark, StyledLine } from "./model";

/** Ranges of axes to zoom into; what is left out stays, null is the whole. */
export interface Zoom {
  x?: [number, number] | null;
  y?: Range | null;
}

interface Surroundings {
  chart: () => LineChart | undefined;
  model: () => ChartModel | null;
  host: () => HTMLElement;
  id: () => string;
  zoom: (to: Zoom) => void;
  /** Whether the wheel zooms by itself: there is nothing to scroll. */
  wheels?: () => boolean;
  announce: (x: number) => void;
  /** Opens what is marked: the profile of a captured step, or a note. */
  open?: (mark: Mark) => void;
  /** Picks the run of the line that was clicked. */
  pick?: (family: string) => void;
}

const LEAST_DRAG = 4;
/** A drag that goes so far in one direction, and not in the other, zooms that axis alone. */
const STRAIGHT = 14;
/** How much of a range one turn of the wheel leaves. */
const WHEEL = 0.8;

interface Place {
  left: number;
  top: number;
}
/** A run farther from the pointer than this is not meant by it. */
const REACH = 60;
/** Pixels from a line within which a click is meant for it. */
const TOUCHED = 10;

export class Pointing {
  #from: Place | null = null;
  #dragged = false;

  constructor(private readonly around: Surroundings) {}

  move(event: PointerEvent): void {
    const chart = this.around.chart();
    const model = this.around.model();
    if (!chart || !model) return;
    const { left, top } = this.#place(event);
    if (this.#from !== null) return this.#drag(chart, { left, top });
    const area = chart.area;
    if (left < area.left - 2 || left > area.left + area.width + 2) return cursor.leave(this.around.id());
    const pointed = chart.xAt(left);
    const nearest = this.#nearest(chart, model, { left, top });
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

  #nearest(chart: LineChart, model: ChartModel, { left, top }: Place) {
    const pixel = (value: number, line: StyledLine): number => chart.pixel(0, value, line).top;
    return readAt(model.lines, chart.xAt(left), pixel, top, { superseded: model.superseded, rows: 1 })
      .rows[0];
  }

  down(event: PointerEvent): void {
    const chart = this.around.chart();
    if (event.button !== 0 || !chart || event.pointerType === "touch") return;
    const place = this.#place(event);
    const { area } = chart;
    if (place.left > area.left + area.width || place.top > area.top + area.height + 2 * NEAR_MARK) return;
    this.#from = place;
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
    const [x, y] = this.#box(chart, from, this.#place(event));
    const across = x && this.#inside([chart.xAt(x[0]), chart.xAt(x[1])]);
    const up = y && this.#between(chart.yAt(y[1]), chart.yAt(y[0]));
    if (across || up) this.around.zoom({ ...(across ? { x: across } : {}), ...(up ? { y: up } : {}) });
  }

  /** Zooms around the pointer: x with Ctrl or ⌘, y with Shift; a wheel alone scrolls the page where it can. */
  wheel(event: WheelEvent): void {
    const chart = this.around.chart();
    const model = this.around.model();
    const turn = event.deltaY || event.deltaX;
    if (
      !chart ||
      !model ||
      !(event.ctrlKey || event.metaKey || event.shiftKey || this.around.wheels?.()) ||
      !turn
    )
      return;
    event.preventDefault();
    const { left, top } = this.#place(event);
    const part = turn < 0 ? WHEEL : 1 / WHEEL;
    if (event.shiftKey) {
      const around = (pixel: number): number => chart.yAt(top + (pixel - top) * part);
      const { top: upper, height } = chart.area;
      const y = this.#between(around(upper + height), around(upper));
      if (y) this.around.zoom({ y });
      return;
    }
    const { left: start, width } = chart.area;
    const around = (pixel: number): number => chart.xAt(left + (pixel - left) * part);
    const x = this.#whole([around(start), around(start + width)]);
    if (x) this.around.zoom({ x });
  }

  /** Pixels that a drag covers, from left and from the top; null: the axis stays. A drag on an axis is of that axis. */
  #box(chart: LineChart, from: Place, to: Place): [[number, number] | null, [number, number] | null] {
    const { area } = chart;
    const x: [number, number] = [Math.min(from.left, to.left), Math.max(from.left, to.left)];
    const y: [number, number] = [Math.min(from.top, to.top), Math.max(from.top, to.top)];
    const [wide, tall] = [x[1] - x[0] >= STRAIGHT, y[1] - y[0] >= STRAIGHT];
    if (from.left < area.left) return [null, y];
    if (from.top > area.top + area.height) return [x, null];
    return wide === tall ? (wide ? [x, y] : [x, null]) : wide ? [x, null] : [null, y];
  }

  #between(min: number, max: number): Range | null {
    const { logY } = this.around.model()!;
    return Number.isFinite(min) && max > min && (!logY || min > 0) ? { min, max } : null;
  }

  #clicked(chart: LineChart, event: PointerEvent): void {
    const { left, top } = this.#place(event);
    const { area } = chart;
    if (Math.abs(top - area.top - area.height) > 2 * NEAR_MARK) {
      const model = this.around.model();
      const nearest = model && this.#nearest(chart, model, { left, top });
      if (nearest && nearest.distance <= TOUCHED) this.around.pick?.(nearest.line.family);
      return;
    }
    const marks = this.around.model()?.marks ?? [];
    const near = marksNear(marks, left, (step) => chart.pixel(step, 0).left);
    const meant = near.find(({ kind }) => kind === "note") ?? near.find(({ path }) => path !== null);
    if (meant) this.around.open?.(meant);
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
    const place = chart.pixel(x, line.y[at]!, line);
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

  #drag(chart: LineChart, to: Place): void {
    const from = this.#from!;
    this.#dragged ||= Math.max(Math.abs(to.left - from.left), Math.abs(to.top - from.top)) >= LEAST_DRAG;
    if (!this.#dragged) return;
    cursor.leave();
    chart.setSelection(this.#box(chart, from, to));
  }

  /** A range that holds something: whole steps on a step axis, never outside of what is drawn. */
  #inside([from, to]: [number, number]): [number, number] | null {
    const { x } = this.around.model()!;
    return this.#whole([Math.max(from, x.min), Math.min(to, x.max)]);
  }

  #whole([from, to]: [number, number]): [number, number] | null {
    const step = this.around.model()!.xAxis === "step";
    const [low, high] = step ? [Math.floor(from), Math.ceil(to)] : [from, to];
    return high > low ? [low, high] : null;
  }

  #place(event: MouseEvent): Place {
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
