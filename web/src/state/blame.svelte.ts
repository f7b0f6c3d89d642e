/** What is marked on the charts of the run in view, as the bar below the tabs found it. */
import type { Mark } from "../chart/model";

class BlameState {
  /** Where its finding began, and its captured steps. */
  marks = $state.raw<readonly Mark[]>([]);
  /** `file:line function` that is to blame; "" where it is not known. */
  line = $state("");
  /** The run that they are of. */
  run = $state.raw<string | null>(null);
}

export const blame = new BlameState();
