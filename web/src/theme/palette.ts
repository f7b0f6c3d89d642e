/** The colours of the theme for canvas code, read from the style sheet once per change. */
import { COLOURS, type Stroke } from "./colour";

export interface Palette {
  dark: boolean;
  surface: string;
  fg: string;
  muted: string;
  line: string;
  grid: string;
  accent: string;
  accentSoft: string;
  warn: string;
  bad: string;
  neutral: string;
  /** Of the lines of runs beyond the twelve that have a colour: seen, and behind all others. */
  rest: string;
  series: string[];
  font: string;
}

export function readPalette(root: HTMLElement): Palette {
  const style = getComputedStyle(root);
  const value = (name: string): string => style.getPropertyValue(name).trim();
  return {
    dark: root.dataset["theme"] === "dark",
    surface: value("--surface"),
    fg: value("--fg"),
    muted: value("--muted"),
    line: value("--line"),
    grid: value("--grid"),
    accent: value("--accent"),
    accentSoft: value("--accent-soft"),
    warn: value("--warn"),
    bad: value("--bad"),
    neutral: value("--neutral"),
    rest: value("--rest"),
    series: Array.from({ length: COLOURS }, (_, at) => value(`--series-${at + 1}`)),
    font: value("--font"),
  };
}

export function strokeColour(stroke: Stroke, palette: Palette): string {
  return stroke.colour ?? (stroke.series ? palette.series[stroke.series - 1]! : palette.neutral);
}
