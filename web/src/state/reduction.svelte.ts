/** How many of the recorded points the charts on the screen draw. */
import { count, counted } from "../format/number";
import { app } from "./app.svelte";
import { feed } from "./feed.svelte";

/** More lines than this cannot be told apart, and cost more than they show. */
export const MOST_LINES = 208;

const CUT = `Each chart draws at most ${MOST_LINES} lines: first the runs that have a colour, which are the best, the baseline, the selected and the pinned ones, then the others by name. A run query chooses others; Group draws the means of all runs`;
const isCut = (): boolean => app.shown.length > MOST_LINES && !app.means;

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
    if (isCut()) return `${count(MOST_LINES)} lines of ${count(app.shown.length)} runs`;
    if (this.#largest) return `${count(this.#largest.shown)} of ${count(this.#largest.total)} points a chart`;
    return this.#placed.find(Boolean) ?? "";
  });

  /** One line for all charts; empty where every point of every run is drawn. */
  text = $derived.by(() => {
    const points =
      this.#largest &&
      `up to ${count(this.#largest.shown)} of ${count(this.#largest.total)} points shown as min–max`;
    const parts = [points, ...this.#placed].filter(Boolean);
    const drawn = parts.length ? `Each chart: ${parts.join(", ")}` : "";
    return [isCut() ? CUT : "", drawn].filter(Boolean).join(". ");
  });
}

export const reduction = new Reduction();
