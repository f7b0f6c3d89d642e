/** What can be done with charts: pin, fill the screen, save, move the cursor. */
import { AHEAD_DASH } from "../chart/ahead";
import type { LineChart } from "../chart/LineChart";
import type { ChartModel } from "../chart/model";
import { linesOf } from "../runs/catalog";
import type { Chart, XAxis } from "../server/api";
import { isAsking, pointsAddress } from "../server/client";
import { Turns } from "./turns";
import { fileName } from "../chart/export/names";
import { count, counted, fixed } from "../format/number";
import { BAND_NAMES } from "../series/summary";
import { feed } from "./feed.svelte";
import { app } from "./app.svelte";
import { cursor } from "./cursor.svelte";
import { ui } from "./ui.svelte";

/** A chart that is on the screen and drawn. */
export interface OnScreen {
  chart: string;
  model: ChartModel;
  picture: LineChart;
  host: HTMLElement;
  /** Whether it fills the screen. */
  large: boolean;
  /** Moves the cursor by some points. */
  step: (by: number) => void;
}

const PATIENCE_MS = 30_000;
const STILL_FRAMES = 6;
const MOST_IN_LEGEND = 40;
const AXIS_WORDS: Record<XAxis, string> = {
  step: "steps",
  wall: "wall time",
  relative: "elapsed time",
  tag: "another tag",
};

/** How many of how many points a chart draws; a file of it says so too. */
function reductionOf(
  chart: Chart,
  entries: ReadonlyMap<string, { chart: { shown_points: number; total_points: number } }>,
): string {
  const found = [...entries].find(([id]) => id.endsWith(`:${chart.id}`) && !/^(trend|steady):/.test(id))?.[1]
    .chart;
  if (!found || found.shown_points >= found.total_points) return "";
  return `${count(found.shown_points)} of ${count(found.total_points)} points drawn`;
}

class Charts {
  /** By the id of the request. */
  readonly onScreen = new Map<string, OnScreen>();
  /** Charts that are to be drawn for the first time. */
  readonly turns = new Turns();
  focused = $state<string | null>(null);

  /** The chart that keys are meant for. */
  get active(): string | null {
    return app.view.charts.full ?? cursor.state.chart ?? this.focused;
  }

  pin(id: string): void {
    const { pins } = app.view.charts;
    app.set({ charts: { pins: pins.includes(id) ? pins.filter((one) => one !== id) : [...pins, id] } });
  }

  /** Moves a chart before another of its section; "" is the end of it. Of pins that is their own order. */
  move(id: string, before: string): void {
    const { pins, moved } = app.view.charts;
    if (id === before) return;
    if (pins.includes(id) && (before === "" || pins.includes(before))) {
      const others = pins.filter((one) => one !== id);
      others.splice(before === "" ? others.length : others.indexOf(before), 0, id);
      app.set({ charts: { pins: others } });
    } else
      app.set({
        charts: { moved: [...moved.filter((text) => !text.startsWith(`${id}\t`)), `${id}\t${before}`] },
      });
    app.announcement = `${app.chart(id)?.title ?? "Chart"} moved`;
  }

  toggleFull(): void {
    if (app.view.charts.full !== null) app.set({ charts: { full: null, table: false } });
    else if (this.active !== null) app.set({ charts: { full: this.active } });
  }

  /** The points of a chart: the twin of its picture. */
  toggleTable(): void {
    const { full, table } = app.view.charts;
    if (full !== null) app.set({ charts: { table: !table } });
    else if (this.active !== null) app.set({ charts: { full: this.active, table: true } });
  }

  smooth(by: number): void {
    const smoothing = Math.min(0.999, Math.max(0, Math.round((app.view.charts.smoothing + by) * 100) / 100));
    app.set({ charts: { smoothing } });
  }

  step(by: number): void {
    this.find(this.active)?.step(by);
  }

  /** The picture of a chart; where the chart is on the screen twice, the one in front. */
  find(chart: string | null): OnScreen | undefined {
    const found = [...this.onScreen.values()].filter((one) => one.chart === chart);
    return found.find((one) => one.large) ?? found[0];
  }

  focusFilter(): void {
    if (app.view.page !== "scalars") app.set({ page: "scalars" });
    ui.focus("tag-filter");
  }

  /** The drawn chart of an element. */
  #drawnIn(host: HTMLElement | null | undefined): OnScreen | undefined {
    return [...this.onScreen.values()].find((one) => one.host === host);
  }

  /** What has to be known to read the picture of a chart in a file. */
  note(chart: Chart, host: HTMLElement | null | undefined): string {
    const drawn = this.#drawnIn(host);
    if (!drawn) return "";
    const { x, xTag, smoothing, band } = app.view.charts;
    const axis = x === "tag" ? `over ${xTag}` : `over ${AXIS_WORDS[x]}`;
    const { unit } = drawn.model.measure;
    const group = app.means ? `mean of groups, ${BAND_NAMES[band].toLowerCase()}` : "";
    const parts = [
      unit && `in ${unit}`,
      axis,
      drawn.model.lines.some((line) => line.smoothed) ? `smoothed ${fixed(smoothing, 2)}` : "as recorded",
      group,
      reductionOf(chart, feed.entries),
    ];
    return [...new Set(parts.filter(Boolean))].join(", ");
  }

  legend(host: HTMLElement | null | undefined): { label: string; colour: string; dash: readonly number[] }[] {
    const { lines = [], ahead = null } = this.#drawnIn(host)?.model ?? {};
    const foretold = ahead ? [{ label: ahead.text, colour: ahead.colour, dash: AHEAD_DASH }] : [];
    const shown = lines.length > 1 ? lines.slice(0, MOST_IN_LEGEND) : [];
    const entries = shown.map(({ label, tag, colour, dash }) => ({ label: label || tag, colour, dash }));
    const rest = lines.length - shown.length;
    return rest > 0 && shown.length
      ? [
          ...foretold,
          ...entries,
          { label: counted(rest, "more line"), colour: app.palette.neutral, dash: [] },
        ]
      : [...foretold, ...entries];
  }

  /** Waits until all that was asked for has come and is drawn, or the server is too slow for that. */
  async allDrawn(): Promise<void> {
    const end = performance.now() + PATIENCE_MS;
    const frame = (): Promise<unknown> => new Promise((done) => requestAnimationFrame(done));
    // What has just come asks in the next frame, and is drawn in the one after its answer has come.
    for (let still = 0; still < STILL_FRAMES && performance.now() < end;) {
      await frame();
      still = !isAsking() && (feed.complete || feed.idle) && this.turns.idle ? still + 1 : 0;
    }
  }

  /** Saves every point of every line that the chart shows, as recorded; the server streams the file. */
  save(format: "csv" | "json", id: string | null = this.active): void {
    const chart = id === null ? undefined : app.chart(id);
    if (!chart) return;
    const link = document.createElement("a");
    link.href = pointsAddress(
      linesOf(chart, app.shown),
      format,
      app.view.charts.x === "tag" ? app.view.charts.xTag : null,
    );
    link.download = fileName(chart.title, format);
    link.click();
    app.announcement = `Saving all points of ${chart.title}`;
  }
}

export const charts = new Charts();
