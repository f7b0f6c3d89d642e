/** The lines of both sides as a chart draws them. */
import type { StyledLine } from "../chart/model";
import type { SideName } from "../runs/sides";
import type { SideLine, Track } from "../runs/sidelines";

/** One side as a line. What the places of a single run hold is drawn; the range of several only widens the axis.
 *
 * @param side: As it is drawn, smoothed or not.
 * @param recorded: The same without smoothing.
 */
export function styledSide(
  side: SideLine,
  recorded: SideLine,
  track: Pick<Track, "chart" | "split">,
  { name, label, colour }: { name: SideName; label: string; colour: string },
): StyledLine {
  const several = side.runs > 1;
  return {
    id: name,
    run: name,
    tag: track.chart.title,
    split: track.split,
    writer: "",
    attempt: 1,
    x: side.x,
    y: side.mean,
    raw: recorded.mean,
    low: several ? side.low : (recorded.extremes?.low ?? null),
    high: several ? side.high : (recorded.extremes?.high ?? null),
    first: several ? null : (recorded.extremes?.first ?? null),
    smoothed: recorded !== side,
    end: side.x.length,
    nonfinite: side.nonfinite,
    points: side.x.length,
    bad: side.nonfinite.length,
    last: null,
    family: `side:${name}`,
    label,
    colour,
    dash: [],
    strong: true,
    faint: false,
    dots: false,
    band: null,
    group: null,
    members: 1,
    counts: null,
  };
}

/** Whether recorded values are drawn behind a smoothed line: of a single run, as everywhere else. */
export function ghosted(...sides: (SideLine | null)[]): boolean {
  return sides.some((side) => side?.runs === 1);
}
