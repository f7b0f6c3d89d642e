/** What the steps of series count, so that only charts that count the same share an axis. */
import type { Chart, XAxis } from "../server/api";

export type Axis = "common" | "epochs";

export const axisOf = ({ by_epoch }: Chart, x: XAxis): Axis =>
  x === "step" && by_epoch ? "epochs" : "common";
