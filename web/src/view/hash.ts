/** The view in the address: everything that changes what is drawn is in the hash and survives a reload. */
import type { Metric, RankFact, Reduction, XAxis } from "../server/api";
import { READINGS, type Reading } from "../series/reading";

export const PAGES = [
  "overview",
  "scalars",
  "distributions",
  "media",
  "text",
  "graph",
  "profile",
  "ranks",
  "compare",
] as const;
export type Page = (typeof PAGES)[number];

export interface View {
  page: Page;
  /** The run query. */
  query: string;
  x: XAxis;
  /** The tag that is the x axis, where it is one. */
  xTag: string | null;
  smoothing: number;
  zoom: [number, number] | null;
  /** Regex over chart titles and tags. */
  filter: string;
  logX: boolean;
  logY: boolean;
  /** Whether the y range keeps outliers. */
  outliers: boolean;
  /** Whether the raw line is drawn behind the smoothed one. */
  ghost: boolean;
  /** Whether points that a restart went over again are drawn. */
  superseded: boolean;
  pins: string[];
  /** Charts that the user made, as texts: see series/own.ts. */
  own: string[];
  hidden: string[];
  solo: string | null;
  baseline: string | null;
  /** Runs pinned to the top of the rail. */
  kept: string[];
  /** The run whose details are shown. */
  selected: string | null;
  /** Config key by which runs are coloured. */
  colourBy: string | null;
  /** Config keys by which runs are grouped, commas between them; or `~` and a regex over their names. */
  groupBy: string | null;
  /** What is drawn around the mean of a group; each: no mean, every run for itself. */
  band: BandChoice;
  /** Rail order: a field or a chart's id, - in front for descending. */
  sort: string;
  /** Chart id of the rail's trend and last value. */
  metric: string | null;
  /** Sections that are closed. */
  closed: string[];
  /** Chart that fills the screen. */
  full: string | null;
  table: boolean;
  /** null: as the page wants it. */
  rail: boolean | null;
  details: boolean;
  /** Path of the profile that is open; null: the newest of the run. */
  profile: string | null;
  /** What is shown of it. */
  profileTab: ProfileTab;
  /** Its steps that count, as `3-5,9`; empty is all. */
  steps: string;
  /** Path of the profile that it is compared with, null: itself; and the steps of that one. */
  other: string | null;
  otherSteps: string;
  /** Times in ns that the timeline shows; null: all. */
  window: [number, number] | null;
  /** Times in ns that were dragged over. */
  range: [number, number] | null;
  /** Whether arrows lead from the selected event to what it belongs to. */
  arrows: boolean;
  /** Row of the event that is selected in the timeline. */
  event: number | null;
  /** What is searched for in the timeline. */
  find: string;
  /** The view of operations, and tfprof's options as `name:value`. */
  tree: TreeName;
  options: string[];
  /** What the ranks are compared by, how they are sorted, and the one that is selected. */
  rankFact: RankFact;
  rankSort: RankSort;
  rank: string | null;
  /** Step of the cell that is selected. */
  rankStep: number | null;
  /** Tag of the record that is looked at closely, on any page of records. */
  record: string | null;
  /** Which step of the records is shown; null: the newest. */
  recordStep: number | null;
  /** What of the media is shown; null: what there is. */
  medium: Medium | null;
  /** Threshold of precision-recall curves. */
  threshold: number;
  /** How embeddings are put into two or three dimensions, coloured and searched, and the point that is selected. */
  reduction: Reduction;
  flat: boolean;
  column: string | null;
  search: string;
  point: number | null;
  nearness: Metric;
  /** Scale of distributions. */
  scale: Scale;
  /** What the small distributions are drawn as, and whether those of a layer stand beside each other. */
  form: Form;
  byLayer: boolean;
  /** Path of the scope of the graph that is open; null: the whole. */
  scope: string | null;
  /** Path, or key of a fold, that is selected in it. */
  node: string | null;
  /** What boxes are coloured by. */
  tint: Tint;
  /** Tag of the costs; null: the newest. */
  costs: string | null;
  /** Folds of the graph whose members are drawn one by one. */
  unfolded: string[];
  /** Whether the graph is shown as a table. */
  asRows: boolean;
  /** Run queries of the two sides that are compared; empty: the baseline, or the first run, and the one after it. */
  sideA: string;
  sideB: string;
  /** What of them is compared. */
  part: ComparePart;
  /** Which figure of a series stands for a run, and the step of it; null: the last that both sides have. */
  reading: Reading;
  readStep: number | null;
  /** Whether what is the same on both sides is shown too. */
  same: boolean;
  /** Whether texts and tables are shown as what differs between the sides. */
  differences: boolean;
  /** How many runs are shown: as a table or as plots; what those show, as in `sort`, `log:` in front for a log axis. */
  board: Board;
  plotX: string;
  plotY: string;
  /** Columns of the table and axes of the plots; empty: chosen by the page. */
  columns: string[];
  /** Ranges that runs must lie in: field, least and largest value. */
  brushes: string[];
}

