/** Draws lines, bands and marks on a canvas; knows nothing of axes. */
import { fixed } from "../format/number";
import { lowerBound } from "../series/shape";
import type { Numbers } from "../server/wire";
import { AHEAD_DASH } from "./ahead";
import { placingOf } from "./scale";
import type { Ahead, ChartModel, Placing, StyledLine } from "./model";

const THIN = 1.15;
const STRONG = 1.9;
const THICK = 2.25;

export interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

/** Everything below the cursor: ghosts, lines, dots, marks. */
export function paintLines(
  c: CanvasRenderingContext2D,
  model: ChartModel,
  box: Box,
  placing: Placing,
  dpr: number,
): void {
  c.save();
  c.beginPath();
  c.rect(box.left - 3 * dpr, box.top, box.width + 6 * dpr, box.height);
  c.clip();
  c.lineJoin = "round";
  c.lineCap = "butt";
  model.under?.(c, placing);
  if (model.ahead) paintAhead(c, model.ahead, model, placing, dpr);
  const single = model.lines.length <= 3 || model.lines.every((line) => line.band !== null);
  for (const line of model.lines) if (line.band !== null) band(c, line, model, placingOf(placing, line));
  if (model.ghost)
    for (const line of model.lines)
      if (line.smoothed && !line.faint) ghost(c, line, model, placingOf(placing, line), dpr, 0.28);
  for (const line of model.lines) if (line.faint) mainLine(c, line, model, placingOf(placing, line), dpr, 1);
  for (const line of model.lines)
    if (!line.faint && !line.strong)
      mainLine(c, line, model, placingOf(placing, line), dpr, single ? 1.5 : THIN);
  for (const line of model.lines)
    if (!line.faint && line.strong) mainLine(c, line, model, placingOf(placing, line), dpr, STRONG);
  c.restore();
  paintNonFinite(c, model, box, placing, dpr);
}

/** One line brought forward: its band, its raw values and itself, thick. */
export function paintEmphasis(
  c: CanvasRenderingContext2D,
  line: StyledLine,
  model: ChartModel,
  both: Placing,
  dpr: number,
): void {
  const placing = placingOf(both, line);
  c.lineJoin = "round";
  if (line.low && line.high) band(c, line, model, placing);
  else if (line.smoothed) ghost(c, line, model, placing, dpr, 0.35);
  mainLine(c, line, model, placing, dpr, THICK);
}

function mainLine(
  c: CanvasRenderingContext2D,
  line: StyledLine,
  model: ChartModel,
  placing: Placing,
  dpr: number,
  width: number,
): void {
  c.strokeStyle = line.colour;
  c.lineWidth = width * dpr;
  c.setLineDash(line.dash.map((part) => part * dpr));
  const [from, to] = visible(line, model, line.end);
  c.beginPath();
  const alone = trace(c, line, from, to, placing, !line.smoothed && !line.faint);
  c.stroke();
  if (model.superseded && line.end < line.x.length) superseded(c, line, model, placing, dpr);
  c.setLineDash([]);
  const points = line.dots ? placed(line, from, to, placing) : alone;
  if (points.length) dots(c, points, line.colour, dpr);
}

/** What a restart went over again: thin and dotted. */
function superseded(
  c: CanvasRenderingContext2D,
  line: StyledLine,
  model: ChartModel,
  placing: Placing,
  dpr: number,
): void {
  c.lineWidth = dpr;
  c.setLineDash([2 * dpr, 2 * dpr]);
  const [, to] = visible(line, model, line.x.length);
  c.beginPath();
  trace(c, line, Math.max(0, line.end - 1), to, placing, false);
  c.stroke();
}

function visible(line: StyledLine, model: ChartModel, end: number): [number, number] {
  const from = Math.max(0, lowerBound(line.x, model.x.min) - 1);
  return [from, Math.min(end, lowerBound(line.x, model.x.max) + 2)];
}

/** Lines that are no longer than this, in pixels of the canvas, are seen as dots. */
const SHORT = 3;

/** Adds the line to the path. With extremes, each place is first, low, high and last, so that no peak is lost.
 *
 * @returns: Where nothing can be seen of a part of the line, as of one point between two that are not finite.
 */
