/** Figures of several runs, and the difference of two sides. */

/** Figures of the runs of one side. */
export interface Group {
  mean: number;
  /** Standard deviation of the runs; null with fewer than two. */
  spread: number | null;
  /** Runs with a finite value, and runs whose value is not finite. */
  count: number;
  bad: number;
}

export function groupOf(values: readonly (number | null)[]): Group {
  const known = values.filter((value): value is number => value !== null);
  const finite = known.filter(Number.isFinite);
  const mean = finite.length ? finite.reduce((sum, value) => sum + value, 0) / finite.length : NaN;
  const squares = finite.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return {
    mean,
    spread: finite.length > 1 ? Math.sqrt(squares / (finite.length - 1)) : null,
    count: finite.length,
    bad: known.length - finite.length,
  };
}

/** B − A, and as a part of A's size; null where that is 0. */
export interface Difference {
  difference: number;
  ratio: number | null;
}

/** null where a side has no finite value. */
export function differenceOf(a: Group, b: Group): Difference | null {
  if (!a.count || !b.count) return null;
  const difference = b.mean - a.mean;
  return { difference, ratio: a.mean === 0 ? null : difference / Math.abs(a.mean) };
}