export const COMPARE_PARTS = ["curves", "figures", "config", "operations", "findings"] as const;
export type ComparePart = (typeof COMPARE_PARTS)[number];
export const BOARDS = ["table", "scatter", "parallel", "matrix"] as const;
export type Board = (typeof BOARDS)[number];

export const BANDS = ["std", "minmax", "stderr", "each"] as const;
export type BandChoice = (typeof BANDS)[number];

export const TINTS = ["time", "memory", "flops", "parameters", "gradient", "op"] as const;
export type Tint = (typeof TINTS)[number];

export const MEDIA = ["sheet", "curves", "embeddings", "meshes"] as const;
export type Medium = (typeof MEDIA)[number];
export const FORMS = ["heat", "ridges", "percentiles", "one"] as const;
export type Form = (typeof FORMS)[number];

export const SCALES = ["auto", "value", "log"] as const;
export type Scale = (typeof SCALES)[number];
export const RANK_FACTS: readonly RankFact[] = [
  "step_time_s",
  "data_wait_s",
  "resident_bytes",
  "device_bytes",
  "loss",
  "nonfinite_count",
];
export const RANK_SORTS = ["rank", "host", "outlier"] as const;
export type RankSort = (typeof RANK_SORTS)[number];

export const PROFILE_TABS = [
  "summary",
  "timeline",
  "operations",
  "kernels",
  "memory",
  "diff",
  "history",
] as const;
export type ProfileTab = (typeof PROFILE_TABS)[number];
export const TREES = ["scope", "graph", "op", "code"] as const;
export type TreeName = (typeof TREES)[number];

export const DEFAULT_VIEW: View = {
  page: "overview",
  query: "",
  x: "step",
  xTag: null,
  smoothing: 0.6,
  zoom: null,
  filter: "",
  logX: false,
  logY: false,
  outliers: true,
  ghost: true,
  superseded: false,
  pins: [],
  own: [],
  hidden: [],
  solo: null,
  baseline: null,
  kept: [],
  selected: null,
  colourBy: null,
  groupBy: null,
  band: "std",
  sort: "name",
  metric: null,
  closed: [],
  full: null,
  table: false,
  rail: null,
  details: false,
  profile: null,
  profileTab: "summary",
  steps: "",
  other: null,
  otherSteps: "",
  window: null,
  range: null,
  arrows: true,
  event: null,
  find: "",
  tree: "scope",
  options: [],
  rankFact: "step_time_s",
  rankSort: "rank",
  rank: null,
  rankStep: null,
  record: null,
  recordStep: null,
  medium: null,
  threshold: 0.5,
  reduction: "pca",
  flat: false,
  column: null,
  search: "",
  point: null,
  nearness: "cosine",
  scale: "auto",
  form: "heat",
  byLayer: false,
  scope: null,
  node: null,
  tint: "time",
  costs: null,
  unfolded: [],
  asRows: false,
  sideA: "",
  sideB: "",
  part: "curves",
  reading: "last",
  readStep: null,
  same: false,
  differences: false,
  board: "table",
  plotX: "",
  plotY: "",
  columns: [],
  brushes: [],
};

interface Field {
  key: keyof View;
  /** Name in the address. */
  name: string;
  write: (value: never) => string;
  read: (text: string) => unknown;
}

