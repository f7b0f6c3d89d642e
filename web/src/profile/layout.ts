/** Where lanes, their rows, tracks and headers lie, top to bottom. */
import { percent } from "../format/number";
import type { ProfileLane, ProfileTrack } from "../server/api";
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
  title: string;
  note: string;
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
  rank: number;
  process: string;
  lanes: number[];
  tracks: number[];
}

/** Lanes with events, under a header per rank and process or device, its tracks below them. */
export function layOut(
  lanes: readonly ProfileLane[],
  collapsed: ReadonlySet<number>,
  ranks: number,
  tracks: readonly ProfileTrack[] = [],
): Layout {
  const layout: Layout = { boxes: [], height: 0, byLane: new Map(), tracks: [] };
  for (const group of groupsOf(lanes, tracks)) {
    const device = group.lanes.length
      ? lanes[group.lanes[0]!]!.device >= 0
      : tracks[group.tracks[0]!]!.device >= 0;
    const name = group.process || (device ? "Device" : "Host");
    layout.boxes.push({
      kind: "header",
      top: layout.height,
      height: HEADER,
      title: ranks > 1 ? `Rank ${group.rank}, ${name}` : name,
      note: device ? "device" : "host",
    });
    layout.height += HEADER + GAP / 2;
    for (const number of group.lanes) addLane(layout, lanes[number]!, number, collapsed.has(number));
    for (const number of group.tracks) {
      const facts = tracks[number]!;
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
  }
  return layout;
}

function groupsOf(lanes: readonly ProfileLane[], tracks: readonly ProfileTrack[]): Group[] {
  const groups: Group[] = [];
  lanes.forEach((lane, number) => {
    if (lane.events === 0) return;
    const last = groups.at(-1);
    if (last?.rank === lane.rank && last.process === lane.process) last.lanes.push(number);
    else groups.push({ rank: lane.rank, process: lane.process, lanes: [number], tracks: [] });
  });
  // Threads that run steps come first: with stacks, each idle thread has many rows of waiting.
  for (const group of groups)
    group.lanes.sort((a, b) => Number(lanes[b]!.stepping) - Number(lanes[a]!.stepping));
  tracks.forEach((track, number) => {
    const own = groups.findLast((group) => group.rank === track.rank && group.process === track.process);
    if (own) own.tracks.push(number);
    else groups.push({ rank: track.rank, process: track.process, lanes: [], tracks: [number] });
  });
  return groups;
}

function addLane(layout: Layout, lane: ProfileLane, number: number, shut: boolean): void {
  const depth = shut ? 1 : lane.depth;
  const box: LaneBox = {
    kind: "lane",
    top: layout.height,
    height: Math.max(24, depth * ROW + GAP),
    lane: number,
    depth,
    collapsed: shut,
    title: lane.thread || lane.process,
    note: `${percent(lane.busy_ratio, 0)} busy`,
  };
  layout.boxes.push(box);
  layout.byLane.set(number, box);
  layout.height += box.height;
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
