/** What a chart draws. */
import type { XAxis } from "../server/api";
import type { Cut } from "./kinds";
import type { Range } from "../series/limits";
import type { Measure } from "../format/number";
import type { DrawLine } from "../series/shape";
import type { Palette } from "../theme/palette";

export interface StyledLine extends DrawLine {
  family: string;
  /** Run, split, writer and attempt, as far as the chart holds several; may be empty. */
  label: string;
  colour: string;
  /** Lengths of dashes and gaps; empty: solid. */
  dash: readonly number[];
  /** Thicker than the others: the baseline and the selected run. */
  strong: boolean;
  /** Many lines are drawn: this one stays behind the others. */
  faint: boolean;
  /** What its band is, as it is drawn around the mean of a group; null: it has none. */
  band: string | null;
  /** Drawn against the axis on the right. */
  right?: boolean;
  /** A dot at every point: few points, such as those of an evaluation. */
  dots: boolean;
}

/** A step that is marked on the x axis: where a finding began, a captured step, or one that people wrote about. */
export interface Mark {
  step: number;
  kind: "onset" | "capture" | "note";
  text: string;
  /** Path of the profile that a click opens; null: there is none. */
  path: string | null;
  /** Of a capture: whether a step was captured because it was slow. */
  slow?: boolean;
  /** Of a note: the run that it is about. */
  run?: string;
}

/** A band that the line of a running run will stay in, from its newest point to its last step. */
export interface Ahead {
  /** The line that goes on. */
  line: string;
  colour: string;
  x: readonly number[];
  low: readonly number[];
  high: readonly number[];
  /** In words, with its end. */
  text: string;
}

/** The axis on the right, of lines of another unit. */
export interface SecondScale {
  y: Range;
  logY: boolean;
  cut: Cut | null;
  measure: Measure;
}

export interface ChartModel {
  lines: StyledLine[];
  x: Range;
  y: Range;
  xAxis: XAxis;
  /** The tag that is the x axis, where it is one. */
  xTag: string | null;
  /** Width of a bucket; null: every place is one recorded point. */
  bucket: number | null;
  logX: boolean;
  logY: boolean;
  /** What lies so far beyond all else that the y axis leaves it out. */
  cut: Cut | null;
  /** Values of 0 and below, which a logarithmic axis has no place for. */
  omitted?: number;
  /** Whether all that is drawn are whole numbers that count something. */
  counted?: boolean;
  right?: SecondScale | null;
  /** Whether raw lines are drawn behind all smoothed ones. */
  ghost: boolean;
  superseded: boolean;
  marks: readonly Mark[];
  /** Where a loss will go; null: nothing is foretold. */
  ahead?: Ahead | null;
  measure: Measure;
  palette: Palette;
  /** Paints below the lines, inside of the plot. */
  under?: (c: CanvasRenderingContext2D, placing: Placing) => void;
}

/** How values lie on the canvas: linear or logarithmic, to pixels of the canvas. */
export interface Placing {
  x: (value: number) => number;
  y: (value: number) => number;
  /** Of the axis on the right, where there is one. */
  right?: (value: number) => number;
}
