/** What of a comparison can be saved as tables. */
import type { XAxis } from "../server/api";
import { pointsAddress } from "../server/client";
import { valueAt, type SideLine } from "../runs/sidelines";
import { csvOf, type Cell } from "../chart/export/csv";
import { fileName } from "../chart/export/names";
import type { TableData } from "../chart/export/rows";

const X_NAMES: Record<XAxis, string> = {
  step: "step",
  wall: "wall_time",
  relative: "elapsed_seconds",
  tag: "x",
};

/** Both sides at every place where either has one: mean, extremes, runs; and B − A if both have a value. */
export function sidesCsv(a: SideLine | null, b: SideLine | null, x: XAxis): string[] {
  const places = [...new Set([...(a?.x ?? []), ...(b?.x ?? [])])].sort((p, q) => p - q);
  const known = (value: number): number | null => (Number.isFinite(value) ? value : null);
  const of = (side: SideLine | null, place: number): Cell[] =>
    side
      ? [side.mean, side.low, side.high, side.spread]
          .map((column) => known(valueAt(side.x, column, place)))
          .concat(known(Math.floor(valueAt(side.x, side.count, place))))
      : [null, null, null, null, null];
  const rows = places.map((place) => {
    const [left, right] = [of(a, place), of(b, place)];
    const difference =
      typeof left[0] === "number" && typeof right[0] === "number" ? right[0] - left[0] : null;
    return [place, ...left, ...right, difference];
  });
  const head = (side: string): string[] =>
    ["mean", "least", "most", "standard_deviation", "runs"].map((name) => `${side}_${name}`);
  return [csvOf([X_NAMES[x], ...head("a"), ...head("b"), "b_less_a"], rows)];
}

/** Every recorded point, as the server sends it. */
export function pointsFile(
  lines: readonly { run: string; tag: string }[],
  title: string,
  xTag: string | null,
): TableData {
  return { address: pointsAddress(lines, "csv", xTag), name: fileName(title, "csv") };
}
