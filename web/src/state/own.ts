/** Adding, changing and removing charts that the user makes. */
import type { Chart } from "../server/api";
import { OWN, combined, isOwn } from "../series/own";
import { app } from "./app.svelte";

export const own = {
  /** Adds a chart, or puts it in the place of another. */
  put(text: string, instead: string | null = null): void {
    const { own: texts, pins, full } = app.view.charts;
    const others = texts.filter((one) => one !== text || one === instead);
    const at = instead === null ? -1 : others.indexOf(instead);
    const next = at < 0 ? [...others, text] : others.map((one, place) => (place === at ? text : one));
    const moved = (id: string): string => (instead !== null && id === OWN + instead ? OWN + text : id);
    app.set({
      charts: { own: [...new Set(next)], pins: pins.map(moved), full: full === null ? null : moved(full) },
    });
  },

  remove(text: string): void {
    const { own: texts, pins, full } = app.view.charts;
    app.set({
      charts: {
        own: texts.filter((one) => one !== text),
        pins: pins.filter((id) => id !== OWN + text),
        full: full === OWN + text ? null : full,
      },
    });
    app.announcement = "Chart removed; undo brings it back";
  },

  /** Puts one chart onto another: their lines on the same axes. */
  combine(dropped: string, onto: Chart): void {
    const chart = app.chart(dropped);
    if (!chart || chart.id === onto.id) return;
    own.put(combined([onto, chart]), isOwn(onto) ? onto.own : null);
    app.announcement = `${chart.title} and ${onto.title} on one chart`;
  },
};
