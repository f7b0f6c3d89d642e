/** What is marked on the charts of the run in view, as the bar below the tabs found it. */
import type { Mark } from "../chart/model";
import type { RunForecast } from "../server/api";

class BlameState {
  /** Where its finding began, and its captured steps. */
  marks = $state.raw<readonly Mark[]>([]);
  /** Where its losses will end, while it goes on. */
  ahead = $state.raw<readonly RunForecast[]>([]);
  /** `file:line function` that is to blame; "" where it is not known. */
  line = $state("");
  /** The run that they are of. */
  run = $state.raw<string | null>(null);
}

export const blame = new BlameState();
