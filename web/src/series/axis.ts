/** What the steps of series count, so that only charts that count the same share an axis. */
import type { XAxis } from "../server/api";

export type Axis = "common" | "epochs";

/** Tags of Keras' own callback: they are recorded at the number of the epoch, beside others at that of the batch. */
const EPOCHS = /(^|\/)epoch_[^/]+$/;

/** The axis of a chart: that of epochs if it has nothing else, over steps. */
export const axisOf = (tags: readonly string[], x: XAxis): Axis =>
  x === "step" && tags.length > 0 && tags.every((tag) => EPOCHS.test(tag)) ? "epochs" : "common";
