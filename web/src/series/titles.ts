/** What the title of a chart says of its lines. */
import type { Chart, Split } from "../server/api";

/** Whether a line is of the evaluation, which the chart's title does not say. */
export const addsEval = (
  { split }: Pick<Chart, "split">,
  line: { split: Split | null } | undefined,
): boolean => line?.split === "eval" && split === null;
