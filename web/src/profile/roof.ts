/** What is drawn below the roof of a device. */
import { percent } from "../format/number";
import type { KernelRow, ShapeRow, ShapesAnswer } from "../server/api";

export interface RoofRow {
  /** Tells it from the others. */
  key: string;
  name: string;
  kind: string;
  number_format: string;
  intensity: number | null;
  flops_per_second: number | null;
  attainable_flops_per_second: number | null;
  efficiency_ratio: number | null;
  bound: string | null;
  time_ns: number;
  /** What that time is of: "a step", "in all". */
  time_of: string;
}

/** Whether both axes are known. */
const drawn = (row: { intensity: number | null; flops_per_second: number | null }): boolean =>
  (row.intensity ?? 0) > 0 && (row.flops_per_second ?? 0) > 0;

export function roofOfKernels(rows: readonly KernelRow[]): RoofRow[] {
  return rows
    .filter(drawn)
    .map((row) => ({ ...row, key: row.kind + row.name, time_ns: row.step_mean_ns, time_of: "a step" }));
}

export function roofOfShapes(rows: readonly ShapeRow[]): RoofRow[] {
  return rows
    .filter((row) => row.on_device && drawn(row))
    .map((row) => ({
      ...row,
      key: shapeKey(row),
      name: `${row.name} ${row.shapes}`,
      time_ns: row.total_ns,
      time_of: "in all",
    }));
}

export function shapeKey(row: ShapeRow): string {
  return `${row.name} ${row.shapes} ${row.number_format}`;
}

/** With less of the device's time counted than this, utilisation is only known to be no less. */
const ALL = 0.95;

/** Model FLOPs utilisation of all steps, as a least where operations of a part of the time are not counted. */
export function utilisationText(
  answer: Pick<ShapesAnswer, "utilisation_ratio" | "counted_ratio">,
): string | null {
  if (answer.utilisation_ratio === null) return null;
  const least = answer.counted_ratio !== null && answer.counted_ratio < ALL;
  return `${least ? "at least " : ""}${percent(answer.utilisation_ratio, 1)}`;
}