function trace(
  c: CanvasRenderingContext2D,
  line: StyledLine,
  from: number,
  to: number,
  placing: Placing,
  extremes: boolean,
): [number, number][] {
  const { x, y, low, high, first } = line;
  const alone: [number, number][] = [];
  let down = true;
  let [startX, startY, wide] = [NaN, NaN, true];
  const ended = (): void => {
    if (!wide && !down) alone.push([startX, startY]);
  };
  for (let at = from; at < to; at += 1) {
    const px = placing.x(x[at]!);
    const py = placing.y(y[at]!);
    if (py - py !== 0 || px - px !== 0) {
      ended();
      down = true;
      continue;
    }
    if (down) [startX, startY, wide] = [px, py, false];
    else wide ||= Math.abs(px - startX) > SHORT || Math.abs(py - startY) > SHORT;
    if (extremes && low && high && first && low[at] !== high[at]) {
      if (down) c.moveTo(px, placing.y(first[at]!));
      else c.lineTo(px, placing.y(first[at]!));
      c.lineTo(px, placing.y(low[at]!));
      c.lineTo(px, placing.y(high[at]!));
      c.lineTo(px, py);
    } else if (down) c.moveTo(px, py);
    else c.lineTo(px, py);
    down = false;
  }
  ended();
  return alone;
}

function placed(line: StyledLine, from: number, to: number, placing: Placing): [number, number][] {
  return Array.from({ length: Math.max(0, to - from) }, (_, at) => [
    placing.x(line.x[from + at]!),
    placing.y(line.y[from + at]!),
  ]);
}

/** The recorded values behind a smoothed line. */
function ghost(
  c: CanvasRenderingContext2D,
  line: StyledLine,
  model: ChartModel,
  placing: Placing,
  dpr: number,
  alpha: number,
): void {
  const [from, to] = visible(line, model, line.end);
  c.globalAlpha = alpha;
  c.strokeStyle = line.colour;
  c.lineWidth = dpr;
  c.setLineDash([]);
  c.beginPath();
  trace(c, { ...line, y: line.raw }, from, to, placing, true);
  c.stroke();
  c.globalAlpha = 1;
}

function band(c: CanvasRenderingContext2D, line: StyledLine, model: ChartModel, placing: Placing): void {
  const [from, to] = visible(line, model, line.end);
  c.globalAlpha = 0.16;
  c.fillStyle = line.colour;
  c.beginPath();
  edge(c, line.x, line.high!, from, to, 1, placing);
  const down = line.right ? model.right! : model;
  const floor = down.logY ? down.y.min : -Infinity;
  edge(c, line.x, line.low!, to - 1, from - 1, -1, {
    ...placing,
    y: (value) => placing.y(Math.max(value, floor)),
  });
  c.fill();
  c.globalAlpha = 1;
}

/** A band with its edges, and its middle in dots, so that it is not taken for the spread of recorded values. */
function paintAhead(
  c: CanvasRenderingContext2D,
  { x, low, high, colour }: Ahead,
  model: ChartModel,
  placing: Placing,
  dpr: number,
): void {
  const floor = placing.y(model.y.min);
  const y = (value: number): number => (model.logY && value <= 0 ? floor : placing.y(value));
  const along = (values: readonly number[]): [number, number][] =>
    values.map((value, at) => [placing.x(x[at]!), y(value)]);
  const line = (points: [number, number][]): void => {
    c.beginPath();
    for (const [px, py] of points) c.lineTo(px, py);
  };
  const [lower, upper] = [along(low), along(high)];
  c.fillStyle = c.strokeStyle = colour;
  c.globalAlpha = 0.16;
  line([...upper, ...lower.reverse()]);
  c.fill();
  c.globalAlpha = 0.6;
  c.lineWidth = dpr;
  for (const points of [lower, upper]) {
    line(points);
    c.stroke();
  }
  c.globalAlpha = 1;
  c.lineWidth = 1.5 * dpr;
  c.setLineDash(AHEAD_DASH.map((part) => part * dpr));
  line(along(low.map((value, at) => (value + high[at]!) / 2)));
  c.stroke();
  c.setLineDash([]);
}

function edge(
  c: CanvasRenderingContext2D,
  x: Numbers,
  y: Numbers,
  from: number,
  stop: number,
  by: number,
  placing: Placing,
): void {
  for (let at = from; at !== stop; at += by) c.lineTo(placing.x(x[at]!), placing.y(y[at]!));
}

function dots(
  c: CanvasRenderingContext2D,
  points: readonly [number, number][],
  colour: string,
  dpr: number,
): void {
  c.fillStyle = colour;
  c.beginPath();
  for (const [px, py] of points) {
    c.moveTo(px + 2 * dpr, py);
    c.arc(px, py, 2 * dpr, 0, 2 * Math.PI);
  }
  c.fill();
}

