/** A chart of lines with axes, on two canvases: what is recorded below, cursor and emphasis above.
 *
 * uPlot lays out and draws the axes; it is used nowhere else. Lines are painted from their own columns, because each
 * may have its own x.
 */
import uPlot from "uplot";
import { nearestIndex } from "../series/shape";
import { axesOf } from "./axes";
import type { ChartModel, Placing, StyledLine } from "./model";
import { paintAxes, type LaidOut } from "./axispaint";
import { paintedBy } from "./export/painters";
import { placingOf } from "./scale";
import { paintEmphasis, paintLines, paintMarks, paintPoint, type Box } from "./paint";

export interface Cursor {
  /** null: no cursor. */
  x: number | null;
  /** The line, family or nothing that is brought forward. */
  emphasis: string | null;
}

/** Ranges of pixels of the page from the left and top of the chart; null: the whole axis. */
type Selection = [[number, number] | null, [number, number] | null];

const NO_CURSOR: Cursor = { x: null, emphasis: null };
const DUMMY: uPlot.AlignedData = [
  [0, 1],
  [null, null],
];

export class LineChart {
  #model: ChartModel;
  #plot: uPlot;
  readonly #overlay: HTMLCanvasElement;
  #cursor: Cursor = NO_CURSOR;
  #selection: Selection | null = null;
  #width: number;
  #height: number;
  #shape = "";
  /** Whether anything is painted above the lines. */
  #marked = false;
  #frame = 0;

  constructor(
    private readonly host: HTMLElement,
    model: ChartModel,
    size: { width: number; height: number },
    private readonly narrow: boolean,
  ) {
    this.#model = model;
    this.#width = size.width;
    this.#height = size.height;
    this.#overlay = document.createElement("canvas");
    this.#overlay.className = "overlay";
    this.#plot = this.#create();
    this.#sizeOverlay();
  }

  /** Draws another model; axes are made anew only where their kind changes. */
  update(model: ChartModel): void {
    const marked = this.#model.marks !== model.marks;
    this.#model = model;
    if (this.#kind() !== this.#shape) {
      this.#plot.destroy();
      this.#plot = this.#create();
      this.#sizeOverlay();
    } else {
      this.#plot.setData(this.#data());
      // A step that is marked below the axis takes the place of tick labels, which else stay as they are.
      if (marked) this.#plot.redraw(false, true);
    }
    this.#drawOverlay();
  }

