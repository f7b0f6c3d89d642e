/** Where lanes, their rows, tracks and headers lie, top to bottom. */
import { percent } from "../format/number";
import type { ProfileLane, ProfileTrack } from "../server/api";
import { counted } from "../format/number";
import { inOrder } from "./lanes";
import type { Track } from "./spans";

export const ROW = 17;
/** Height of a row of tensors. */
export const TENSOR = 8;
const SPAN = 16;
const HEADER = 20;
const GAP = 6;
const LEVEL: Record<string, number> = { memory: 64, counter: 44 };

export interface Header {
  kind: "header";
  top: number;
  height: number;
  key: string;
  title: string;
  note: string;
  folded: boolean;
}

export interface LaneBox {
  kind: "lane";
  top: number;
  height: number;
  /** Number of the lane. */
  lane: number;
  depth: number;
  collapsed: boolean;
  title: string;
  note: string;
  /** Key of the header that it stands under. */
  group: string;
}

export interface TrackBox {
  kind: "track";
  top: number;
  height: number;
  /** Number of the track. */
  track: number;
  facts: ProfileTrack;
}

export type Box = Header | LaneBox | TrackBox;

export interface Layout {
  boxes: Box[];
  height: number;
  byLane: Map<number, LaneBox>;
  tracks: TrackBox[];
}

interface Group {
  key: string;
  rank: number;
  process: string;
  lanes: number[];
  tracks: number[];
  /** Of one rank: devices, then what takes part in training, then threads beside it. */
  order: number;
}

/** What a person made of the lanes. */
export interface Arrangement {
  /** Lanes in the order in which they stand on top. */
  pinned: readonly number[];
  hidden: ReadonlySet<number>;
  /** Lanes that are one row high. */
  collapsed: ReadonlySet<number>;
  /** Keys of groups that are folded to their header. */
  folded: ReadonlySet<string>;
  /** Lanes and what each was put before within its group, null: behind all, in the order in which it was done. */
  moved: readonly (readonly [number, number | null])[];
}

export const AS_RECORDED: Arrangement = {
  pinned: [],
  hidden: new Set(),
  collapsed: new Set(),
  folded: new Set(),
  moved: [],
};

/** Lanes with events, under a header per rank and process or device, its tracks below them. */
export function layOut(
  lanes: readonly ProfileLane[],
  ranks: number,
  tracks: readonly ProfileTrack[] = [],
  arrangement: Arrangement = AS_RECORDED,
): Layout {
  const layout: Layout = { boxes: [], height: 0, byLane: new Map(), tracks: [] };
  const { collapsed } = arrangement;
  const pinned = arrangement.pinned.filter((number) => (lanes[number]?.events ?? 0) > 0);
  if (pinned.length) {
    addHeader(layout, { key: PINNED, title: "Pinned", note: "", folded: false });
    for (const number of pinned)
      addLane(layout, lanes[number]!, number, PINNED, collapsed.has(number), ranks > 1);
  }
  const elsewhere = new Set([...pinned, ...arrangement.hidden]);
  for (const group of groupsOf(lanes, tracks)) {
    const shown = inOrder(group.lanes, arrangement.moved).filter((number) => !elsewhere.has(number));
    if (!shown.length && !group.tracks.length) continue;
    const device = group.order === 0;
    const name = group.process || (device ? "Device" : "Host");
    const folded = arrangement.folded.has(group.key);
    addHeader(layout, {
      key: group.key,
      title: ranks > 1 ? `Rank ${group.rank}, ${name}` : name,
      note: folded
        ? `${counted(shown.length, "lane")} folded`
        : device
          ? "device"
          : group.order === 2
            ? "other threads"
            : "host",
      folded,
    });
    if (folded) continue;
    for (const number of shown) addLane(layout, lanes[number]!, number, group.key, collapsed.has(number));
    for (const number of group.tracks) addTrack(layout, tracks[number]!, number);
  }
  return layout;
}

export const PINNED = "pinned";

function addHeader(layout: Layout, header: Pick<Header, "key" | "title" | "note" | "folded">): void {
  layout.boxes.push({ kind: "header", top: layout.height, height: HEADER, ...header });
  layout.height += HEADER + GAP / 2;
}

function addTrack(layout: Layout, facts: ProfileTrack, number: number): void {
  const box: TrackBox = {
    kind: "track",
    top: layout.height,
    height: (LEVEL[facts.kind] ?? Math.max(24, facts.rows * TENSOR)) + GAP,
    track: number,
    facts,
  };
  layout.boxes.push(box);
  layout.tracks.push(box);
  layout.height += box.height;
}

