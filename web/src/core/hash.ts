/** The view in the address: everything that changes what is drawn is in the hash and survives a reload. */
import type { XAxis } from "./api";

export const PAGES = [
  "overview", "scalars", "distributions", "media", "text", "graph", "profile", "ranks", "compare",
] as const;
export type Page = (typeof PAGES)[number];

export interface View {
  page: Page;
  /** The run query. */
  query: string;
  x: XAxis;
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
  hidden: string[];
  solo: string | null;
  baseline: string | null;
  /** Runs pinned to the top of the rail. */
  kept: string[];
  /** The run whose details are shown. */
  selected: string | null;
  /** Config key by which runs are coloured. */
  colourBy: string | null;
  /** Config key by which the rail is grouped. */
  groupBy: string | null;
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
}

export const DEFAULT_VIEW: View = {
  page: "overview", query: "", x: "step", smoothing: 0.6, zoom: null, filter: "", logX: false, logY: false,
  outliers: true, ghost: true, superseded: false, pins: [], hidden: [], solo: null, baseline: null, kept: [],
  selected: null, colourBy: null, groupBy: null, sort: "name", metric: null, closed: [], full: null, table: false,
  rail: null, details: false,
};

interface Field {
  key: keyof View;
  /** Name in the address. */
  name: string;
  write: (value: never) => string;
  read: (text: string) => unknown;
}

const text = (key: keyof View, name: string): Field => ({ key, name, write: (v: string) => v, read: (t) => t });
const flag = (key: keyof View, name: string): Field => ({
  key, name, write: (v: boolean) => (v ? "1" : "0"), read: (t) => t === "1",
});
const list = (key: keyof View, name: string): Field => ({
  key,
  name,
  write: (v: string[]) => v.map((one) => one.replace(/[\\,]/g, "\\$&")).join(","),
  read: (t) => (t === "" ? [] : [...t.matchAll(/((?:[^\\,]|\\.)+)(?:,|$)/g)].map((m) => m[1]!.replace(/\\(.)/g, "$1"))),
});

const FIELDS: Field[] = [
  text("query", "q"),
  { key: "x", name: "x", write: (v: string) => v, read: (t) => (t === "wall" || t === "relative" ? t : "step") },
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
  list("hidden", "hide"),
  text("solo", "solo"),
  text("baseline", "base"),
  list("kept", "keep"),
  text("selected", "run"),
  text("colourBy", "colour"),
  text("groupBy", "group"),
  text("sort", "sort"),
  text("metric", "m"),
  list("closed", "closed"),
  text("full", "full"),
  flag("table", "table"),
  flag("rail", "rail"),
  flag("details", "details"),
];

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
  return a === b || (Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((one, at) => one === b[at]));
}

/** As little encoding as an address needs, so that links stay readable. */
function encode(value: string): string {
  return encodeURIComponent(value).replace(/%(2F|3A|2C|40|3D|24|3B)/g, decodeURIComponent);
}

/** The view of a hash; what is unknown or cannot be read is as by default. */
export function readHash(hash: string): View {
  const [path = "", search = ""] = hash.replace(/^#?\/?/, "").split(/\?(.*)/s);
  const page = (PAGES as readonly string[]).includes(path.split("/")[0]!) ? (path.split("/")[0] as Page) : DEFAULT_VIEW.page;
  const view: View = structuredClone(DEFAULT_VIEW);
  view.page = page;
  for (const part of search.split("&")) {
    const at = part.indexOf("=");
    const field = FIELDS.find((field) => field.name === (at < 0 ? part : part.slice(0, at)));
    if (!field || at < 0) continue;
    (view as unknown as Record<string, unknown>)[field.key] = field.read(decode(part.slice(at + 1)));
  }
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
  return before.page !== after.page || before.query !== after.query || before.full !== after.full;
}
