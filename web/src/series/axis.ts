/** Which charts share an x axis: those whose data would all be seen on it. */
import type { Range } from "./limits";

/** A chart whose data would take less than one part of so many of a shared axis has another one: epochs beside
 * iterations, or one series whose steps are numbers of samples. */
const PARTS = 10;

const width = ({ min, max }: Range): number => max - min;
const union = (a: Range, b: Range): Range => ({ min: Math.min(a.min, b.min), max: Math.max(a.max, b.max) });

/** The range of the axis of each chart; charts that share one have the same object.
 *
 * @param extents: What the data of each chart covers.
 */
export function sharedRanges(extents: ReadonlyMap<string, Range>): Map<string, Range> {
  const families: { range: Range; charts: string[] }[] = [];
  const widest = [...extents].sort(([, a], [, b]) => width(b) - width(a));
  for (const [chart, own] of widest) {
    const fits = ({ range }: { range: Range }): boolean => {
      const both = union(range, own);
      // A chart of one point takes no part of any axis; it is seen wherever it is.
      return width(own) === 0 ? width(both) === width(range) : width(both) <= PARTS * width(own);
    };
    const family = families.find(fits);
    if (!family) families.push({ range: own, charts: [chart] });
    else {
      family.range = union(family.range, own);
      family.charts.push(chart);
    }
  }
  return new Map(families.flatMap(({ range, charts }) => charts.map((chart) => [chart, range])));
}