function groupsOf(lanes: readonly ProfileLane[], tracks: readonly ProfileTrack[]): Group[] {
  const groups = new Map<string, Group>();
  const group = (rank: number, process: string, order: number): Group => {
    const key = `${rank} ${process} ${order}`;
    const found = groups.get(key) ?? { key, rank, process, lanes: [], tracks: [], order };
    groups.set(key, found);
    return found;
  };
  lanes.forEach((lane, number) => {
    if (lane.events === 0) return;
    group(lane.rank, lane.process, lane.device >= 0 ? 0 : lane.working ? 1 : 2).lanes.push(number);
  });
  // Threads that run steps come first: with stacks, each idle thread has many rows of waiting.
  for (const { lanes: own } of groups.values())
    own.sort((a, b) => Number(lanes[b]!.stepping) - Number(lanes[a]!.stepping));
  tracks.forEach((track, number) => {
    const own = [...groups.values()].find(
      (one) => one.rank === track.rank && one.process === track.process && one.order < 2,
    );
    (own ?? group(track.rank, track.process, track.device >= 0 ? 0 : 1)).tracks.push(number);
  });
  const places = new Map<number, number>();
  for (const { rank } of groups.values()) if (!places.has(rank)) places.set(rank, places.size);
  return [...groups.values()].sort((a, b) => places.get(a.rank)! - places.get(b.rank)! || a.order - b.order);
}

function addLane(
  layout: Layout,
  lane: ProfileLane,
  number: number,
  group: string,
  shut: boolean,
  withRank = false,
): void {
  const depth = shut ? 1 : lane.depth;
  const box: LaneBox = {
    kind: "lane",
    top: layout.height,
    height: Math.max(24, depth * ROW + GAP),
    lane: number,
    depth,
    collapsed: shut,
    title: `${withRank ? `rank ${lane.rank}, ` : ""}${lane.thread || lane.process}`,
    note: lane.busy_ratio === null ? "Python stacks" : `${percent(lane.busy_ratio, 0)} busy`,
    group,
  };
  layout.boxes.push(box);
  layout.byLane.set(number, box);
  layout.height += box.height;
}

/** Lanes under the same header as one, itself among them, from top to bottom. */
export function lanesBeside(layout: Layout, lane: number): LaneBox[] {
  const group = layout.byLane.get(lane)?.group;
  return layout.boxes.filter((box): box is LaneBox => box.kind === "lane" && box.group === group);
}

/** Before which of the lanes beside it one is put that is let go at a height; null: behind all. */
export function landing(layout: Layout, lane: number, y: number): number | null {
  return lanesBeside(layout, lane).find((box) => y < box.top + box.height / 2)?.lane ?? null;
}

/** Lanes of which anything lies between two heights. */
export function lanesBetween(layout: Layout, from: number, to: number): number[] {
  return layout.boxes
    .filter((box): box is LaneBox => box.kind === "lane" && box.top < to && box.top + box.height > from)
    .map((box) => box.lane);
}

/** Tracks of which anything lies between two heights. */
export function tracksBetween(layout: Layout, from: number, to: number): number[] {
  return layout.tracks.filter((box) => box.top < to && box.top + box.height > from).map((box) => box.track);
}

/** Where a row of a lane is drawn when the view is scrolled; null: its lane is closed that far or not there. */
export function trackAt(layout: Layout, lane: number, depth: number, scrolled: number): Track | null {
  const box = layout.byLane.get(lane);
  if (!box || depth >= box.depth) return null;
  return { top: Math.round(box.top - scrolled + depth * ROW), height: SPAN };
}

/** Lane and depth at a height, if there is a row. */
export function rowAt(layout: Layout, y: number): { lane: number; depth: number } | null {
  const box = layout.boxes.find((one) => one.kind === "lane" && y >= one.top && y < one.top + one.height);
  if (!box || box.kind !== "lane") return null;
  const depth = Math.floor((y - box.top) / ROW);
  return depth < box.depth ? { lane: box.lane, depth } : null;
}

/** The track at a height, and how far below its top that is. */
export function boxAt(layout: Layout, y: number): { box: TrackBox; below: number } | null {
  const box = layout.tracks.find((one) => y >= one.top && y < one.top + one.height);
  return box ? { box, below: y - box.top } : null;
}
