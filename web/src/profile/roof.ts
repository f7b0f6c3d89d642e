/** What is drawn below the roof of a device. */
import type { KernelRow, ShapeWork } from "../server/api";

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

export function roofOfShapes(rows: readonly ShapeWork[]): RoofRow[] {
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

export function shapeKey(row: ShapeWork): string {
  return `${row.name} ${row.shapes} ${row.number_format}`;
}
