/** How many of the recorded points the charts on the screen draw. */
import { count, counted } from "../format/number";
import { app } from "./app.svelte";
import { feed } from "./feed.svelte";

/** More lines than this cannot be told apart, and cost more than they show. */
export const MOST_LINES = 208;

class Reduction {
  #largest = $derived.by(() => {
    let found: { shown: number; total: number } | null = null;
    for (const [id, { chart }] of feed.entries) {
      if (
        /^(trend|steady|figures|upto):/.test(id) ||
        chart.shown_points >= chart.total_points ||
        chart.x !== app.view.charts.x
      )
        continue;
      if (!found || chart.total_points > found.total)
        found = { shown: chart.shown_points, total: chart.total_points };
    }
    return found;
  });

  /** What was interpolated or left out: of means, and of another tag as the x axis. */
  #placed = $derived.by(() => {
    let [filled, between, missing] = [0, 0, 0];
    for (const [id, { chart }] of feed.entries) {
      if (/^(trend|steady):/.test(id) || chart.x !== app.view.charts.x) continue;
      for (const line of chart.lines) filled = Math.max(filled, line.filled ?? 0);
      between = Math.max(between, chart.x_interpolated ?? 0);
      missing = Math.max(missing, chart.x_missing ?? 0);
    }
    const axis = app.view.charts.xTag ?? "";
    return [
      app.means && filled
        ? `up to ${count(filled)} places of a mean interpolated between a run's points`
        : "",
      app.view.charts.x === "tag" && between
        ? `up to ${counted(between, "point")} placed between recorded values of ${axis}`
        : "",
      app.view.charts.x === "tag" && missing
        ? `up to ${counted(missing, "point")} left out: ${axis} was not recorded around them`
        : "",
    ];
  });

  /** The same as short as it can be said, beside controls; `text` says all of it. */
  short = $derived.by(() => {
    if (app.shown.length > MOST_LINES && !app.means)
      return `${count(MOST_LINES)} of ${count(app.shown.length)} runs drawn`;
    if (this.#largest) return `${count(this.#largest.shown)} of ${count(this.#largest.total)} points a chart`;
    return this.#placed.find(Boolean) ?? "";
  });

  /** One line for all charts; empty where every point of every run is drawn. */
  text = $derived.by(() => {
    const points =
      this.#largest &&
      `up to ${count(this.#largest.shown)} of ${count(this.#largest.total)} points shown as min–max`;
    const runs =
      app.shown.length > MOST_LINES && !app.means
        ? `${count(MOST_LINES)} of ${count(app.shown.length)} runs drawn`
        : "";
    const parts = [runs, points, ...this.#placed].filter(Boolean);
    return parts.length ? `Each chart: ${parts.join(", ")}` : "";
  });
}

export const reduction = new Reduction();
