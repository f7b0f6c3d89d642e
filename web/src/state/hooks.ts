/** What tests and benchmarks may ask the page. */
import { report } from "../server/report";
import { app } from "./app.svelte";
import { charts } from "./charts.svelte";
import { feed } from "./feed.svelte";

/** Puts `__stepscope_test` on the window: readings only, nothing that changes the page. */
export function exposeTestHooks(): void {
  const exposed = {
    /** Questions that a report could not answer. */
    missed: (): readonly string[] => report?.missed ?? [],
    /** Whether a chart holds and has drawn a series. */
    firstChart: (): boolean => charts.onScreen.size > 0,
    /** Whether the log is read and every chart on the screen is drawn from all of its newest points. */
    complete: (): boolean =>
      app.answers > 0 &&
      app.catalog.loading === null &&
      charts.onScreen.size > 0 &&
      feed.complete &&
      charts.turns.idle,
    charts: () =>
      [...charts.onScreen].map(([id, { chart, model }]) => ({
        id,
        chart,
        lines: model.lines.map(({ right, run, tag, points, x, y, end, last, dash, colour, label }) => ({
          run,
          tag,
          points,
          end,
          last,
          dash,
          colour,
          label,
          right: right ?? false,
          x: Array.from(x),
          y: Array.from(y),
        })),
        x: model.x,
        y: model.y,
        logY: model.logY,
        right: model.right ? { y: model.right.y, unit: model.right.measure.unit } : null,
        cut: model.cut,
        marks: model.marks,
        ahead: model.ahead ?? null,
      })),
    /** Pixels in the window of a point of a chart. */
    pixel: (chart: string, x: number, y: number) => {
      const found = charts.find(chart);
      if (!found) return null;
      const box = found.host.getBoundingClientRect();
      const place = found.picture.pixel(x, y);
      return { left: box.left + place.left, top: box.top + place.top };
    },
  };
  Object.assign(window, { __stepscope_test: exposed });
}
