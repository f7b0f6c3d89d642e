/** The view: everything that changes what is drawn, by what it belongs to. It is in the address and survives a reload. */
import type { Metric, RankFact, Reduction, XAxis } from "../server/api";
import { READINGS } from "../series/reading";
import { BANDS } from "../series/summary";
import {
  amount,
  choice,
  flag,
  list,
  optional,
  place,
  stretch,
  text,
  visited,
  type Field,
  type Values,
} from "./field";

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
  "sql",
] as const;
export type Page = (typeof PAGES)[number];

/** Which runs there are, in which order and colours. */
const RUNS = {
  /** The run query. */
  query: visited(text("q")),
  hidden: list("hide"),
  solo: optional("solo"),
  baseline: optional("base"),
  /** Runs pinned to the top of the rail. */
  kept: list("keep"),
  /** The run whose details are shown. */
  selected: optional("run"),
  /** Folders and parents of the rail's tree whose runs are not shown. */
  folded: list("rf"),
  /** Config key by which runs are coloured. */
  colourBy: optional("colour"),
  /** Config keys by which runs are grouped, commas between them; or `~` and a regex over their names. */
  groupBy: optional("group"),
  /** Order: a field or a chart's id, - in front for descending; best: by the metric that ranks the runs.
   * Empty: the best first where runs are compared in a table, else by name. */
  sort: text("sort"),
  /** Chart id of the rail's trend and last value. */
  metric: optional("m"),
};

const X_AXES = ["step", "wall", "relative", "tag"] as const satisfies readonly XAxis[];

/** Charts of scalars, wherever they stand. */
const CHARTS = {
  x: choice<XAxis>("x", X_AXES),
  /** The tag that is the x axis, where it is one. */
  xTag: optional("xt"),
  smoothing: amount("sm", 0.6, 0, 0.999),
  zoom: stretch("z"),
  /** Regex over chart titles and tags. */
  filter: text("f"),
  logX: flag("lx"),
  /** null: as the kinds of the metrics want it. */
  logY: flag("ly", null),
  /** Whether the y range keeps outliers. */
  outliers: flag("out", true),
  /** Whether the raw line is drawn behind the smoothed one. */
  ghost: flag("raw", true),
  /** Whether points that a restart went over again are drawn. */
  superseded: flag("old"),
  /** Whether the forecast of a running run's loss is drawn. */
  ahead: flag("ahead", true),
  pins: list("pin"),
  /** Charts that the user made, as texts: see series/own.ts. */
  own: list("own"),
  /** What is drawn around the mean of a group; each: no mean, every run for itself. */
  band: choice("band", BANDS),
  /** Sections that are closed. */
  closed: list("closed"),
  /** Y ranges that were zoomed into: chart, least and largest value, as in `chart/look.ts`. */
  yZooms: list("yz"),
  /** What is drawn otherwise for a chart or for a kind of metric, as in `chart/look.ts`. */
  looks: list("look"),
  /** Charts that were moved, each with the one that it stands before: see `scalars/sections.ts`. */
  moved: list("moved"),
  /** Cards beside each other, and their height in pixels; null: as fits. */
  perRow: place("row"),
  cardHeight: place("tall"),
  /** Whether sections go by the first two levels of the path. */
  deep: flag("deep"),
  /** Chart that fills the screen. */
  full: visited(optional("full")),
  table: flag("table"),
  /** Places of the x axis whose values stand under that chart. */
  steps: list("pinx"),
};

/** What stands beside the page. */
const PANELS = {
  /** null: as the page wants it. */
  rail: flag("rail", null),
  details: flag("details"),
};

export const PROFILE_TABS = [
  "summary",
  "timeline",
  "operations",
  "path",
  "overlap",
  "roofline",
  "job",
  "kernels",
  "memory",
  "diff",
  "history",
] as const;
export type ProfileTab = (typeof PROFILE_TABS)[number];
/** Views of operations; "": the one that says most of a profile. */
export const TREES = ["", "scope", "graph", "op", "code"] as const;
export type TreeName = (typeof TREES)[number];

