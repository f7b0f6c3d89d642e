/** Waits of ranks for each other, and idle gaps of devices with their reason, over the lanes. */
import type { Gap, ProfileLane, RankWait } from "../server/api";
import { nsText } from "../format/units";
import { trackAt, type Layout } from "./layout";
import type { Look } from "./paint";
import { fitting } from "./spans";

export interface Overlay {
  kind: "wait" | "idle";
  lane: number;
  depth: number;
  start: number;
  end: number;
  text: string;
  /** Where the arrow leads: the rank that is waited for. */
  to: { lane: number; depth: number; start: number } | null;
  /** The event to select; null of a gap, which is none. */
  row: number | null;
}

/** Why a device did nothing, in words. */
export function reasonOf(gap: Pick<Gap, "reason" | "host" | "loading_ns" | "duration_ns">): string {
  if (gap.loading_ns !== null && gap.loading_ns > gap.duration_ns / 2) return "the host loaded data";
  if (gap.reason === "host_wait")
    return gap.host ? `launched late, the host was in ${gap.host}` : "launched late";
  if (gap.reason === "kernel_wait") return "from one kernel to the next";
  if (gap.reason === "other") return "waited for another stream, an event or memory";
  return "what launched the next work was not recorded";
}

/** A device's gaps lie on the first of its lanes that is drawn. */
export function overlaysOf(
  waits: readonly RankWait[],
  gaps: readonly Gap[],
  lanes: readonly ProfileLane[],
  layout: Layout,
): Overlay[] {
  const first = new Map<string, number>();
  for (const box of layout.boxes) {
    if (box.kind !== "lane") continue;
    const lane = lanes[box.lane]!;
    const key = `${lane.rank} ${lane.device}`;
    if (lane.device >= 0 && !first.has(key)) first.set(key, box.lane);
  }
  const idle = gaps.flatMap((gap): Overlay[] => {
    const lane = first.get(`${gap.rank} ${gap.device}`);
    if (lane === undefined) return [];
    return [
      {
        kind: "idle",
        lane,
        depth: 0,
        start: gap.start_ns,
        end: gap.start_ns + gap.duration_ns,
        text: `Idle ${nsText(gap.duration_ns)}: ${reasonOf(gap)}`,
        to: null,
        row: null,
      },
    ];
  });
  return [
    ...idle,
    ...waits.map((wait): Overlay => ({
      kind: "wait",
      lane: wait.lane,
      depth: wait.depth,
      start: wait.start_ns,
      end: wait.end_ns,
      text: `Waits ${nsText(wait.end_ns - wait.start_ns)} for rank ${wait.last_rank}`,
      to: { lane: wait.last_lane, depth: wait.last_depth, start: wait.last_start_ns },
      row: wait.row,
    })),
  ];
}

/** The overlay at a point, waits before gaps. */
export function overlayAt(
  overlays: readonly Overlay[],
  lane: number,
  depth: number,
  time: number,
): Overlay | null {
  return (
    overlays.findLast(
      (one) => one.lane === lane && one.depth === depth && one.start <= time && time < one.end,
    ) ?? null
  );
}

const LEAST = 3;
const LEAST_TEXT = 48;

export function paintOverlays(
  context: CanvasRenderingContext2D,
  overlays: readonly Overlay[],
  layout: Layout,
  scrolled: number,
  look: Look,
  x: (time: number) => number,
  width: number,
  height: number,
): void {
  context.font = `400 11px/16px ${look.font}`;
  context.textBaseline = "middle";
  for (const one of overlays) {
    const [from, to] = [Math.max(0, x(one.start)), Math.min(width, x(one.end))];
    const track = trackAt(layout, one.lane, one.depth, scrolled);
    if (to - from < LEAST || !track || track.top + track.height < 0 || track.top > height) continue;
    context.fillStyle = look.surface;
    context.fillRect(from, track.top, to - from, track.height);
    hatch(context, from, to, track, look);
    context.strokeStyle = look.line;
    context.lineWidth = 1;
    context.strokeRect(from + 0.5, track.top + 0.5, to - from - 1, track.height - 1);
    label(context, one.text, from, to, track, look);
  }
  for (const one of overlays) arrow(context, one, layout, scrolled, look, x, width);
}

function label(
  context: CanvasRenderingContext2D,
  text: string,
  from: number,
  to: number,
  track: { top: number; height: number },
  look: Look,
): void {
  if (to - from < LEAST_TEXT) return;
  const words = fitting(context, text, to - from - 16);
  const wide = context.measureText(words).width;
  const left = (from + to - wide) / 2;
  // Paper below the words: they are not read through the hatch.
  context.fillStyle = look.surface;
  context.fillRect(left - 4, track.top + 1, wide + 8, track.height - 2);
  context.fillStyle = look.fg;
  context.fillText(words, left, track.top + track.height / 2 + 0.5);
}

/** From the end of a wait, straight up or down, to the rank that ended it. */
function arrow(
  context: CanvasRenderingContext2D,
  one: Overlay,
  layout: Layout,
  scrolled: number,
  look: Look,
  x: (time: number) => number,
  width: number,
): void {
  if (!one.to || x(one.end) - x(one.start) < LEAST) return;
  const from = trackAt(layout, one.lane, one.depth, scrolled);
  const to = trackAt(layout, one.to.lane, one.to.depth, scrolled);
  const at = x(Math.min(one.end, one.to.start));
  if (!from || !to || at < 0 || at > width) return;
  const down = to.top > from.top;
  const [y0, y1] = [down ? from.top + from.height : from.top, down ? to.top : to.top + to.height];
  context.strokeStyle = look.muted;
  context.fillStyle = look.muted;
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(Math.round(at) - 0.5, y0);
  context.lineTo(Math.round(at) - 0.5, y1);
  context.stroke();
  const tip = down ? -6 : 6;
  context.beginPath();
  context.moveTo(at, y1);
  context.lineTo(at - 4, y1 + tip);
  context.lineTo(at + 4, y1 + tip);
  context.fill();
}

/** Lines from the bottom left to the top right, within a box. */
function hatch(
  context: CanvasRenderingContext2D,
  from: number,
  to: number,
  track: { top: number; height: number },
  look: Look,
): void {
  const rise = Math.min(track.height, to - from);
  context.strokeStyle = look.hatch;
  context.lineWidth = 1;
  context.beginPath();
  for (let at = from; at + rise <= to; at += 5) {
    context.moveTo(at, track.top + track.height);
    context.lineTo(at + rise, track.top + track.height - rise);
  }
  context.stroke();
}
