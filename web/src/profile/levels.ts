/** Draws what lies beside lanes: levels of memory and counters as areas, tensors as bars; and says what is at a point. */
import type { TracksDrawn } from "./questions";
import { bytesText } from "../format/units";
import { count, figure } from "../format/number";
import { TENSOR, type Layout, type TrackBox } from "./layout";
import type { Look } from "./paint";

type Place = (time: number) => number;

export function levelText(facts: TrackBox["facts"], value: number): string {
  return facts.unit === "bytes" ? bytesText(value) : Number.isInteger(value) ? count(value) : figure(value);
}

export function paintTracks(
  context: CanvasRenderingContext2D,
  drawn: TracksDrawn,
  layout: Layout,
  scrolled: number,
  look: Look,
  x: Place,
  width: number,
  height: number,
): void {
  context.font = `400 11px/16px ${look.font}`;
  context.textBaseline = "middle";
  for (const box of layout.tracks) {
    const top = Math.round(box.top - scrolled);
    const of = drawn.of.get(box.track);
    if (!of || top > height || top + box.height < 0) continue;
    if (of.tensors) tensors(context, of.tensors, box, top, look, x, width);
    else level(context, of.low!, of.high!, drawn, box, top, look, x, width);
  }
}

/** The area below the highest level of a pixel, paler above its lowest. */
function level(
  context: CanvasRenderingContext2D,
  low: ArrayLike<number>,
  high: ArrayLike<number>,
  drawn: TracksDrawn,
  box: TrackBox,
  top: number,
  look: Look,
  x: Place,
  width: number,
): void {
  const tall = box.height - 6;
  const [least, most] = [box.facts.low, Math.max(box.facts.high, box.facts.low + 1e-9)];
  const y = (value: number): number => top + tall - ((value - least) / (most - least)) * (tall - 4);
  const time = (at: number): number => drawn.start + (at * (drawn.end - drawn.start)) / high.length;
  context.fillStyle = box.facts.kind === "memory" ? look.memory : look.counter;
  for (const [values, alpha] of [
    [high, 0.45],
    [low, 1],
  ] as const) {
    context.globalAlpha = alpha;
    context.beginPath();
    for (let at = 0; at < values.length; at += 1) {
      const value = values[at]!;
      const from = x(time(at));
      const to = x(time(at + 1));
      if (Number.isNaN(value) || to < 0 || from > width) continue;
      const edge = y(value);
      context.rect(from, Math.min(edge, y(0)), to - from + 0.4, Math.max(0.5, Math.abs(y(0) - edge)));
    }
    context.fill();
  }
  context.globalAlpha = 1;
  context.fillStyle = look.line;
  context.fillRect(0, Math.round(y(0)), width, 1);
  context.fillStyle = look.muted;
  context.textAlign = "right";
  context.fillText(levelText(box.facts, box.facts.high), width - 4, top + 8);
  context.textAlign = "left";
}

function tensors(
  context: CanvasRenderingContext2D,
  all: NonNullable<ReturnType<TracksDrawn["of"]["get"]>>["tensors"] & object,
  box: TrackBox,
  top: number,
  look: Look,
  x: Place,
  width: number,
): void {
  const most = Math.max(1, box.facts.high);
  context.fillStyle = look.memory;
  for (let at = 0; at < all.start.length; at += 1) {
    const [from, to] = [Math.max(0, x(all.start[at]!)), Math.min(width, x(all.end[at]!))];
    if (to <= from) continue;
    // The larger the darker, by the cube root: sizes differ by many powers of ten.
    context.globalAlpha = 0.25 + 0.75 * Math.cbrt(all.bytes[at]! / most);
    context.fillRect(from, top + all.layer[at]! * TENSOR, Math.max(1, to - from - 1), TENSOR - 1);
  }
  context.globalAlpha = 1;
}

/** What a track says at a point: a value, or a tensor with the event it was allocated in. */
export function readTrack(
  drawn: TracksDrawn,
  box: TrackBox,
  below: number,
  time: number,
): { title: string; note: string; row: number } | null {
  const of = drawn.of.get(box.track);
  if (!of) return null;
  if (of.tensors) {
    const layer = Math.floor(below / TENSOR);
    const { start, end, bytes, row } = of.tensors;
    for (let at = 0; at < start.length; at += 1) {
      if (of.tensors.layer[at] === layer && start[at]! <= time && time < end[at]!)
        return { title: bytesText(bytes[at]!), note: "Tensor", row: row[at]! };
    }
    return null;
  }
  const at = Math.floor(((time - drawn.start) / (drawn.end - drawn.start)) * of.high!.length);
  const [low, high] = [of.low![at], of.high![at]];
  if (low === undefined || high === undefined || Number.isNaN(high)) return null;
  const text = (value: number): string => levelText(box.facts, value);
  return { title: low === high ? text(high) : `${text(low)} – ${text(high)}`, note: box.facts.name, row: -1 };
}
