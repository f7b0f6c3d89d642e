/** Questions about profiles, and how their answers read. Times are nanoseconds since the profile's zero. */
import type {
  Category,
  DiffAnswer,
  GapsAnswer,
  HistoryAnswer,
  JobAnswer,
  KernelAnswer,
  MemoryAnswer,
  OverlapAnswer,
  PathAnswer,
  ProfileEvent,
  ProfileList,
  ProfileOutline,
  ProfileSummary,
  RangeAnswer,
  ReadingProgress,
  SearchAnswer,
  ShapesAnswer,
  TimelineHeader,
  TracksHeader,
  TreeAnswer,
  WaitsAnswer,
} from "../server/api";
import { READING_MS, ask, question, told } from "../server/client";
import { columnOf, openFrame, type Numbers } from "../server/wire";

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

/** A profile may have to be read first. */
const json = <Answer>(name: string, about: Parameters<typeof question>[1] = {}): Promise<Answer> =>
  told(name, about, READING_MS);

export const fetchProfiles = (): Promise<ProfileList> => json("profiles");
export const fetchProfile = (path: string): Promise<ProfileSummary> => json("profile", { path });
/** How far the first reading of a profile is; answered while that goes on. */
export const fetchReading = (path: string): Promise<ReadingProgress> => json("profile/reading", { path });

export const fetchOutline = (path: string): Promise<ProfileOutline> => json("outline", { path });
export const fetchEvent = (path: string, row: number): Promise<ProfileEvent> => json("event", { path, row });
/** Hits from a place among all, or from the first that begins at a time. */
export const fetchSearch = (
  path: string,
  q: string,
  from: { skip: number } | { start: number },
): Promise<SearchAnswer> => json("search", { path, q, ...from });
export const fetchTree = (
  path: string,
  view: string,
  options: Record<string, string>,
  steps = "",
  byPart = false,
): Promise<TreeAnswer> =>
  json("view", { path, view, ...(steps ? { steps } : {}), ...(byPart ? { by: "part" } : {}), ...options });
export const fetchKernels = (path: string, steps: string): Promise<KernelAnswer> =>
  json("profile/kernels", { path, steps });
/** Critical paths of the chosen steps, each with its longest stretches. */
export const fetchPath = (path: string, steps: string, pieces: number): Promise<PathAnswer> =>
  json("profile/path", { path, steps, pieces });
export const fetchOverlap = (path: string, steps: string): Promise<OverlapAnswer> =>
  json("profile/overlap", { path, steps });
export const fetchShapes = (path: string, steps: string): Promise<ShapesAnswer> =>
  json("profile/shapes", { path, steps });
/** What the profiles or dumps of all ranks tell of their job. */
export const fetchJob = (path: string): Promise<JobAnswer> => json("profile/ranks", { path });
export const fetchWaits = (path: string, start: number, end: number): Promise<WaitsAnswer> =>
  json("profile/waits", { path, start: Math.floor(start), end: Math.ceil(end) });
export const fetchGaps = (path: string, start: number, end: number): Promise<GapsAnswer> =>
  json("profile/gaps", { path, start: Math.floor(start), end: Math.ceil(end) });
export const fetchMemory = (path: string, steps: string, points: number): Promise<MemoryAnswer> =>
  json("profile/memory", { path, steps, points });
export const fetchHistory = (paths: readonly string[], by: string): Promise<HistoryAnswer> =>
  json(`profile/history?${paths.map((path) => `path=${encodeURIComponent(path)}`).join("&")}&by=${by}`);
export const fetchDiff = (a: string, b: string, steps_a: string, steps_b: string): Promise<DiffAnswer> =>
  json("profile/diff", { a, b, steps_a, steps_b });
export const fetchRange = (path: string, start: number, end: number): Promise<RangeAnswer> =>
  json("range", { path, start: Math.floor(start), end: Math.ceil(end) });

export async function fetchSpans(
  path: string,
  start: number,
  end: number,
  pixels: number,
  lanes: readonly number[],
): Promise<Spans> {
  const query = { path, start: Math.floor(start), end: Math.ceil(end), pixels, lanes: lanes.join(",") };
  const frame = await (await ask(question("timeline", query))).arrayBuffer();
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
  const frame = await (await ask(question("tracks", query))).arrayBuffer();
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
