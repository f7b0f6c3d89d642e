/** Spans as pixels: lanes are runs of one colour, so a row of pixels is filled once and copied down its track. */
import type { Spans } from "./questions";
import { parseColour, rgba } from "../theme/pixels";

/** Where a track of a lane is drawn. */
export interface Track {
  top: number;
  height: number;
}

/** Shades by category and hash of the name, as little-endian RGBA. */
export type Shades = readonly (readonly number[])[];
export const SHADES = 5;

/** Which shade a name takes: the same in every profile. */
export function shadeOf(name: string): number {
  let hash = 2166136261;
  for (let at = 0; at < name.length; at += 1) hash = Math.imul(hash ^ name.charCodeAt(at), 16777619);
  return (hash >>> 8) % SHADES;
}

/** A colour mixed up to 16 % to black in light and to white in dark themes. */
export function shadesOf(colour: string, dark: boolean): number[] {
  const base = parseColour(colour);
  const to = dark ? 255 : 0;
  return Array.from({ length: SHADES }, (_, shade) => {
    const part = (0.16 * shade) / (SHADES - 1);
    return rgba(
      base.map((channel) => Math.round(channel + (to - channel) * part)) as [number, number, number],
    );
  });
}

/** The same shades mixed most of the way to the paper: of what a search did not find. */
export function dimmed(shades: readonly number[], paper: readonly [number, number, number]): number[] {
  return shades.map((pixel) =>
    rgba(
      [pixel & 255, (pixel >> 8) & 255, (pixel >> 16) & 255].map((channel, at) =>
        Math.round(channel + (paper[at]! - channel) * 0.72),
      ) as [number, number, number],
    ),
  );
}

/** A colour as style sheets write it. */
export function colourOf(pixel: number): string {
  return `rgb(${pixel & 255} ${(pixel >> 8) & 255} ${(pixel >> 16) & 255})`;
}

/** Black or white, whichever stands out more on a colour. */
export function inkOn(pixel: number): string {
  const channel = (value: number): number => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  };
  const light =
    0.2126 * channel(pixel & 255) +
    0.7152 * channel((pixel >> 8) & 255) +
    0.0722 * channel((pixel >> 16) & 255);
  return 1.05 / (light + 0.05) > (light + 0.05) / 0.05 ? "#ffffff" : "#000000";
}

export interface Raster {
  pixels: Uint32Array;
  width: number;
  height: number;
}

/** Draws spans that lie in a window of time.
 *
 * @param trackOf Where a track is in pixels of the raster, or null where it is not on it.
 * @param shade Of every span's name.
 */
export function drawSpans(
  raster: Raster,
  spans: Spans,
  window: readonly [number, number],
  shades: Shades,
  shade: Uint8Array,
  gap: number,
  trackOf: (lane: number, depth: number) => Track | null,
): void {
  const { pixels, width, height } = raster;
  const scale = width / (window[1] - window[0]);
  const line = new Uint32Array(width);
  const total = spans.lane.length;
  let at = 0;
  while (at < total) {
    const lane = spans.lane[at]!;
    const depth = spans.depth[at]!;
    let end = at + 1;
    while (end < total && spans.lane[end] === lane && spans.depth[end] === depth) end += 1;
    const track = trackOf(lane, depth);
    if (track && track.top < height && track.top + track.height > 0) {
      line.fill(0);
      for (let one = at; one < end; one += 1) {
        const from = (spans.start[one]! - window[0]) * scale;
        const to = (spans.end[one]! - window[0]) * scale;
        if (to < 0 || from >= width) continue;
        const left = Math.max(0, Math.floor(from));
        const right = Math.min(width, Math.max(left + 1, Math.round(to)));
        line.fill(shades[spans.category[one]!]![shade[spans.name[one]!]!]!, left, right);
        // A line between neighbours, where there is room for one.
        if (right - left > 3 && right < width) line[right - 1] = gap;
      }
      const top = Math.max(0, track.top);
      const bottom = Math.min(height, track.top + track.height);
      for (let y = top; y < bottom; y += 1) pixels.set(line, y * width);
    }
    at = end;
  }
}

/** The span under a point: index into spans, or -1. */
export function spanAt(spans: Spans, lane: number, depth: number, time: number, slack: number): number {
  let best = -1;
  let distance = slack;
  for (let at = 0; at < spans.lane.length; at += 1) {
    if (spans.lane[at] !== lane || spans.depth[at] !== depth) continue;
    if (spans.start[at]! <= time && time <= spans.end[at]!) return at;
    const away = Math.min(Math.abs(spans.start[at]! - time), Math.abs(spans.end[at]! - time));
    if (away <= distance) {
      distance = away;
      best = at;
    }
  }
  return best;
}

/** As much of a text as there is room for. */
export function fitting(context: CanvasRenderingContext2D, text: string, room: number): string {
  const most = Math.floor(room / 4.6);
  const short = text.length > most ? text.slice(0, Math.max(1, most)) : text;
  if (short.length === text.length && context.measureText(short).width <= room) return text;
  let end = short.length;
  while (end > 1 && context.measureText(`${short.slice(0, end)}…`).width > room)
    end -= Math.max(1, Math.ceil(end * 0.1));
  return `${short.slice(0, end)}…`;
}