const PROFILE = {
  /** Path of the profile that is open; null: the newest of the run. */
  path: visited(optional("prof")),
  tab: visited(choice("show", PROFILE_TABS)),
  /** Its steps that count, as `3-5,9`; empty is all. */
  steps: text("steps"),
  /** Path of the profile that it is compared with, null: itself; and the steps of that one. */
  other: optional("with"),
  otherSteps: text("wsteps"),
  /** Times in ns that the timeline shows; null: all. */
  window: stretch("t"),
  /** Times in ns that were dragged over. */
  range: stretch("sel"),
  /** Whether arrows lead from the selected event to what it belongs to. */
  arrows: flag("arrows", true),
  /** Lanes of the timeline by their names (see profile/lanes.ts): those on top, in their order, and those left out. */
  pinned: list("lp"),
  hidden: list("lh"),
  /** Lanes of one row, and groups of lanes that are folded to their header. */
  collapsed: list("lc"),
  folded: list("lg"),
  /** Lanes that were moved, as `lane\tthe one that it stands before`, in the order in which it was done. */
  moved: list("lm"),
  /** Width of the lanes' labels in pixels; null: as by default. */
  labels: place("lw"),
  /** Row of the event that is selected in the timeline. */
  event: place("ev"),
  /** What is searched for in the timeline. */
  find: text("find"),
  /** The view of operations, and tfprof's options as `name:value`. */
  tree: choice("tree", TREES),
  options: list("opt"),
};

export const RANK_FACTS = [
  "own_work_s",
  "step_time_s",
  "data_wait_s",
  "resident_bytes",
  "device_bytes",
  "loss",
  "nonfinite_count",
] as const satisfies readonly RankFact[];
/** What the ranks are compared by: a fact, how long one stage of each step took, or a series of their own. */
export type RankQuantity = RankFact | `stage/${string}` | `value/${string}`;
export const STAGE = "stage/";
export const VALUE = "value/";
export const isStage = (quantity: string): quantity is `stage/${string}` => quantity.startsWith(STAGE);
export const isValue = (quantity: string): quantity is `value/${string}` => quantity.startsWith(VALUE);
export const RANK_SORTS = ["rank", "host", "outlier"] as const;
export type RankSort = (typeof RANK_SORTS)[number];

const RANKS = {
  /** What the ranks are compared by. */
  fact: {
    ...text("fact", RANK_FACTS[0]),
    read: (found) =>
      isStage(found) || isValue(found) ? found : (RANK_FACTS.find((fact) => fact === found) ?? RANK_FACTS[0]),
  } as Field<RankQuantity>,
  sort: choice("by", RANK_SORTS),
  /** The rank that is selected, and the step of its cell. */
  rank: optional("rank"),
  step: place("cell"),
};

/** What is no scalar: histograms, images, texts, embeddings. */
const RECORDS = {
  /** Tag of the record that is looked at closely. */
  tag: optional("rec"),
  /** Which step of the records is shown; null: the newest. */
  step: place("at"),
};

export const MEDIA = ["sheet", "curves", "embeddings", "meshes"] as const;
export type Medium = (typeof MEDIA)[number];
const MEDIUM = choice("medium", MEDIA);

const MEDIA_PAGE = {
  /** What of the media is shown; null: what there is. */
  medium: visited({
    ...MEDIUM,
    initial: null,
    read: (text: string) => (text ? MEDIUM.read(text) : null),
  } as Field<Medium | null>),
  /** Threshold of precision-recall curves. */
  threshold: amount("thr", 0.5, 0, 1),
  /** Whether texts and tables are shown as what differs between the sides of a comparison. */
  differences: flag("diff"),
  /** Filter over the rows of the table that is looked at, and the column that sorts them, - in front for descending. */
  where: text("where"),
  order: text("order"),
};

/** How embeddings are put into two or three dimensions, coloured and searched, and the point that is selected. */
const EMBEDDING = {
  reduction: choice<Reduction>("method", ["pca", "umap"]),
  flat: flag("flat"),
  column: optional("col"),
  search: text("search"),
  point: place("point"),
  nearness: choice<Metric>("near", ["cosine", "euclidean"]),
};

export const FORMS = ["heat", "ridges", "percentiles", "one"] as const;
export type Form = (typeof FORMS)[number];
export const SCALES = ["auto", "value", "log"] as const;
export type Scale = (typeof SCALES)[number];

const DISTRIBUTIONS = {
  scale: choice("scale", SCALES),
  /** What the small ones are drawn as, and whether those of a layer stand beside each other. */
  form: choice("form", FORMS),
  byLayer: flag("layers"),
  /** Another run whose histograms of the same tensor stand below, on the same axis. */
  beside: optional("beside"),
};

export const TINTS = ["time", "memory", "flops", "parameters", "gradient", "op"] as const;
export type Tint = (typeof TINTS)[number];
const TINT = choice("tint", TINTS);

