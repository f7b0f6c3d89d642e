/** uPlot's options for our axes: horizontal rules only, round ticks in the unit that is shown. */
import type uPlot from "uplot";
import { linearTicks, logTicks, stepTicks, type Ticks } from "../format/ticks";
import { logLabels, tickLabels } from "../format/number";
import { DURATION_STEPS, durationLabels, wallLabels } from "../format/time";
import type { ChartModel } from "./model";

export const X_HEIGHT = 24;
const Y_SPACE = 36;
const LEAST_Y_TICKS = 4;
const MOST_Y_TICKS = 7;
const X_SPACE = 56;
const MOST_X_TICKS = 10;
const FONT_SIZE = 11;
/** Pixels between the plot and the labels below and left of it. */
export const GAPS = { x: 8, y: 6 };

/** Options of both axes; the model is read at every drawing, so that it may change. */
export function axesOf(model: () => ChartModel, narrow: boolean): uPlot.Axis[] {
  const { palette, xAxis, right } = model();
  const font = `${FONT_SIZE}px ${palette.font}`;
  const plain = { font, stroke: palette.muted, ticks: { show: false }, border: { show: false } };
  const wall =
    xAxis === "wall"
      ? { values: wallValues }
      : { splits: xSplits(model), values: xValues(model), filter: keep };
  const second = (): Scaled => model().right!;
  const onRight: uPlot.Axis[] = right
    ? [
        {
          ...plain,
          scale: "right",
          side: 1,
          size: ySize(narrow, 2),
          gap: GAPS.y,
          space: Y_SPACE,
          grid: { show: false },
          splits: ySplits(second),
          values: yValues(second),
          filter: keep,
        },
      ]
    : [];
  return [
    { ...plain, side: 2, size: X_HEIGHT, gap: GAPS.x, space: X_SPACE, grid: { show: false }, ...wall },
    {
      ...plain,
      side: 3,
      size: ySize(narrow, 1),
      gap: GAPS.y,
      space: Y_SPACE,
      grid: { stroke: palette.grid, width: 1 },
      splits: ySplits(model),
      values: yValues(model),
      filter: keep,
    },
    ...onRight,
  ];
}

/** uPlot places the ticks of wall time, on whole minutes, hours and days of the local calendar. */
const wallValues = (_: uPlot, splits: number[], __: number, ___: number, step: number): string[] =>
  wallLabels(splits, step);

const keep = (_: uPlot, splits: number[]): number[] => splits;

function xTicks(model: ChartModel, width: number): Ticks {
  const most = Math.max(2, Math.min(MOST_X_TICKS, Math.floor(width / X_SPACE)));
  const { min, max } = model.x;
  if (model.logX && min > 0) return logTicks(min, max, most);
  if (model.xAxis === "relative") return stepTicks(min, max, most, DURATION_STEPS);
  const found = linearTicks(min, max, most);
  if (model.xAxis === "tag") return found;
  return found.step! < 1 ? linearTicks(min, max, Math.max(1, Math.floor(max - min))) : found;
}

function xSplits(model: () => ChartModel) {
  return (u: uPlot): number[] => xTicks(model(), u.bbox.width / devicePixelRatio).ticks;
}

function xValues(model: () => ChartModel) {
  return (u: uPlot, splits: number[]): string[] => {
    const { step } = xTicks(model(), u.bbox.width / devicePixelRatio);
    const found =
      model().xAxis === "relative" ? durationLabels(splits, step ?? 1) : labels(splits, step, true);
    // The step of a finding's beginning is written there, so that no tick may be.
    const onset = model().marks.find(({ kind }) => kind === "onset");
    if (!onset) return found;
    const place = u.valToPos(onset.step, "x");
    return found.map((text, at) =>
      Math.abs(u.valToPos(splits[at]!, "x") - place) < X_SPACE / 2 ? "" : text,
    );
  };
}

/** What ticks of a y axis follow from. */
type Scaled = Pick<ChartModel, "y" | "logY" | "measure" | "counted">;

/** Ticks in the unit that is shown. */
function yTicks(model: Scaled, height: number): Ticks {
  const most = Math.max(LEAST_Y_TICKS, Math.min(MOST_Y_TICKS, Math.floor(height / Y_SPACE)));
  const { factor } = model.measure;
  const [min, max] = [model.y.min * factor, model.y.max * factor];
  if (model.logY) return logTicks(min, max, most);
  const found = linearTicks(min, max, most);
  // Half a thing was never counted.
  return model.counted && factor === 1 && found.step! < 1
    ? linearTicks(min, max, Math.max(1, Math.floor(max - min)))
    : found;
}

function ySplits(model: () => Scaled) {
  return (u: uPlot): number[] => {
    const { factor } = model().measure;
    return yTicks(model(), u.bbox.height / devicePixelRatio).ticks.map((tick) => tick / factor);
  };
}

function yValues(model: () => Scaled) {
  return (u: uPlot): string[] => {
    const { ticks, step } = yTicks(model(), u.bbox.height / devicePixelRatio);
    return labels(ticks, step, false);
  };
}

const labels = (ticks: number[], step: number | null, short: boolean): string[] =>
  step === null ? logLabels(ticks, short) : tickLabels(ticks, step, short);

/** As wide as the widest label; at least so wide that neighbouring charts line up. */
function ySize(narrow: boolean, place: number) {
  return (u: uPlot, values: string[] | null): number => {
    const least = narrow ? 40 : 48;
    if (!values) return least;
    const own = u.axes[place]!.font as unknown;
    const font = String(Array.isArray(own) ? own[0] : own);
    const widest =
      Math.max(...values.map((value) => widthOf(u.ctx, font, value ?? "")), 0) / devicePixelRatio;
    return Math.max(least, Math.ceil(widest) + 14);
  };
}

const MOST_WIDTHS = 4_000;
/** Widths of labels by font and text: most charts have the same few, and to measure one takes longer than to draw it. */
const widths = new Map<string, number>();

function widthOf(c: CanvasRenderingContext2D, font: string, text: string): number {
  const key = `${font}\n${text}`;
  let width = widths.get(key);
  if (width === undefined) {
    c.save();
    c.font = font;
    width = c.measureText(text).width;
    c.restore();
    if (widths.size >= MOST_WIDTHS) widths.clear();
    widths.set(key, width);
  }
  return width;
}
