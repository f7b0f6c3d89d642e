/** The state of the page: the view, the catalog, and what follows from both. */
import type { Chart } from "../server/api";
import { EMPTY, applyChanges, type Catalog, type Family } from "../runs/catalog";
import { Refused, fetchChanges } from "../server/client";
import { GREY, SLOTS, assignSlots, slotStroke, strokesByValue, type Stroke } from "../theme/colour";
import { differences, flatten } from "../runs/config";
import { grouped, parseGrouping, type Grouping } from "../runs/groups";
import { readHash, writeHash } from "../view/hash";
import { changed, defaultView, isNavigation, type Change, type View } from "../view/view";
import { ownChart } from "../series/own";
import { rankingChart } from "../series/pick";
import { report } from "../server/report";
import { Poller, linkOf, type Answered, type Link } from "../server/poll";
import { configValue, parseQuery, type MetricOf } from "../runs/query";
import { byRecorded } from "../runs/recorded";
import { readPalette, type Palette } from "../theme/palette";
import { keepArrangement, withArrangement } from "./arrangement";
import { keptPlaces } from "./places";
import { recall, remember } from "./storage";
import { values } from "./values.svelte";

export type Theme = "light" | "dark";
type Dirty = Record<string, readonly string[]>;

const REPLACE_MS = 250;
const UNDO_STEPS = 50;
/** Seconds in which a page that was just opened finds what a server knew nothing of yet. */
const SETTLING_S = 15;

class App {
  view = $state.raw<View>(readHash(location.hash));
  catalog = $state.raw<Catalog>(EMPTY);
  link = $state.raw<{ link: Link; seconds: number }>({ link: "connecting", seconds: 0 });
  /** What the server said when it refused to answer. */
  refusal = $state.raw<{ message: string; hint: string } | null>(null);
  theme = $state<Theme>(storedTheme());
  palette = $state.raw<Palette>(paletteOf(this.theme));
  keysOn = $state(recall("keys") !== "off");
  /** The server's clock, moved on once a second. */
  now = $state(Date.now() / 1000);
  /** Answers so far; 0: nothing is known yet. */
  answers = $state(0);
  /** The best runs of many, the best first: they have the colours. */
  best = $state.raw<readonly string[]>([]);
  /** The run that was alone in view when others began beside it, and those others: they do not take its place. */
  watched = $state.raw<{ run: string; since: readonly string[] } | null>(null);
  /** Says something to people who do not see the page. */
  announcement = $state("");