  resize(width: number, height: number): void {
    if (width === this.#width && height === this.#height) return;
    this.#width = width;
    this.#height = height;
    this.#plot.setSize({ width, height });
    this.#sizeOverlay();
    this.#drawOverlay();
  }

  setCursor(cursor: Cursor): void {
    if (cursor.x === this.#cursor.x && cursor.emphasis === this.#cursor.emphasis) return;
    this.#cursor = cursor;
    this.#later();
  }

  /** Marks the box that is being dragged. */
  setSelection(selection: Selection | null): void {
    this.#selection = selection;
    this.#later();
  }

  destroy(): void {
    cancelAnimationFrame(this.#frame);
    this.#plot.destroy();
    this.#overlay.remove();
  }

  /** The plot area in pixels of the page, from the left and top of the chart. */
  get area(): { left: number; top: number; width: number; height: number } {
    const { left, top, width, height } = this.#plot.bbox;
    const dpr = uPlot.pxRatio;
    return { left: left / dpr, top: top / dpr, width: width / dpr, height: height / dpr };
  }

  xAt(pixel: number): number {
    return this.#plot.posToVal(pixel - this.area.left, "x");
  }

  yAt(pixel: number): number {
    return this.#plot.posToVal(pixel - this.area.top, "y");
  }

  /** Pixels of a point from the left and top of the chart. */
  pixel(x: number, y: number, line: { right?: boolean } = {}): { left: number; top: number } {
    const placing = placingOf(this.#placing(), line);
    return { left: placing.x(x) / uPlot.pxRatio, top: placing.y(y) / uPlot.pxRatio };
  }

  #kind(): string {
    const { xAxis, logX, logY, palette, right } = this.#model;
    return [xAxis, logX && this.#model.x.min > 0, logY, right ? right.logY : "", palette.dark].join();
  }

  #data(): uPlot.AlignedData {
    return this.#model.right ? [DUMMY[0], [null, null], [null, null]] : DUMMY;
  }

  #create(): uPlot {
    this.#shape = this.#kind();
    const { xAxis, logX, logY, right } = this.#model;
    const second: uPlot.Scales = right
      ? {
          right: {
            range: () => [this.#model.right!.y.min, this.#model.right!.y.max],
            distr: right.logY ? 3 : 1,
          },
        }
      : {};
    const hidden: uPlot.Series = { show: true, paths: () => null, points: { show: false } };
    const options: uPlot.Options = {
      width: this.#width,
      height: this.#height,
      padding: [6, 18, 0, 0],
      cursor: { show: false },
      legend: { show: false },
      select: { show: false, left: 0, top: 0, width: 0, height: 0 },
      scales: {
        x: {
          time: xAxis === "wall",
          range: () => [this.#model.x.min, this.#model.x.max],
          distr: logX && this.#model.x.min > 0 ? 3 : 1,
        },
        y: { range: () => [this.#model.y.min, this.#model.y.max], distr: logY ? 3 : 1 },
        ...second,
      },
      series: [{}, hidden, ...(right ? [{ ...hidden, scale: "right" }] : [])],
      axes: axesOf(() => this.#model, this.narrow),
      hooks: { draw: [(plot) => this.#paint(plot)] },
    };
    const plot = new uPlot(options, this.#data(), this.host);
    plot.root.append(this.#overlay);
    paintedBy(plot.ctx.canvas, (c) => this.paintOn(c));
    return plot;
  }

  #paint(plot: uPlot): void {
    // uPlot remembers the styles that it has set, and does not set them again.
    plot.ctx.save();
    paintLines(plot.ctx, this.#model, plot.bbox, this.#placing(plot), uPlot.pxRatio);
    paintMarks(plot.ctx, this.#model, plot.bbox, this.#placing(plot), uPlot.pxRatio);
    plot.ctx.restore();
  }

  /** Paints axes and lines in pixels of the page, as into a file. */
  paintOn(c: CanvasRenderingContext2D): void {
    const placing = this.#placing(this.#plot, this.area);
    paintAxes(c, this.#plot.axes as unknown as LaidOut[], this.area, placing, this.#model.palette);
    paintLines(c, this.#model, this.area, placing, 1);
    paintMarks(c, this.#model, this.area, placing, 1);
  }

  #placing(plot: uPlot = this.#plot, box: Box = plot.bbox): Placing {
    const { left, top, width, height } = box;
    const { x, y, logX, logY, right } = this.#model;
    return {
      x: axis(x.min, x.max, left, width, logX && x.min > 0),
      y: axis(y.max, y.min, top, height, logY),
      ...(right ? { right: axis(right.y.max, right.y.min, top, height, right.logY) } : {}),
    };
  }

  #sizeOverlay(): void {
    const dpr = uPlot.pxRatio;
    this.#overlay.width = Math.round(this.#width * dpr);
    this.#overlay.height = Math.round(this.#height * dpr);
    this.#overlay.style.width = `${this.#width}px`;
    this.#overlay.style.height = `${this.#height}px`;
  }

  #later(): void {
    this.#frame ||= requestAnimationFrame(() => this.#drawOverlay());
  }

  #drawOverlay(): void {
    this.#frame = 0;
    const wanted = this.#selection !== null || this.#cursor.x !== null || this.#cursor.emphasis !== null;
    // A canvas that nothing was painted on costs nothing until it is touched.
    if (!wanted && !this.#marked) return;
    this.#marked = wanted;
    const c = this.#overlay.getContext("2d")!;
    const dpr = uPlot.pxRatio;
    c.setTransform(1, 0, 0, 1, 0, 0);
    c.clearRect(0, 0, this.#overlay.width, this.#overlay.height);
    const box = this.#plot.bbox;
    if (this.#selection) this.#drawSelection(c, dpr);
    if (this.#cursor.x === null && this.#cursor.emphasis === null) return;
    c.save();
    c.beginPath();
    c.rect(box.left, box.top - 4 * dpr, box.width + 4 * dpr, box.height + 8 * dpr);
    c.clip();
    const placing = this.#placing();
    const front = this.#model.lines.filter(
      (line) => line.id === this.#cursor.emphasis || line.family === this.#cursor.emphasis,
    );
    for (const line of front) paintEmphasis(c, line, this.#model, placing, dpr);
    if (this.#cursor.x !== null) this.#drawCursor(c, this.#cursor.x, front, placing, dpr);
    c.restore();
  }

  #drawSelection(c: CanvasRenderingContext2D, dpr: number): void {
    const box = this.#plot.bbox;
    const [x, y] = this.#selection!;
    const within = (ends: [number, number] | null, start: number, length: number): [number, number] =>
      (ends ?? [-Infinity, Infinity]).map((pixel) =>
        Math.min(Math.max(pixel * dpr, start), start + length),
      ) as [number, number];
    const [left, right] = within(x, box.left, box.width);
    const [top, bottom] = within(y, box.top, box.height);
    c.fillStyle = this.#model.palette.accent;
    c.globalAlpha = 0.14;
    c.fillRect(left, top, right - left, bottom - top);
    c.globalAlpha = 1;
    if (x) for (const edge of [left, right]) c.fillRect(Math.round(edge) - dpr / 2, top, dpr, bottom - top);
    if (y) for (const edge of [top, bottom]) c.fillRect(left, Math.round(edge) - dpr / 2, right - left, dpr);
  }

  #drawCursor(
    c: CanvasRenderingContext2D,
    x: number,
    front: StyledLine[],
    placing: Placing,
    dpr: number,
  ): void {
    const box = this.#plot.bbox;
    const px = placing.x(x);
    if (!(px >= box.left - 1 && px <= box.left + box.width + 1)) return;
    c.strokeStyle = this.#model.palette.fg;
    c.lineWidth = dpr;
    c.setLineDash([2 * dpr, 2 * dpr]);
    c.beginPath();
    c.moveTo(Math.round(px) + 0.5, box.top);
    c.lineTo(Math.round(px) + 0.5, box.top + box.height);
    c.stroke();
    c.setLineDash([]);
    const dotted = front.length ? front : this.#model.lines.length <= 3 ? this.#model.lines : [];
    for (const line of dotted) {
      const at = nearestIndex(line.x, x, this.#model.superseded ? line.x.length : line.end);
      const py = placingOf(placing, line).y(line.y[at]!);
      if (at >= 0 && py >= box.top - 1 && py <= box.top + box.height + 1) {
        paintPoint(c, placing.x(line.x[at]!), py, line.colour, this.#model.palette.surface, 3.5 * dpr);
      }
    }
  }
}

/** Pixel of a value on an axis from `from` at `start` to `to`. */
function axis(
  from: number,
  to: number,
  start: number,
  length: number,
  log: boolean,
): (value: number) => number {
  if (!log) {
    const scale = length / (to - from);
    return (value) => start + (value - from) * scale;
  }
  const first = Math.log(from);
  const scale = length / (Math.log(to) - first);
  return (value) => (value > 0 ? start + (Math.log(value) - first) * scale : NaN);
}