const GRAPH = {
  /** Path of the scope that is open, empty for the whole; null: where most is spent. */
  scope: visited(optional("in")),
  /** Path, or key of a fold, that is selected in it. */
  node: optional("node"),
  /** What boxes are coloured by; null: the first of which anything was recorded. */
  tint: {
    ...TINT,
    initial: null,
    read: (text: string) => (text ? TINT.read(text) : null),
  } as Field<Tint | null>,
  /** Tag of the costs; null: the newest. */
  costs: optional("costs"),
  /** Folds whose members are drawn one by one. */
  unfolded: list("unfold"),
  /** Whether it is shown as a table. */
  asRows: flag("rows"),
};

export const COMPARE_PARTS = ["figures", "curves", "config", "operations", "findings"] as const;
export type ComparePart = (typeof COMPARE_PARTS)[number];

const COMPARE = {
  /** Run queries of the two sides; empty: the baseline, or the first run, and the one after it. */
  sideA: visited(text("a")),
  sideB: visited(text("b")),
  /** What of them is compared. */
  part: visited(choice("part", COMPARE_PARTS)),
  /** Which figures its table has: those of the verdicts, or one of each series. */
  reading: choice("figure", ["compared", ...READINGS] as const),
  /** Whether what is the same on both sides is shown too. */
  same: flag("same"),
};

/** "": the configurations where runs repeat them, else the table. */
export const BOARDS = ["", "table", "configurations", "scatter", "parallel", "matrix"] as const;
export type Board = (typeof BOARDS)[number];
export type ShownBoard = Exclude<Board, "">;

/** How figures of many runs are read, and how they are shown. */
const BOARD = {
  /** Which figure of a series stands for a run, and the step of it; null: the last that both sides have. */
  reading: choice("read", READINGS),
  readStep: place("upto"),
  form: visited(choice("board", BOARDS)),
  /** Axes of the scatter plot: as in `sort`, `log:` in front for a log axis. */
  plotX: text("px"),
  plotY: text("py"),
  /** Columns of the table and axes of the plots; empty: chosen by the page. */
  columns: list("cols"),
  /** Ranges that runs must lie in: field, least and largest value. */
  brushes: list("brush"),
};

/** The parts in the order in which they are written into the address. */
export const PARTS = {
  runs: RUNS,
  charts: CHARTS,
  panels: PANELS,
  profile: PROFILE,
  ranks: RANKS,
  records: RECORDS,
  media: MEDIA_PAGE,
  embedding: EMBEDDING,
  distributions: DISTRIBUTIONS,
  graph: GRAPH,
  compare: COMPARE,
  board: BOARD,
  sql: { query: visited(text("sql")), profile: visited(text("events")) },
};

type Parts = { [K in keyof typeof PARTS]: Values<(typeof PARTS)[K]> };
export interface View extends Parts {
  page: Page;
}

/** What changes of a view: fields that are not named stay. */
export type Change = { page?: Page } & { [K in keyof Parts]?: Partial<Parts[K]> };

/** The fields of the view, with the part that each belongs to. */
export const FIELDS: readonly { part: keyof Parts; key: string; field: Field<unknown> }[] = Object.entries(
  PARTS,
).flatMap(([part, fields]) =>
  Object.entries(fields).map(([key, field]) => ({
    part: part as keyof Parts,
    key,
    field: field as Field<unknown>,
  })),
);

/** The value of a field in a view. */
export function valueOf(view: View, { part, key }: (typeof FIELDS)[number]): unknown {
  return (view[part] as Record<string, unknown>)[key];
}

/** How the page opens; nothing of it is shared with another view. */
export function defaultView(): View {
  const view: Record<string, unknown> = { page: PAGES[0] };
  for (const [part, fields] of Object.entries(PARTS))
    view[part] = Object.fromEntries(
      Object.entries(fields).map(([key, { initial }]) => [key, Array.isArray(initial) ? [] : initial]),
    );
  return view as unknown as View;
}

/** A view with changes; parts that do not change are the same objects. */
export function changed(view: View, change: Change): View {
  const next: Record<string, unknown> = { ...view };
  for (const [part, fields] of Object.entries(change))
    next[part] = typeof fields === "object" ? { ...view[part as keyof Parts], ...fields } : fields;
  return next as unknown as View;
}

/** Whether going from one view to the other is a step that the back button should undo. */
export function isNavigation(before: View, after: View): boolean {
  return (
    before.page !== after.page ||
    FIELDS.some((each) => each.field.visited && valueOf(before, each) !== valueOf(after, each))
  );
}
