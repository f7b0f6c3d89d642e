/** Questions about profiles, and how their answers read. Times are nanoseconds since the profile's zero. */
import type {
  Category,
  DiffAnswer,
  HistoryAnswer,
  KernelAnswer,
  MemoryAnswer,
  ProfileEvent,
  ProfileList,
  ProfileOutline,
  ProfileSummary,
  RangeAnswer,
  SearchAnswer,
  TimelineHeader,
  TracksHeader,
  TreeAnswer,
} from "./api";
import { READING_MS, ask } from "./client";
import { GAP, NOTHING, fixed, prefixed } from "./number";
import { columnOf, openFrame, type Numbers } from "./wire";

/** In the order of their numbers in a timeline answer. */
export const CATEGORIES: readonly Category[] = [
  "other",
  "host",
  "runtime",
  "loading",
  "forward",
  "backward",
  "optimizer",
  "compute",
  "collective",
  "copy",
  "step",
  "wait",
];

export const CATEGORY_NAMES: Record<Category, string> = {
  other: "Other",
  host: "Host",
  runtime: "Runtime",
  loading: "Data loading",
  forward: "Forward",
  backward: "Backward",
  optimizer: "Optimizer",
  compute: "Other compute",
  collective: "Collective",
  copy: "Copy",
  step: "Step",
  wait: "Wait",
};

/** Parts of a step, in its order, and the category each is coloured as; idle is hatched. */
export const PARTS: readonly { key: string; name: string; category: Category | "idle" }[] = [
  { key: "data_loading", name: "Data loading", category: "loading" },
  { key: "forward", name: "Forward", category: "forward" },
  { key: "backward", name: "Backward", category: "backward" },
  { key: "optimizer", name: "Optimizer", category: "optimizer" },
  { key: "other", name: "Other compute", category: "compute" },
  { key: "communication", name: "Communication", category: "collective" },
  { key: "copy", name: "Copy", category: "copy" },
  { key: "idle", name: "Idle", category: "idle" },
];

/** Rectangles of a window, by lane, depth and start. */
export interface Spans {
  header: TimelineHeader;
  lane: Numbers;
  depth: Numbers;
  row: Numbers;
  start: Numbers;
  end: Numbers;
  count: Numbers;
  name: Numbers;
  category: Numbers;
}

const at = (name: string, query: Record<string, string | number>): string =>
  `${name}?${Object.entries(query)
    .map(([key, value]) => `${key}=${encodeURIComponent(value)}`)
    .join("&")}`;

async function json<T>(path: string): Promise<T> {
  return (await (await ask(path, {}, READING_MS)).json()) as T;
}

export const fetchProfiles = (): Promise<ProfileList> => json("profiles");
export const fetchProfile = (path: string): Promise<ProfileSummary> => json(at("profile", { path }));
export const fetchOutline = (path: string): Promise<ProfileOutline> => json(at("outline", { path }));
export const fetchEvent = (path: string, row: number): Promise<ProfileEvent> =>
  json(at("event", { path, row }));
/** Hits from a place among all, or from the first that begins at a time. */
export const fetchSearch = (
  path: string,
  q: string,
  from: { skip: number } | { start: number },
): Promise<SearchAnswer> => json(at("search", { path, q, ...from }));
export const fetchTree = (
  path: string,
  view: string,
  options: Record<string, string>,
  steps = "",
): Promise<TreeAnswer> => json(at("view", { path, view, ...(steps ? { steps } : {}), ...options }));
export const fetchKernels = (path: string, steps: string): Promise<KernelAnswer> =>
  json(at("profile/kernels", { path, steps }));
export const fetchMemory = (path: string, steps: string, points: number): Promise<MemoryAnswer> =>
  json(at("profile/memory", { path, steps, points }));
export const fetchHistory = (paths: readonly string[], by: string): Promise<HistoryAnswer> =>
  json(`profile/history?${paths.map((path) => `path=${encodeURIComponent(path)}`).join("&")}&by=${by}`);
export const fetchDiff = (a: string, b: string, steps_a: string, steps_b: string): Promise<DiffAnswer> =>
  json(at("profile/diff", { a, b, steps_a, steps_b }));
export const fetchRange = (path: string, start: number, end: number): Promise<RangeAnswer> =>
  json(at("range", { path, start: Math.floor(start), end: Math.ceil(end) }));