/** A triangle under the axis where values are NaN or infinite. */
function paintNonFinite(
  c: CanvasRenderingContext2D,
  model: ChartModel,
  box: Box,
  placing: Placing,
  dpr: number,
): void {
  const bottom = box.top + box.height + dpr;
  c.fillStyle = model.palette.bad;
  c.beginPath();
  let before = -Infinity;
  for (const place of model.lines.flatMap((line) => line.nonfinite).sort((a, b) => a - b)) {
    const px = placing.x(place);
    if (px - before < 5 * dpr || px < box.left - 1 || px > box.left + box.width + 1) continue;
    before = px;
    c.moveTo(px, bottom);
    c.lineTo(px + 3.5 * dpr, bottom + 6 * dpr);
    c.lineTo(px - 3.5 * dpr, bottom + 6 * dpr);
  }
  c.fill();
}

const MARK = 4;

/** Where a finding began, as a dotted line with its step below the axis; on the axis captured steps as diamonds, and
 * steps with a note as flags.
 */
export function paintMarks(
  c: CanvasRenderingContext2D,
  model: ChartModel,
  box: Box,
  placing: Placing,
  dpr: number,
): void {
  const { palette, marks } = model;
  const bottom = box.top + box.height;
  c.save();
  for (const { step, kind } of marks) {
    const px = Math.round(placing.x(step)) + 0.5;
    if (!(px >= box.left && px <= box.left + box.width)) continue;
    c.beginPath();
    if (kind === "capture") {
      const size = MARK * dpr;
      c.moveTo(px, bottom - size);
      c.lineTo(px + size, bottom);
      c.lineTo(px, bottom + size);
      c.lineTo(px - size, bottom);
      c.closePath();
      c.setLineDash([]);
      c.fillStyle = palette.surface;
      c.fill();
      c.strokeStyle = palette.fg;
      c.lineWidth = 1.2 * dpr;
      c.stroke();
      continue;
    }
    if (kind === "note") {
      flag(c, px, box, palette, dpr);
      continue;
    }
    c.setLineDash([2 * dpr, 2 * dpr]);
    c.strokeStyle = palette.warn;
    c.lineWidth = 1.5 * dpr;
    c.moveTo(px, box.top);
    c.lineTo(px, bottom);
    c.stroke();
    onsetStep(c, step, px, bottom, palette, dpr);
  }
  c.restore();
}

const POLE = 14;

function flag(
  c: CanvasRenderingContext2D,
  px: number,
  box: Box,
  { fg, surface }: ChartModel["palette"],
  dpr: number,
): void {
  const bottom = box.top + box.height;
  const top = bottom - POLE * dpr;
  // At the right edge it flies to the left.
  const by = (px + 9 * dpr > box.left + box.width ? -8 : 8) * dpr;
  c.setLineDash([]);
  for (const [colour, width] of [
    [surface, 3],
    [fg, 1.2],
  ] as const) {
    c.beginPath();
    c.moveTo(px, bottom);
    c.lineTo(px, top);
    c.lineTo(px + by, top + 3 * dpr);
    c.lineTo(px, top + 6 * dpr);
    c.strokeStyle = c.fillStyle = colour;
    c.lineWidth = width * dpr;
    c.stroke();
    c.fill();
  }
}

/** The step below the axis, in front of the tick labels that it would lie on. */
function onsetStep(
  c: CanvasRenderingContext2D,
  step: number,
  px: number,
  bottom: number,
  palette: ChartModel["palette"],
  dpr: number,
): void {
  const text = fixed(step, 0);
  c.font = `600 ${11 * dpr}px ${palette.font}`;
  const half = c.measureText(text).width / 2 + 3 * dpr;
  c.fillStyle = palette.surface;
  c.fillRect(px - half, bottom + 7 * dpr, 2 * half, 14 * dpr);
  c.fillStyle = palette.warn;
  c.textAlign = "center";
  c.textBaseline = "top";
  c.fillText(text, px, bottom + 8 * dpr);
}

/** A dot of the cursor on a line, ringed by the surface. */
export function paintPoint(
  c: CanvasRenderingContext2D,
  px: number,
  py: number,
  colour: string,
  surface: string,
  radius: number,
): void {
  c.beginPath();
  c.arc(px, py, radius, 0, 2 * Math.PI);
  c.fillStyle = colour;
  c.fill();
  c.strokeStyle = surface;
  c.lineWidth = radius * 0.5;
  c.stroke();
}
