/** How the runs of the overview are shown, where several are. */
import { repeated } from "../runs/configurations";
import { app } from "../state/app.svelte";
import type { ShownBoard } from "../view/view";

class Board {
  /** Whether the runs are a sweep with seeds. */
  readonly repeats = $derived(repeated(app.matching.map(({ main }) => main)));
  readonly form = $derived<ShownBoard>(app.view.board.form || (this.repeats ? "configurations" : "table"));
}

export const board = new Board();