const text = (key: keyof View, name: string): Field => ({
  key,
  name,
  write: (v: string) => v,
  read: (t) => t,
});
const flag = (key: keyof View, name: string): Field => ({
  key,
  name,
  write: (v: boolean) => (v ? "1" : "0"),
  read: (t) => t === "1",
});
const list = (key: keyof View, name: string): Field => ({
  key,
  name,
  write: (v: string[]) => v.map((one) => one.replace(/[\\,]/g, "\\$&")).join(","),
  read: (t) =>
    t === "" ? [] : [...t.matchAll(/((?:[^\\,]|\\.)+)(?:,|$)/g)].map((m) => m[1]!.replace(/\\(.)/g, "$1")),
});

const FIELDS: Field[] = [
  text("query", "q"),
  {
    key: "x",
    name: "x",
    write: (v: string) => v,
    read: (t) => oneOf(["step", "wall", "relative", "tag"], t),
  },
  text("xTag", "xt"),
  { key: "smoothing", name: "sm", write: (v: number) => shortNumber(v), read: readSmoothing },
  {
    key: "zoom",
    name: "z",
    write: (v: [number, number] | null) => (v ? `${shortNumber(v[0])}-${shortNumber(v[1])}` : ""),
    read: readZoom,
  },
  text("filter", "f"),
  flag("logX", "lx"),
  flag("logY", "ly"),
  flag("outliers", "out"),
  flag("ghost", "raw"),
  flag("superseded", "old"),
  list("pins", "pin"),
  list("own", "own"),
  list("hidden", "hide"),
  text("solo", "solo"),
  text("baseline", "base"),
  list("kept", "keep"),
  text("selected", "run"),
  text("colourBy", "colour"),
  text("groupBy", "group"),
  { key: "band", name: "band", write: (v: string) => v, read: (t) => oneOf(BANDS, t) },
  text("sort", "sort"),
  text("metric", "m"),
  list("closed", "closed"),
  text("full", "full"),
  flag("table", "table"),
  flag("rail", "rail"),
  flag("details", "details"),
  text("profile", "prof"),
  { key: "profileTab", name: "show", write: (v: string) => v, read: (t) => oneOf(PROFILE_TABS, t) },
  text("steps", "steps"),
  text("other", "with"),
  text("otherSteps", "wsteps"),
  {
    key: "window",
    name: "t",
    write: (v: [number, number] | null) => (v ? `${shortNumber(v[0])}-${shortNumber(v[1])}` : ""),
    read: readZoom,
  },
  {
    key: "range",
    name: "sel",
    write: (v: [number, number] | null) => (v ? `${shortNumber(v[0])}-${shortNumber(v[1])}` : ""),
    read: readZoom,
  },
  flag("arrows", "arrows"),
  { key: "event", name: "ev", write: (v: number | null) => (v === null ? "" : String(v)), read: readRow },
  text("find", "find"),
  { key: "tree", name: "tree", write: (v: string) => v, read: (t) => oneOf(TREES, t) },
  list("options", "opt"),
  { key: "rankFact", name: "fact", write: (v: string) => v, read: (t) => oneOf(RANK_FACTS, t) },
  { key: "rankSort", name: "by", write: (v: string) => v, read: (t) => oneOf(RANK_SORTS, t) },
  text("rank", "rank"),
  {
    key: "rankStep",
    name: "cell",
    write: (v: number | null) => (v === null ? "" : String(v)),
    read: readRow,
  },
  text("record", "rec"),
  {
    key: "recordStep",
    name: "at",
    write: (v: number | null) => (v === null ? "" : String(v)),
    read: readRow,
  },
  { key: "medium", name: "medium", write: (v: string) => v, read: (t) => (t ? oneOf(MEDIA, t) : null) },
  {
    key: "threshold",
    name: "thr",
    write: (v: number) => shortNumber(v),
    read: (t) => Math.min(1, Math.max(0, Number(t) || 0)),
  },
  {
    key: "reduction",
    name: "method",
    write: (v: string) => v,
    read: (t) => oneOf(["pca", "umap"] as const, t),
  },
  flag("flat", "flat"),
  text("column", "col"),
  text("search", "search"),
  { key: "point", name: "point", write: (v: number | null) => (v === null ? "" : String(v)), read: readRow },
  {
    key: "nearness",
    name: "near",
    write: (v: string) => v,
    read: (t) => oneOf(["cosine", "euclidean"] as const, t),
  },
  { key: "form", name: "form", write: (v: string) => v, read: (t) => oneOf(FORMS, t) },
  flag("byLayer", "layers"),
  { key: "scale", name: "scale", write: (v: string) => v, read: (t) => oneOf(SCALES, t) },
  text("scope", "in"),
  text("node", "node"),
  { key: "tint", name: "tint", write: (v: string) => v, read: (t) => oneOf(TINTS, t) },
  text("costs", "costs"),
  list("unfolded", "unfold"),
  flag("asRows", "rows"),
  text("sideA", "a"),
  text("sideB", "b"),
  { key: "part", name: "part", write: (v: string) => v, read: (t) => oneOf(COMPARE_PARTS, t) },
  { key: "reading", name: "read", write: (v: string) => v, read: (t) => oneOf(READINGS, t) },
  {
    key: "readStep",
    name: "upto",
    write: (v: number | null) => (v === null ? "" : String(v)),
    read: readRow,
  },
  flag("same", "same"),
  flag("differences", "diff"),
  { key: "board", name: "board", write: (v: string) => v, read: (t) => oneOf(BOARDS, t) },
  text("plotX", "px"),
  text("plotY", "py"),
  list("columns", "cols"),
  list("brushes", "brush"),
];

