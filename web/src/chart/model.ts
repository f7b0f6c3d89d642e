/** What a chart draws. */
import type { XAxis } from "../core/api";
import type { Range } from "../core/limits";
import type { Measure } from "../core/number";
import type { DrawLine } from "../core/shape";
import type { Palette } from "../core/theme";

export interface StyledLine extends DrawLine {
  family: string;
  label: string;
  colour: string;
  dashed: boolean;
  /** Many lines are drawn: this one stays behind the others. */
  faint: boolean;
  /** A dot at every point: few points, such as those of an evaluation. */
  dots: boolean;
}

export interface ChartModel {
  lines: StyledLine[];
  x: Range;
  y: Range;
  xAxis: XAxis;
  logX: boolean;
  logY: boolean;
  /** Whether raw lines are drawn behind all smoothed ones. */
  ghost: boolean;
  superseded: boolean;
  measure: Measure;
  palette: Palette;
}

/** How values lie on the canvas: linear or logarithmic, to pixels of the canvas. */
export interface Placing {
  x: (value: number) => number;
  y: (value: number) => number;
}
