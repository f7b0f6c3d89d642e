/** The stages of a group's steps as stacked bars, one for each column of steps. */
import { px } from "../format/path";
import type { FrontierBlame, FrontierGroup } from "../server/api";

const COLOURS: Record<string, string> = {
  data: "--part-loading",
  copy: "--part-copy",
  forward: "--part-forward",
  backward: "--part-backward",
  optimizer: "--part-optimizer",
  dispatch: "--part-host",
  wait: "--part-collective",
  rest: "--part-other",
};

/** Colour of a stage; stages of one's own have that of other computation. */
export function stageColour(stage: string): string {
  return `var(${COLOURS[stage] ?? "--part-compute"})`;
}

export interface Bars {
  /** Seconds at the upper edge. */
  top: number;
  paths: { stage: string; d: string }[];
  /** Columns that are higher than the box. */
  beyond: number;
}

/** A column so many times as high as the usual ones leaves them half of the height at most. */
const FAR = 2;
const AIR = 1.15;
/** The part of a run that can be its warming up; a longer one is looked at by itself. */
const WARMING = 0.1;

/** The value that 99 of 100 columns with steps are at or below. */
function percentile(sums: Float64Array): number {
  const sorted = sums.filter((sum) => sum > 0).sort();
  return sorted[Math.floor(0.99 * (sorted.length - 1))] ?? 0;
}

/** Bars in a box, the first stage at the bottom; a column without a step of all ranks stays empty. */
export function bars({ stages }: Pick<FrontierGroup, "stages">, width: number, height: number): Bars {
  const columns = Math.max(0, ...stages.map(({ mean_s }) => mean_s.length));
  const sums = new Float64Array(columns);
  for (const { mean_s } of stages) mean_s.forEach((value, at) => (sums[at]! += value ?? 0));
  // Steps that warm up come first, and would flatten all others: the scale is that of what follows them.
  const later = percentile(sums.subarray(Math.floor(columns / 2)));
  const warm = sums.findIndex((sum) => sum <= FAR * later);
  const from = warm > 0 && warm <= WARMING * columns ? warm : 0;
  const usual = AIR * percentile(sums.subarray(from));
  const most = Math.max(0, ...sums);
  const top = (most > usual && usual > 0 ? usual : most) || 1;
  const below = new Float64Array(columns);
  const wide = width / Math.max(1, columns);
  const y = (value: number): string => px(height * (1 - Math.min(1, value / top)), 2);
  const paths = stages.map(({ stage, mean_s }) => {
    let d = "";
    mean_s.forEach((value, at) => {
      if (value === null || !(value > 0)) return;
      const from = below[at]!;
      below[at] = from + value;
      d += `M${px(at * wide, 2)} ${y(from)}V${y(from + value)}h${px(wide, 2)}V${y(from)}z`;
    });
    return { stage, d };
  });
  return { top, paths, beyond: sums.filter((sum) => sum > top).length };
}

/** A row of who delays the others: one rank, or all that cannot be told apart. */
export type BlameRow = FrontierBlame | OtherRanks;

export interface OtherRanks {
  others: number;
  /** Of those that lead some steps, the most. */
  stage: string | null;
  lost_per_step_s: number;
  whole_per_step_s: number;
  rows: FrontierBlame[];
}

export const isOthers = (row: BlameRow): row is OtherRanks => "others" in row;

/** Ranks that stand out, then one row for all others, below which those that lead some steps stand where it is open. */
export function folded({ blame, ranks }: Pick<FrontierGroup, "blame" | "ranks">, open: boolean): BlameRow[] {
  const apart = blame.filter(({ verdict }) => verdict !== UNTOLD);
  const rows = blame.filter(({ verdict }) => verdict === UNTOLD);
  const others = ranks.length - apart.length;
  if (others < 2) return [...apart, ...rows];
  const most = (of: "lost_per_step_s" | "whole_per_step_s"): number =>
    Math.max(0, ...rows.map((row) => row[of]));
  const row: OtherRanks = {
    others,
    stage: rows[0]?.stage ?? null,
    lost_per_step_s: most("lost_per_step_s"),
    whole_per_step_s: most("whole_per_step_s"),
    rows,
  };
  return [...apart, row, ...(open ? rows : [])];
}

const UNTOLD = "cannot tell";