export async function fetchSpans(
  path: string,
  start: number,
  end: number,
  pixels: number,
  lanes: readonly number[],
): Promise<Spans> {
  const query = { path, start: Math.floor(start), end: Math.ceil(end), pixels, lanes: lanes.join(",") };
  const frame = await (await ask(at("timeline", query))).arrayBuffer();
  const { header, start: from } = openFrame<TimelineHeader>(frame);
  const column = (name: string): Numbers => columnOf(frame, from, header.columns[name]!);
  return {
    header,
    lane: column("lane"),
    depth: column("depth"),
    row: column("row"),
    start: column("start"),
    end: column("end"),
    count: column("count"),
    name: column("name"),
    category: column("category"),
  };
}

/** What is drawn of one track in a window. */
export interface TrackDrawn {
  /** Levels: lowest and highest of each pixel; NaN before the first sample. */
  low: Numbers | null;
  high: Numbers | null;
  /** Tensors: the event they were allocated in, the row they are drawn in, when, and how large. */
  tensors: { row: Numbers; layer: Numbers; start: Numbers; end: Numbers; bytes: Numbers } | null;
  /** Tensors narrower than a pixel. */
  merged: number;
}

export interface TracksDrawn {
  start: number;
  end: number;
  of: Map<number, TrackDrawn>;
}

export async function fetchTracks(
  path: string,
  start: number,
  end: number,
  pixels: number,
  tracks: readonly number[],
): Promise<TracksDrawn> {
  const query = { path, start: Math.floor(start), end: Math.ceil(end), pixels, tracks: tracks.join(",") };
  const frame = await (await ask(at("tracks", query))).arrayBuffer();
  const { header, start: from } = openFrame<TracksHeader>(frame);
  const of = new Map<number, TrackDrawn>();
  for (const one of header.tracks) {
    const column = (name: string): Numbers => columnOf(frame, from, one.columns[name]!);
    const levels = "low" in one.columns;
    of.set(one.track, {
      low: levels ? column("low") : null,
      high: levels ? column("high") : null,
      tensors: levels
        ? null
        : {
            row: column("row"),
            layer: column("layer"),
            start: column("start"),
            end: column("end"),
            bytes: column("bytes"),
          },
      merged: one.merged,
    });
  }
  return { start: header.start_ns, end: header.end_ns, of };
}

/** A time with its unit, three or four significant digits. */
export function nsText(ns: number | null | undefined): string {
  if (ns === null || ns === undefined || !Number.isFinite(ns)) return NOTHING;
  const size = Math.abs(ns);
  const [scale, unit] =
    size >= 1e9 ? [1e9, "s"] : size >= 1e6 ? [1e6, "ms"] : size >= 1e3 ? [1e3, "µs"] : [1, "ns"];
  const value = ns / scale;
  const decimals = scale === 1 ? 0 : Math.abs(value) >= 100 ? 1 : 2;
  return `${fixed(value, decimals)}${GAP}${unit}`;
}

/** A difference of times, with its sign. */
export function nsSigned(ns: number): string {
  return ns > 0 ? `+${nsText(ns)}` : nsText(ns);
}

/** A time with so many digits that times a step apart differ. */
export function preciseText(ns: number, step: number): string {
  const size = Math.abs(ns);
  const [scale, unit] =
    size >= 1e9 ? [1e9, "s"] : size >= 1e6 ? [1e6, "ms"] : size >= 1e3 ? [1e3, "µs"] : [1, "ns"];
  return `${fixed(ns / scale, Math.max(0, Math.min(9, Math.ceil(Math.log10(scale / Math.max(step, 1)) - 1e-9))))}${GAP}${unit}`;
}

export function bytesText(bytes: number | null | undefined): string {
  if (bytes === null || bytes === undefined) return NOTHING;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = bytes;
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${fixed(value, unit === 0 ? 0 : Math.abs(value) >= 100 ? 1 : 2)}${GAP}${units[unit]}`;
}

/** A rate of operations, 12.3 TFLOP/s. */
export function flopsText(perSecond: number | null | undefined): string {
  return prefixed(perSecond, "FLOP/s");
}

/** A rate of bytes, in powers of ten as makers give it. */
export function rateText(perSecond: number | null | undefined): string {
  return prefixed(perSecond, "B/s");
}

/** Round distances between ticks: 1, 2 or 5 times a power of ten. */
export function tickStep(range: number, most: number): number {
  const rough = range / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1e-300)));
  for (const factor of [1, 2, 5]) if (factor * power >= rough) return factor * power;
  return 10 * power;
}
