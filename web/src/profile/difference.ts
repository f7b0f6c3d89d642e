/** What is said of the difference of two profiles. */
import type { DiffRow } from "../server/api";
import { GAP, decimalsFor, fixed } from "../format/number";

const LEAST_P = 0.001;

/** How likely chance is: never 0. */
export function pText(p: number): string {
  return p < LEAST_P ? `<${GAP}${LEAST_P}` : fixed(p, decimalsFor([p]));
}

/** The row that differs most of those that differ beyond what the steps vary by; null: none does. */
export function leadOf(rows: readonly DiffRow[]): DiffRow | null {
  const real = rows.filter((row) => row.verdict === "slower" || row.verdict === "faster");
  return real.reduce<DiffRow | null>(
    (most, row) => (most && Math.abs(most.difference_ns) >= Math.abs(row.difference_ns) ? most : row),
    null,
  );
}

/** What a row explains of all that changed along with the step; null where chance may explain the row itself. */
export function explainedBy({ verdict, explains_ratio }: DiffRow): number | null {
  return verdict === "unclear" || verdict === "same" ? null : explains_ratio;
}
