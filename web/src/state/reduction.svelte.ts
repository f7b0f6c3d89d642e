/** How many of the recorded points the charts on the screen draw. */
import { count } from "../core/number";
import { app } from "./app.svelte";
import { feed } from "./feed.svelte";

class Reduction {
  #largest = $derived.by(() => {
    let found: { shown: number; total: number } | null = null;
    for (const [id, { chart }] of feed.entries) {
      if (/^(trend|steady):/.test(id) || chart.shown_points >= chart.total_points || chart.x !== app.view.x) continue;
      if (!found || chart.total_points > found.total) found = { shown: chart.shown_points, total: chart.total_points };
    }
    return found;
  });

  /** One line for all charts; empty where every point is drawn. */
  text = $derived(
    this.#largest ? `Each chart: up to ${count(this.#largest.shown)} of ${count(this.#largest.total)} points shown as min–max` : "",
  );
}

export const reduction = new Reduction();
