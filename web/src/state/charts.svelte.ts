/** What can be done with charts: pin, fill the screen, save, move the cursor. */
import type { LineChart } from "../chart/LineChart";
import type { ChartModel } from "../chart/model";
import { linesOf } from "../core/catalog";
import { pointsAddress } from "../core/client";
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

class Charts {
  /** By the id of the request. */
  readonly onScreen = new Map<string, OnScreen>();
  focused = $state<string | null>(null);

  /** The chart that keys are meant for. */
  get active(): string | null {
    return app.view.full ?? cursor.state.chart ?? this.focused;
  }

  pin(id: string): void {
    const { pins } = app.view;
    app.set({ pins: pins.includes(id) ? pins.filter((one) => one !== id) : [...pins, id] });
  }

  toggleFull(): void {
    if (app.view.full !== null) app.set({ full: null, table: false });
    else if (this.active !== null) app.set({ full: this.active });
  }

  smooth(by: number): void {
    const smoothing = Math.min(0.999, Math.max(0, Math.round((app.view.smoothing + by) * 100) / 100));
    app.set({ smoothing });
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

  /** Saves every point of every line that the chart shows, as recorded; the server streams the file. */
  save(format: "csv" | "json", id: string | null = this.active): void {
    const chart = id === null ? undefined : app.chart(id);
    if (!chart) return;
    const link = document.createElement("a");
    link.href = pointsAddress(linesOf(chart, app.shown), format);
    link.download = `${chart.title.replace(/[^\w.-]+/g, "_")}.${format}`;
    link.click();
    app.announcement = `Saving all points of ${chart.title}`;
  }
}

export const charts = new Charts();
