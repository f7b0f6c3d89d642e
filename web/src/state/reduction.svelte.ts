/** How many of the recorded points the charts on the screen draw. */
import { count } from "../core/number";
import { app } from "./app.svelte";
import { feed } from "./feed.svelte";

/** More lines than this cannot be told apart, and cost more than they show. */
export const MOST_LINES = 208;

class Reduction {
  #largest = $derived.by(() => {
    let found: { shown: number; total: number } | null = null;
    for (const [id, { chart }] of feed.entries) {
      if (/^(trend|steady):/.test(id) || chart.shown_points >= chart.total_points || chart.x !== app.view.x) continue;
      if (!found || chart.total_points > found.total) found = { shown: chart.shown_points, total: chart.total_points };
    }
    return found;
  });

  /** One line for all charts; empty where every point of every run is drawn. */
  text = $derived.by(() => {
    const points = this.#largest && `up to ${count(this.#largest.shown)} of ${count(this.#largest.total)} points shown as min–max`;
    const runs = app.shown.length > MOST_LINES ? `${count(MOST_LINES)} of ${count(app.shown.length)} runs drawn` : "";
    const parts = [runs, points].filter(Boolean);
    return parts.length ? `Each chart: ${parts.join(", ")}` : "";
  });
}

export const reduction = new Reduction();