  /** The newest values of a metric that a query names. */
  readonly metricOf: MetricOf = (name) => values.of(name)?.byRun ?? null;
  query = $derived(parseQuery(this.view.runs.query, this.metricOf));
  /** Metrics that queries name: what no run has as a setting. */
  asked = $derived.by(() => {
    const { sideA, sideB } = this.view.compare;
    const keys = [this.view.runs.query, sideA, sideB].flatMap((query) => parseQuery(query).keys);
    return [...new Set(keys)].filter(
      (key) => !this.catalog.families.every(({ main }) => configValue(main, key) !== undefined),
    );
  });
  /** Points of all runs: where it changes, they have grown. */
  points = $derived(this.catalog.families.reduce((sum, { main }) => sum + main.points, 0));
  matching = $derived(
    this.catalog.families.filter(
      ({ main }) => this.query.matches(main) && (this.query.archived || !main.archived),
    ),
  );
  shown = $derived.by(() => this.#shown());
  /** Runs in the order in which they are drawn: those with a colour of their own first. */
  drawn = $derived(
    [...this.shown].sort((a, b) => Number(this.strokes.has(b.name)) - Number(this.strokes.has(a.name))),
  );
  /** Charts that the user made. */
  own = $derived(this.view.charts.own.map((text) => ownChart(text, this.catalog.charts)));
  /** The configurations of a sweep, while they stand for its runs. */
  configurations = $state.raw<Grouping | null>(null);
  grouping = $derived(parseGrouping(this.view.runs.groupBy) ?? this.configurations);
  /** Whether charts draw the means of groups. */
  means = $derived(
    this.grouping !== null && this.grouping.error === null && this.view.charts.band !== "each",
  );
  differing = $derived(differences(this.matching.map((family) => family.main.config)));
  /** The charts of the runs in view, those first that most of these have. */
  recorded = $derived(byRecorded(this.catalog.charts, this.matching));
  metric = $derived(
    this.catalog.charts.find((chart) => chart.id === this.view.runs.metric) ??
      rankingChart(this.recorded.common) ??
      rankingChart(this.catalog.charts),
  );
  /** The place of every run among all that were ever seen, from which its colour follows. */
  places = $derived(
    new Map(
      keptPlaces(
        this.catalog.log?.path_display ?? "",
        this.catalog.families.map(({ name, main }) => ({ name, started: main.started })),
        this.catalog.loading === null && this.answers > 0,
      ).map((name, place) => [name, place]),
    ),
  );
  strokes = $derived.by(() => this.#strokes());
  /** The one run that the view is about, if there is one. */
  single = $derived(
    this.matching.length === 1
      ? this.matching[0]!
      : (this.matching.find((family) => family.name === this.watched?.run) ?? null),
  );
  selected = $derived(
    this.catalog.families.find((family) => family.name === this.view.runs.selected) ?? this.single,
  );
  /** Runs that are drawn thicker than the others. */
  strong = $derived(
    new Set([this.view.runs.baseline, this.view.runs.selected].filter((name) => name !== null)),
  );
  empty = $derived(this.answers > 0 && this.catalog.families.length === 0 && !this.catalog.loading);

  readonly #poller = new Poller(
    () => this.#ask(),
    (state) => this.#linked(state),
  );
  readonly #listeners = new Set<(dirty: Dirty, reset: boolean) => void>();
  readonly #opened = location.hash;
  #cursor: string | null = null;
  #offset = 0;
  /** The server's time of the first answer. */
  #since = 0;
  #replacing: ReturnType<typeof setTimeout> | undefined;
  #undo: View[] = [];

  start(): void {
    addEventListener("popstate", () => (this.view = readHash(location.hash)));
    addEventListener("hashchange", () => {
      if (location.hash !== writeHash(this.view)) this.view = readHash(location.hash);
    });
    document.addEventListener("visibilitychange", () => this.#poller.hide(document.hidden));
    for (const kind of ["pointerdown", "keydown"])
      addEventListener(kind, () => this.#poller.act(), { passive: true });
    setInterval(() => this.#tick(), 1000);
    if (document.hidden) this.#poller.hide(true);
    else void this.#poller.poke();
  }

  /** Changes the view and the address. */
  set(change: Change): void {
    const before = this.view;
    const view = changed(before, change);
    if (view.runs.query !== before.runs.query) this.watched = null;
    this.view = view;
    keepArrangement(this.catalog.log?.path_display ?? "", before.charts, view.charts);
    clearTimeout(this.#replacing);
    if (isNavigation(before, view)) {
      history.pushState(null, "", writeHash(view));
      return;
    }
    this.#undo = [...this.#undo.slice(1 - UNDO_STEPS), before];
    this.#replacing = setTimeout(() => history.replaceState(null, "", writeHash(this.view)), REPLACE_MS);
  }

  /** The address of the view with changes. */
  addressOf(change: Change): string {
    return writeHash(changed(this.view, change));
  }

  /** Takes back the last change that the back button does not. */
  undo(): void {
    const before = this.#undo.pop();
    if (!before) return;
    const { page, runs, charts } = this.view;
    this.view = changed(before, { page, runs: { query: runs.query }, charts: { full: charts.full } });
    history.replaceState(null, "", writeHash(this.view));
  }

  /** Back to how the page opens; the page itself and the query stay. */
  reset(): void {
    const { page, runs } = this.view;
    this.set(changed(defaultView(), { page, runs: { query: runs.query } }));
  }

  setTheme(theme: Theme): void {
    this.theme = theme;
    this.palette = paletteOf(theme);
    remember("theme", theme);
  }

  setKeys(on: boolean): void {
    this.keysOn = on;
    remember("keys", on ? null : "off");
  }

  /** Calls back after each answer with the series that have new points. */
  onChanges(listener: (dirty: Dirty, reset: boolean) => void): void {
    this.#listeners.add(listener);
  }

  /** Asks the server at once, as after an answer that shows that something is new. */
  poke(): void {
    void this.#poller.poke();
  }

  strokeOf(family: string): Stroke {
    return this.strokes.get(family) ?? GREY;
  }

  /** A run's name as it is shown: what people call it, or that of the log directory for a run that lies in it directly. */
  title(name: string): string {
    const given = this.catalog.runs.get(name)?.title ?? null;
    if (given !== null) return given;
    return name === "." ? (this.catalog.log?.name ?? name) : name;
  }

  chart(id: string): Chart | undefined {
    return this.catalog.charts.find((chart) => chart.id === id) ?? this.own.find((chart) => chart.id === id);
  }

  /** The badge, at this very moment. */
  currentLink(): { link: Link; seconds: number } {
    return linkOf(this.#poller.state, Date.now());
  }

  async #ask(): Promise<Answered> {
    const changes = await fetchChanges(this.#cursor).catch((error: unknown) => this.#refused(error));
    this.refusal = null;
    this.#cursor = changes.cursor;
    this.#offset = changes.time - Date.now() / 1000;
    this.now = changes.time;
    const before = this.catalog;
    const first = this.answers === 0;
    if (first) this.#since = changes.time;
    if (
      first ||
      changes.reset ||
      changes.runs.length ||
      changes.removed.length ||
      changes.charts ||
      changes.loading ||
      before.loading
    ) {
      const alone = this.matching.length === 1 ? this.matching[0]!.name : null;
      this.catalog = applyChanges(before, changes);
      if (!first && !before.loading && !changes.loading && !changes.reset) this.#stay(alone);
    }
    if (first) this.#arrange(changes.log.path_display);
    this.answers += 1;
    for (const listener of this.#listeners) listener(changes.dirty, changes.reset && !first);
    const news = changes.runs.length > 0 || Object.keys(changes.dirty).length > 0;
    const running = this.catalog.families.some((family) => family.main.state === "running");
    return { news, loading: changes.loading !== null, running, over: report !== null };
  }

  /** Charts as they were arranged here before. */
  #arrange(directory: string): void {
    const arranged = withArrangement(directory, this.view, this.#opened);
    if (arranged === this.view) return;
    this.view = arranged;
    history.replaceState(null, "", writeHash(arranged));
  }

  /** Keeps the one run in view where it is when others begin beside it. */
  #stay(alone: string | null): void {
    if (alone === null && this.watched === null) return;
    const run = this.watched?.run ?? alone!;
    const others = this.matching.map(({ name }) => name).filter((name) => name !== run);
    if (others.length === this.matching.length) this.watched = null;
    else if (others.length && !(this.watched === null && this.#wereThere(others)))
      this.watched = { run, since: others };
  }

  /** Whether runs were there when the page was opened, and were only found since: a server that nobody asks looks seldom. */
  #wereThere(names: readonly string[]): boolean {
    const started = names.map((name) => this.catalog.runs.get(name)?.started ?? this.#since);
    return this.now - this.#since < SETTLING_S && started.every((each) => each < this.#since);
  }

  #refused(error: unknown): never {
    this.refusal = error instanceof Refused ? { message: error.message, hint: error.hint } : null;
    throw error;
  }

  #linked(state: Parameters<typeof linkOf>[0]): void {
    const before = this.link.link;
    this.link = linkOf(state, Date.now());
    if (before !== this.link.link && this.link.link === "disconnected")
      this.announcement = "Disconnected from the server";
    if (before === "disconnected" && this.link.link === "live") this.announcement = "Connected again";
  }

  #tick(): void {
    if (document.hidden || report) return;
    this.now = Date.now() / 1000 + this.#offset;
    this.link = this.currentLink();
  }

  #shown(): readonly Family[] {
    const { solo, hidden } = this.view.runs;
    if (this.watched && this.single && this.view.page === "overview") return [this.single];
    const soloed = solo === null ? undefined : this.matching.find((family) => family.name === solo);
    if (soloed) return [soloed];
    if (!hidden.length) return this.matching;
    const out = new Set(hidden);
    return this.matching.filter((family) => !out.has(family.name));
  }

  #strokes(): ReadonlyMap<string, Stroke> {
    const key = this.view.runs.groupBy ?? this.view.runs.colourBy;
    const difference = key === null ? undefined : this.differing.find((one) => one.key === key);
    if (this.grouping && !difference) {
      const groups = grouped(this.matching, this.grouping);
      return new Map(
        groups.flatMap(([, members], place) =>
          members.map(({ name }) => [name, place < SLOTS ? slotStroke(place) : GREY]),
        ),
      );
    }
    if (difference) {
      const values = this.matching.map((family) => ({
        name: family.name,
        value: flatten(family.main.config)[difference.key],
      }));
      return strokesByValue(values, difference.values, this.palette.dark);
    }
    const names = new Set(this.shown.map((family) => family.name));
    // Where there are more runs than colours, those that are meant get one, then the best.
    const { baseline, selected, kept } = this.view.runs;
    const meant = names.size > SLOTS ? [baseline, selected, ...kept, ...this.best] : [];
    const first = meant.filter((name): name is string => name !== null);
    const byPlace = [...names].sort((a, b) => this.places.get(a)! - this.places.get(b)!);
    const order = [...new Set([...first.filter((name) => names.has(name)), ...byPlace])];
    const said = new Map(
      this.shown.flatMap(({ name, main }) =>
        main.colour === null ? [] : [[name, main.colour - 1] as const],
      ),
    );
    const slots = assignSlots(this.places, order.slice(0, SLOTS), said);
    return new Map([...slots].map(([name, slot]) => [name, slotStroke(slot)]));
  }
}

/** Puts a theme on the page and reads its colours: the style sheet is asked once for each theme. */
function paletteOf(theme: Theme): Palette {
  document.documentElement.dataset["theme"] = theme;
  return readPalette(document.documentElement);
}

function storedTheme(): Theme {
  const stored = recall("theme");
  if (stored === "light" || stored === "dark") return stored;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

export const app = new App();
