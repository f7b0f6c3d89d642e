/** Titles as short as they may be: what charts share is left out, what tells them apart is kept. */
import type { Chart, Split } from "../server/api";

/** Whether a line is of the evaluation, which the chart's title does not say. */
export const addsEval = (
  { split }: Pick<Chart, "split">,
  line: { split: Split | null } | undefined,
): boolean => line?.split === "eval" && split === null;

type Titled = Pick<Chart, "id" | "title">;

/** The shortest end of each path that no other chart of the group has. */
export function shortTitles(charts: readonly Titled[]): Map<string, string> {
  const paths = charts.map(({ title }) => title.split("/"));
  const taken = new Map<string, number>();
  for (const path of paths)
    for (let from = 0; from < path.length; from += 1) {
      const end = path.slice(from).join("/");
      taken.set(end, (taken.get(end) ?? 0) + 1);
    }
  return new Map(
    charts.map(({ id, title }, at) => {
      const path = paths[at]!;
      for (let from = path.length - 1; from > 0; from -= 1) {
        const end = path.slice(from).join("/");
        if (taken.get(end) === 1) return [id, end];
      }
      return [id, title];
    }),
  );
}
