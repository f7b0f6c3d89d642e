/** The runs as a list: order, trends, and what can be done with each. */
import type { Family } from "../runs/catalog";
import { linesOf } from "../runs/catalog";
import type { Entry } from "../server/cache";
import { order } from "../runs/order";
import { readingOf } from "../series/reading";
import { drawLines } from "../series/shape";
import { TREND_BUCKETS, trendsOf, type Trend } from "../runs/trend";
import { MAX_LINES, type Chart } from "../server/api";
import { isExact, smoothingOf } from "../chart/kinds";
import { app } from "./app.svelte";
import { feed } from "./feed.svelte";
import { figures, upToId } from "./figures.svelte";

const PLACE_AFTER_CHARTS = 1e6;
const STEADY = 0.98;
const known = new WeakMap<Entry, Map<string, Trend>>();
const read = new WeakMap<Entry, Map<string, ReadonlyMap<string, number>>>();

class Runs {
  ordered = $derived(
    order(app.matching, this.#field(), (chart, family) => this.#rank(chart, family.name), app.view.runs.kept),
  );
  hidden = $derived(new Set(app.view.runs.hidden));

  /** Trends of a chart by family; empty until fetched. */
  trends(chart: string, steady = false): ReadonlyMap<string, Trend> {
    const entry = feed.entries.get(trendId(chart, steady));
    if (!entry) return EMPTY_TRENDS;
    let trends = known.get(entry);
    if (!trends)
      known.set(entry, (trends = trendsOf(entry.chart, (run) => app.catalog.runs.get(run)?.base ?? run)));
    return trends;
  }

  /** The step up to which values are read, where they are read at a step: by default the last that all runs have reached. */
  readStep = $derived(
    app.view.board.readStep ??
      Math.min(
        ...app.matching.map((family) => family.main.step ?? Infinity).filter(Number.isFinite),
        2 ** 31,
      ),
  );

  /** What stands for each run in a column: its newest or best value or that at a step, of its evaluation where there is one. */
  readings(chart: Chart): ReadonlyMap<string, number> {
    const { reading } = app.view.board;
    const entry = feed.entries.get(reading === "step" ? upToId(chart.id) : trendId(chart.id));
    if (!entry) return NO_READINGS;
    const cached = read.get(entry) ?? new Map<string, ReadonlyMap<string, number>>();
    read.set(entry, cached);
    let found = cached.get(reading);
    if (!found) cached.set(reading, (found = this.#read(entry, chart.lower_is_better)));
    return found;
  }

  #read(entry: Entry, lower: boolean | null): ReadonlyMap<string, number> {
    const lines = drawLines(entry.chart);
    const found = new Map<string, number>();
    for (const [family, { line }] of trendsOf(entry.chart, (run) => app.catalog.runs.get(run)?.base ?? run)) {
      const own = lines.filter(
        (one) => one.run === line.run && one.tag === line.tag && one.writer === line.writer,
      );
      const value = readingOf(own, app.view.board.reading, lower, this.readStep);
      if (value !== null) found.set(family, value);
    }
    return found;
  }

  /** Says which charts' readings are on the screen; returns what ends it. */
  followReadings(charts: readonly Chart[]): () => void {
    const ids = charts.map((chart) => chart.id);
    this.wantTrends(ids);
    const end =
      app.view.board.reading === "step" ? figures.follow(charts, app.matching, this.readStep) : undefined;
    return () => (this.releaseTrends(ids), end?.());
  }

  /** The x range that the trends of a chart share. */
  trendRange(chart: string): [number, number] {
    const answer = feed.entries.get(trendId(chart))?.chart;
    return [answer?.x0 ?? 0, answer?.x1 ?? 1];
  }

  /** Says which charts' trends are on the screen.
   *
   * @param steady: Smoothed over about the last fifty points, whatever the page's smoothing is.
   */
  wantTrends(charts: readonly string[], steady = false): void {
    for (const id of charts) {
      const chart = app.chart(id);
      if (!chart) continue;
      const lines = linesOf(chart, app.matching).map(({ run, tag }) => ({ run, tag }));
      const smoothing = steady && !isExact(chart) ? STEADY : smoothingOf(chart, app.view.charts.smoothing);
      const own = trendId(id, steady);
      feed.want(
        own,
        { id: own, lines: lines.slice(0, MAX_LINES), buckets: TREND_BUCKETS, smoothing },
        PLACE_AFTER_CHARTS,
      );
    }
  }

  releaseTrends(charts: readonly string[], steady = false): void {
    for (const id of charts) feed.release(trendId(id, steady));
  }

  /** Names of the runs whose ranking metric is best, the best first; none where neither end of it is better. */
  best(most: number): string[] {
    const lower = app.metric?.lower_is_better ?? null;
    if (!app.metric || lower === null) return [];
    const trends = this.trends(app.metric.id);
    const values = app.shown.flatMap(({ name }) => {
      const last = trends.get(name)?.last ?? NaN;
      return Number.isFinite(last) ? [{ name, last }] : [];
    });
    values.sort((a, b) => (lower ? a.last - b.last : b.last - a.last));
    return values.slice(0, most).map(({ name }) => name);
  }

  isShown(name: string): boolean {
    return app.view.runs.solo === null ? !this.hidden.has(name) : app.view.runs.solo === name;
  }

  toggle(name: string): void {
    const { hidden, solo } = app.view.runs;
    if (solo !== null) {
      const others = app.matching.map((family) => family.name).filter((one) => one !== solo && one !== name);
      app.set(solo === name ? { runs: { solo: null } } : { runs: { solo: null, hidden: others } });
      return;
    }
    app.set({
      runs: { hidden: hidden.includes(name) ? hidden.filter((one) => one !== name) : [...hidden, name] },
    });
  }

  toggleAll(): void {
    const all = app.matching.map((family) => family.name);
    const some = app.view.runs.solo !== null || app.view.runs.hidden.length > 0;
    app.set({ runs: { solo: null, hidden: some ? [] : all }, board: { brushes: [] } });
  }

  solo(name: string): void {
    app.set({ runs: { solo: app.view.runs.solo === name ? null : name } });
  }

  baseline(name: string): void {
    app.set({ runs: { baseline: app.view.runs.baseline === name ? null : name } });
  }

  keep(name: string): void {
    const { kept } = app.view.runs;
    app.set({ runs: { kept: kept.includes(name) ? kept.filter((one) => one !== name) : [...kept, name] } });
  }

  select(name: string | null): void {
    app.set({ runs: { selected: name } });
  }

  /** Selects the next or the previous run of the list. */
  move(by: number): void {
    const names = this.ordered.map((family: Family) => family.name);
    if (!names.length) return;
    const at = names.indexOf(app.view.runs.selected ?? "");
    const next = at < 0 ? (by > 0 ? 0 : names.length - 1) : Math.min(names.length - 1, Math.max(0, at + by));
    this.select(names[next]!);
  }

  /** Whether the trends of a chart have come; before, that a run has none says nothing. */
  isFetched(chart: string, steady = false): boolean {
    return feed.entries.has(trendId(chart, steady));
  }

  /** What the runs are ordered by; where the best come first, by the metric that ranks them. */
  get sort(): string {
    const { sort } = app.view.runs;
    if (sort === "" && app.view.page !== "overview") return "name";
    if (sort !== "" && sort !== "best") return sort;
    const lower = app.metric?.lower_is_better ?? null;
    if (!app.metric || lower === null) return "name";
    return `${lower ? "" : "-"}metric:${app.metric.id}`;
  }

  #field(): string {
    const { sort } = this;
    if (sort !== "metric" && sort !== "-metric") return sort;
    return app.metric ? sort.replace("metric", `metric:${app.metric.id}`) : "name";
  }

  /** The rail is ordered by what it shows, the newest value; the table by what it reads. */
  #rank(id: string, family: string): number | null {
    const chart = /^-?metric$/.test(app.view.runs.sort) ? undefined : app.chart(id);
    return (chart ? this.readings(chart).get(family) : this.trends(id).get(family)?.last) ?? null;
  }
}

const NO_READINGS: ReadonlyMap<string, number> = new Map();
const EMPTY_TRENDS: ReadonlyMap<string, Trend> = new Map();
const trendId = (chart: string, steady = false): string => `${steady ? "steady" : "trend"}:${chart}`;

export const runs = new Runs();
