/** Draws the timeline: spans as pixels, then tracks, text, steps, arrows and what is selected over them. */
import { CATEGORIES, type Spans, type TracksDrawn } from "./questions";
import { preciseText } from "../format/units";
import { tickStep } from "../format/ticks";
import { SHADES, colourOf, dimmed, drawSpans, fitting, inkOn, shadeOf, shadesOf, type Shades } from "./spans";
import { parseColour, rgba } from "../theme/pixels";
import type { StepWindow } from "../server/api";
import { paintArrows, type Arrow } from "./arrows";
import { trackAt, type Layout } from "./layout";
import { paintTracks } from "./levels";
import { paintOverlays, type Overlay } from "./overlays";

export interface Look {
  dark: boolean;
  surface: string;
  fg: string;
  muted: string;
  line: string;
  accent: string;
  accentSoft: string;
  warn: string;
  font: string;
  memory: string;
  counter: string;
  hatch: string;
  /** Of each category, then the same dimmed. */
  shades: Shades;
}

const COLOURED: Record<string, string> = {
  other: "--part-other",
  host: "--part-host",
  runtime: "--part-runtime",
  loading: "--part-loading",
  forward: "--part-forward",
  backward: "--part-backward",
  optimizer: "--part-optimizer",
  compute: "--part-compute",
  collective: "--part-collective",
  copy: "--part-copy",
  step: "--sunken",
  wait: "--hatch",
};

export function readLook(root: HTMLElement): Look {
  const style = getComputedStyle(root);
  const value = (name: string): string => style.getPropertyValue(name).trim();
  const dark = root.dataset["theme"] === "dark";
  return {
    dark,
    surface: value("--surface"),
    fg: value("--fg"),
    muted: value("--muted"),
    line: value("--line"),
    accent: value("--accent"),
    accentSoft: value("--accent-soft"),
    warn: value("--warn"),
    font: value("--font"),
    memory: value("--series-2"),
    counter: value("--part-host"),
    hatch: value("--hatch"),
    shades: CATEGORIES.map((name) => {
      const own =
        name === "step"
          ? Array<number>(SHADES).fill(rgba(parseColour(value("--sunken"))))
          : shadesOf(value(COLOURED[name]!), dark);
      return [...own, ...dimmed(own, parseColour(value("--surface")))];
    }),
  };
}

export interface Scene {
  spans: Spans | null;
  tracks: TracksDrawn | null;
  layout: Layout;
  window: readonly [number, number];
  scrolled: number;
  steps: readonly StepWindow[];
  /** What names must hold, in lower case, or nothing; all others are dimmed. */
  find: string;
  arrows: readonly Arrow[];
  overlays: readonly Overlay[];
  selected: number | null;
  range: readonly [number, number] | null;
  hover: number;
}

const SHADE_OF = new WeakMap<Spans, { find: string; shades: Uint8Array }>();
/** Shade of every name; those that a search did not find are dimmed. */
function shades(spans: Spans, find: string): Uint8Array {
  let found = SHADE_OF.get(spans);
  if (found?.find !== find) {
    found = {
      find,
      shades: Uint8Array.from(
        spans.header.names,
        (name) => shadeOf(name) + (find && !name.toLowerCase().includes(find) ? SHADES : 0),
      ),
    };
    SHADE_OF.set(spans, found);
  }
  return found.shades;
}

const LEAST_TEXT = 28;

/** Paints shapes instead of pixels: for a file. */
export function paintShapes(
  context: CanvasRenderingContext2D,
  scene: Scene,
  look: Look,
  width: number,
  height: number,
): void {
  const { spans, window } = scene;
  const x = (time: number): number => ((time - window[0]) / (window[1] - window[0])) * width;
  const shade = spans && shades(spans, scene.find);
  for (let at = 0; spans && shade && at < spans.lane.length; at += 1) {
    const [from, to] = [Math.max(0, x(spans.start[at]!)), Math.min(width, x(spans.end[at]!))];
    const track = trackAt(scene.layout, spans.lane[at]!, spans.depth[at]!, scene.scrolled);
    if (to < 0 || from >= width || !track || track.top + track.height < 0 || track.top > height) continue;
    context.fillStyle = colourOf(look.shades[spans.category[at]!]![shade[spans.name[at]!]!]!);
    context.fillRect(from, track.top, Math.max(0.5, to - from > 3 ? to - from - 1 : to - from), track.height);
  }
  paintOver(context, scene, look, width, height);
}

