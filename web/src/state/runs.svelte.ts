/** The runs as a list: order, trends, and what can be done with each. */
import { SvelteMap } from "svelte/reactivity";
import { linesOf, type Family } from "../runs/catalog";
import type { Entry } from "../server/cache";
import { order } from "../runs/order";
import { flatRows, groupedRows, pathsAround, treeRows } from "../runs/rows";
import type { Reading } from "../series/reading";
import { TREND_BUCKETS, trendsOf, type Trend } from "../runs/trend";
import type { Chart } from "../server/api";
import { isExact, smoothingOf } from "../chart/kinds";
import { app } from "./app.svelte";
import { feed } from "./feed.svelte";
import { values, type RunValues } from "./values.svelte";

const PLACE_AFTER_CHARTS = 1e6;
const STEADY = 0.98;
const known = new WeakMap<Entry, Map<string, Trend>>();

class Runs {
  ordered = $derived(
    order(app.matching, this.#field(), (chart, family) => this.#rank(chart, family.name), app.view.runs.kept),
  );
  /** The rail's rows: a tree where they are in the order of their names. */
  rows = $derived.by(() => {
    if (app.grouping) return groupedRows(this.ordered, app.grouping);
    if (this.sort !== "name") return flatRows(this.ordered);
    return treeRows(this.ordered, new Set(app.view.runs.folded));
  });
  hidden = $derived(new Set(app.view.runs.hidden));
  readonly #seen = new SvelteMap<string, readonly Family[]>();
  /** Runs that have trends; of many in whole pieces of the list, so that scrolling seldom asks for others. */
  #trended = $derived.by((): readonly Family[] => {
    if (app.matching.length <= MOST_TRENDS) return app.matching;
    const seen = new Set([...this.#seen.values()].flat().map(({ name }) => name));
    const pieces = new Set(
      this.ordered.flatMap(({ name }, at) => (seen.has(name) ? [Math.floor(at / BESIDE)] : [])),
    );
    return this.ordered.filter((_, at) => pieces.has(Math.floor(at / BESIDE)));
  });

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

  /** What stands for each run in a column, of its evaluation where there is one; empty until it is known. */
  readings(chart: Chart): RunValues {
    const { reading } = app.view.board;
    return values.of(chart.title, reading, reading === "step" ? this.readStep : 0) ?? NO_VALUES;
  }

  /** Says whose values are on the screen, by default those of the table; returns what ends it. */
  followValues(charts: readonly Chart[], reading: Reading = app.view.board.reading): () => void {
    const step = reading === "step" ? this.readStep : 0;
    const ends = charts.map(({ title }) => values.want(title, reading, step, app.points));
    return () => ends.forEach((end) => end());
  }

  /** Says which runs of a list are on the screen: of many runs, only these have trends. */
  see(list: string, families: readonly Family[]): () => void {
    this.#seen.set(list, families);
    return () => void this.#seen.delete(list);
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
      const lines = linesOf(chart, this.#trended).map(({ run, tag }) => ({ run, tag }));
      const smoothing = steady && !isExact(chart) ? STEADY : smoothingOf(chart, app.view.charts.smoothing);
      const own = trendId(id, steady);
      feed.want(own, { id: own, lines, buckets: TREND_BUCKETS, smoothing }, PLACE_AFTER_CHARTS);
    }
  }

  releaseTrends(charts: readonly string[], steady = false): void {
    for (const id of charts) feed.release(trendId(id, steady));
  }

  /** Names of the runs whose ranking metric is best, the best first; none where neither end of it is better. */
  best(most: number): string[] {
    const lower = app.metric?.lower_is_better ?? null;
    if (!app.metric || lower === null) return [];
    const newest = values.of(app.metric.title)?.byRun ?? NO_VALUES.byRun;
    const finite = app.shown.flatMap(({ name }) => {
      const last = newest.get(name) ?? NaN;
      return Number.isFinite(last) ? [{ name, last }] : [];
    });
    finite.sort((a, b) => (lower ? a.last - b.last : b.last - a.last));
    return finite.slice(0, most).map(({ name }) => name);
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
    const { folded } = app.view.runs;
    const around = folded.length && name !== null ? pathsAround(this.ordered, name) : [];
    app.set({ runs: { selected: name, folded: folded.filter((path) => !around.includes(path)) } });
  }

  /** Selects the run of a line that was clicked; the mean of a group is no run. */
  pick(name: string): void {
    if (!app.grouping && this.ordered.some((family) => family.name === name)) this.select(name);
  }

  /** Shows or hides what stands below a folder or a run of the tree. */
  fold(path: string): void {
    const { folded } = app.view.runs;
    app.set({
      runs: { folded: folded.includes(path) ? folded.filter((one) => one !== path) : [...folded, path] },
    });
  }

  /** Selects the next or the previous run of the list. */
  move(by: number): void {
    const names = this.rows.flatMap(({ family }) => (family ? [family.name] : []));
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
    const chart = app.chart(id);
    if (!chart) return null;
    const isTable = app.view.page === "overview" && !/^-?metric$/.test(app.view.runs.sort);
    return (isTable ? this.readings(chart) : values.of(chart.title))?.byRun.get(family) ?? null;
  }
}

const NO_VALUES: RunValues = { title: "", evaluated: false, byRun: new Map() };
/** Up to here every run has a trend; of more, those on the screen and some beside them. */
const MOST_TRENDS = 200;
const BESIDE = 50;
const EMPTY_TRENDS: ReadonlyMap<string, Trend> = new Map();
const trendId = (chart: string, steady = false): string => `${steady ? "steady" : "trend"}:${chart}`;

export const runs = new Runs();