function oneOf<T extends string>(names: readonly T[], text: string): T {
  return (names as readonly string[]).includes(text) ? (text as T) : names[0]!;
}

function readRow(text: string): number | null {
  return /^\d{1,10}$/.test(text) ? Number(text) : null;
}

function shortNumber(value: number): string {
  return String(Number(value.toPrecision(15)));
}

function readSmoothing(text: string): number {
  const value = Number(text);
  return Number.isFinite(value) ? Math.min(0.999, Math.max(0, value)) : DEFAULT_VIEW.smoothing;
}

function readZoom(text: string): [number, number] | null {
  const match = /^(-?[\d.]+(?:e[+-]?\d+)?)-(-?[\d.]+(?:e[+-]?\d+)?)$/i.exec(text);
  const from = Number(match?.[1]);
  const to = Number(match?.[2]);
  return match && Number.isFinite(from) && Number.isFinite(to) && from < to ? [from, to] : null;
}

/** The hash of a view; what is as by default is left out. */
export function writeHash(view: View): string {
  const parts: string[] = [];
  for (const { key, name, write } of FIELDS) {
    const value = view[key];
    if (value === null || same(value, DEFAULT_VIEW[key])) continue;
    parts.push(`${name}=${encode(write(value as never))}`);
  }
  return `#/${view.page}${parts.length ? `?${parts.join("&")}` : ""}`;
}

function same(a: unknown, b: unknown): boolean {
  return (
    a === b ||
    (Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((one, at) => one === b[at]))
  );
}

/** As little encoding as an address needs, so that links stay readable. */
function encode(value: string): string {
  return encodeURIComponent(value).replace(/%(2F|3A|2C|40|3D|24|3B)/g, decodeURIComponent);
}

/** The view of a hash; what is unknown or cannot be read is as by default. */
export function readHash(hash: string): View {
  const [path = "", search = ""] = hash.replace(/^#?\/?/, "").split(/\?(.*)/s);
  const page = (PAGES as readonly string[]).includes(path.split("/")[0]!)
    ? (path.split("/")[0] as Page)
    : DEFAULT_VIEW.page;
  const view: View = structuredClone(DEFAULT_VIEW);
  view.page = page;
  for (const part of search.split("&")) {
    const at = part.indexOf("=");
    const field = FIELDS.find((field) => field.name === (at < 0 ? part : part.slice(0, at)));
    if (!field || at < 0) continue;
    (view as unknown as Record<string, unknown>)[field.key] = field.read(decode(part.slice(at + 1)));
  }
  if (view.x === "tag" && !view.xTag) view.x = "step";
  return view;
}

function decode(value: string): string {
  try {
    return decodeURIComponent(value.replace(/\+/g, "%20"));
  } catch {
    return value;
  }
}

/** Whether going from one view to the other is a step that the back button should undo. */
export function isNavigation(before: View, after: View): boolean {
  return (
    before.page !== after.page ||
    before.query !== after.query ||
    before.full !== after.full ||
    before.profile !== after.profile ||
    before.profileTab !== after.profileTab ||
    before.medium !== after.medium ||
    before.scope !== after.scope ||
    before.sideA !== after.sideA ||
    before.sideB !== after.sideB ||
    before.part !== after.part ||
    before.board !== after.board
  );
}