export function paint(
  canvas: HTMLCanvasElement,
  scene: Scene,
  look: Look,
  width: number,
  height: number,
): void {
  const density = Math.min(2, window.devicePixelRatio || 1);
  const [wide, high] = [Math.max(1, Math.round(width * density)), Math.max(1, Math.round(height * density))];
  if (canvas.width !== wide || canvas.height !== high) Object.assign(canvas, { width: wide, height: high });
  const context = canvas.getContext("2d")!;
  if (scene.spans) {
    const image = new ImageData(wide, high);
    const pixels = new Uint32Array(image.data.buffer);
    const place = (lane: number, depth: number): { top: number; height: number } | null => {
      const track = trackAt(scene.layout, lane, depth, scene.scrolled);
      return track && { top: Math.round(track.top * density), height: Math.round(track.height * density) };
    };
    drawSpans(
      { pixels, width: wide, height: high },
      scene.spans,
      scene.window,
      look.shades,
      shades(scene.spans, scene.find),
      rgba(parseColour(look.surface)),
      place,
    );
    context.putImageData(image, 0, 0);
  } else {
    context.clearRect(0, 0, wide, high);
  }
  context.save();
  context.scale(density, density);
  paintOver(context, scene, look, width, height);
  context.restore();
}

function paintOver(
  context: CanvasRenderingContext2D,
  scene: Scene,
  look: Look,
  width: number,
  height: number,
): void {
  const x = (time: number): number =>
    ((time - scene.window[0]) / (scene.window[1] - scene.window[0])) * width;
  if (scene.tracks) paintTracks(context, scene.tracks, scene.layout, scene.scrolled, look, x, width, height);
  lines(context, scene, look, x, height);
  if (scene.spans) words(context, scene, look, x, width, height);
  paintOverlays(context, scene.overlays, scene.layout, scene.scrolled, look, x, width, height);
  paintArrows(context, scene.arrows, scene.layout, scene.scrolled, look, x);
}

function lines(
  context: CanvasRenderingContext2D,
  scene: Scene,
  look: Look,
  x: (time: number) => number,
  height: number,
): void {
  context.strokeStyle = look.fg;
  context.globalAlpha = 0.55;
  context.setLineDash([3, 3]);
  context.beginPath();
  for (const step of scene.steps) {
    if (step.number < 0) continue;
    const at = Math.round(x(step.start_ns)) + 0.5;
    if (at < 0) continue;
    context.moveTo(at, 0);
    context.lineTo(at, height);
  }
  context.stroke();
  context.setLineDash([]);
  context.globalAlpha = 1;
  if (scene.range) {
    const [from, to] = [x(scene.range[0]), x(scene.range[1])];
    context.fillStyle = look.accent;
    context.globalAlpha = 0.14;
    context.fillRect(from, 0, to - from, height);
    context.globalAlpha = 1;
    context.fillRect(Math.round(from), 0, 1, height);
    context.fillRect(Math.round(to), 0, 1, height);
  }
}

function words(
  context: CanvasRenderingContext2D,
  scene: Scene,
  look: Look,
  x: (time: number) => number,
  width: number,
  height: number,
): void {
  const spans = scene.spans!;
  const shade = shades(spans, scene.find);
  context.font = `400 11px/16px ${look.font}`;
  context.textBaseline = "middle";
  for (let at = 0; at < spans.lane.length; at += 1) {
    const from = x(spans.start[at]!);
    const to = x(spans.end[at]!);
    if (to < 0 || from > width) continue;
    const row = spans.row[at]!;
    const marked = row === scene.selected || at === scene.hover;
    if (to - from < LEAST_TEXT && !marked) continue;
    const track = trackAt(scene.layout, spans.lane[at]!, spans.depth[at]!, scene.scrolled);
    if (!track || track.top + track.height < 0 || track.top > height) continue;
    const left = Math.max(0, from);
    const right = Math.min(width, to);
    if (right - left >= LEAST_TEXT) {
      const pixel = look.shades[spans.category[at]!]![shade[spans.name[at]!]!]!;
      context.fillStyle = inkOn(pixel);
      const label = spans.count[at]! > 1 ? `${spans.count[at]} events` : spans.header.names[spans.name[at]!]!;
      context.fillText(
        fitting(context, label, right - left - 6),
        left + 3,
        track.top + track.height / 2 + 0.5,
      );
    }
    if (marked) {
      context.strokeStyle = row === scene.selected ? look.accent : look.fg;
      context.lineWidth = row === scene.selected ? 2 : 1;
      context.strokeRect(left + 0.5, track.top + 0.5, Math.max(2, right - left - 1), track.height - 1);
    }
  }
}

/** Ticks of the ruler: times and their texts. */
export function ticks(
  window: readonly [number, number],
  zero: number,
  width: number,
): { time: number; text: string }[] {
  const step = tickStep(window[1] - window[0], width / 96);
  const first = Math.ceil((window[0] - zero) / step) * step + zero;
  const found: { time: number; text: string }[] = [];
  for (let time = first; time <= window[1] && found.length < 200; time += step)
    found.push({ time, text: preciseText(time - zero, step) });
  return found;
}
