/** Fetched lines with their looks: colour by run, marks by split, faint where there are too many. */
import type { DecodedChart } from "../server/wire";
import { byName } from "../runs/catalog";
import { SLOTS, slotStroke, type Stroke } from "../theme/colour";
import { drawLines, type DrawLine } from "../series/shape";
import { strokeColour, type Palette } from "../theme/palette";
import type { StyledLine } from "./model";

/** Dots at points that are at least so many pixels apart. */
const DOT_SPACE = 9;
const SOLID: readonly number[] = [];
/** Evaluations: colour tells runs apart, the dash what of a run it is. */
export const EVAL_DASH: readonly number[] = [4, 3];
const TEST_DASH: readonly number[] = [1.5, 2];
/** The tags of one chart among many runs. */
const TAG_DASHES: readonly (readonly number[])[] = [
  SOLID,
  TEST_DASH,
  [6, 3],
  [5, 2, 1.5, 2],
  [9, 3, 1.5, 3],
  [3, 3],
  [12, 4],
];

export interface Looks {
  familyOf: (run: string) => string;
  titleOf: (family: string) => string;
  strokeOf: (family: string) => Stroke;
  palette: Palette;
  /** Runs that are drawn thicker. */
  strong: ReadonlySet<string>;
  /** Whether one run is shown: then its splits get a colour each. */
  single: boolean;
  /** Width of the plot in pixels. */
  width: number;
  /** Whether the chart holds tags of the user's choice: then each is told from the others, whatever its split. */
  byTag: boolean;
  /** What is drawn around means; null: no line is one. */
  band: string | null;
}

const shapes = new WeakMap<DecodedChart, DrawLine[]>();

function shapesOf(chart: DecodedChart): DrawLine[] {
  let lines = shapes.get(chart);
  if (!lines) shapes.set(chart, (lines = drawLines(chart)));
  return lines;
}

/** The lines of an answer as they are drawn, those in front last. */
export function styledLines(chart: DecodedChart, looks: Looks): StyledLine[] {
  const lines = shapesOf(chart);
  const splits = new Set(lines.map((line) => line.split));
  const tags = [...new Set(lines.map((line) => `${line.split ?? ""}\n${line.tag}`))];
  const writers = new Map<string, Set<string>>();
  for (const line of lines) {
    const key = `${line.run}\n${line.tag}`;
    writers.set(key, (writers.get(key) ?? new Set()).add(line.writer));
  }
  const ranks = [...new Set(lines.map((line) => line.writer))].sort(byName);
  const strokeOf = (line: DrawLine, family: string): Stroke => {
    if (looks.byTag && tags.length > 1 && (looks.single || line.group === ""))
      return slotStroke(tagPlace(line, tags));
    if (!looks.single) return looks.strokeOf(family);
    if (tags.length === 1 && ranks.length > 1)
      return slotStroke(ranks.indexOf(line.writer) < SLOTS ? ranks.indexOf(line.writer) : undefined);
    return looks.strokeOf(family);
  };
  return lines.map((line) => {
    const own = looks.familyOf(line.run);
    const family = line.group === null ? own : `group ${line.group}`;
    const stroke = strokeOf(line, own);
    const severalWriters = (writers.get(`${line.run}\n${line.tag}`)?.size ?? 1) > 1;
    return {
      ...line,
      family,
      label: labelOf(
        line,
        looks.single && line.group === null ? "" : (line.group ?? looks.titleOf(family)),
        splits.size > 1 && !looks.byTag,
        severalWriters,
        looks.byTag && tags.length > 1,
      ),
      // Of one run, the evaluation is drawn in ink: the dash alone is not seen where lines lie on each other.
      colour:
        looks.single && !looks.byTag && splits.size > 1 && evaluated(line)
          ? looks.palette.fg
          : isRest(stroke)
            ? looks.palette.rest
            : strokeColour(stroke, looks.palette),
      dash:
        looks.byTag && !looks.single && tags.length > 1
          ? TAG_DASHES[tagPlace(line, tags) % TAG_DASHES.length]!
          : splits.size > 1 && !looks.byTag
            ? dashOf(line)
            : SOLID,
      band: line.group === null ? null : looks.band,
      strong: !looks.single && looks.strong.has(family),
      faint: isRest(stroke),
      dots:
        line.x.length <= 2 || (looks.single && evaluated(line) && line.x.length * DOT_SPACE <= looks.width),
    };
  });
}

/** Whether a run is one of the many that have no colour of their own. */
function isRest({ series, colour }: Stroke): boolean {
  return series === 0 && colour === undefined;
}

function evaluated({ split }: DrawLine): boolean {
  return split === "eval" || split === "test";
}

function dashOf({ split }: DrawLine): readonly number[] {
  return split === "eval" ? EVAL_DASH : split === "test" ? TEST_DASH : SOLID;
}

function tagPlace(line: DrawLine, tags: string[]): number {
  return tags.indexOf(`${line.split ?? ""}\n${line.tag}`);
}

function labelOf(line: DrawLine, family: string, splits: boolean, writers: boolean, tags: boolean): string {
  const parts = family ? [family] : [];
  if (tags) parts.push(line.tag);
  if (line.group !== null) parts.push(`n${"\u00a0"}${line.members}`);
  if (splits) parts.push(line.split ?? "train");
  if (writers) parts.push(line.writer);
  if (line.attempt > 1) parts.push(`attempt ${line.attempt}`);
  return parts.join(" · ");
}
