/** What plots of runs say of one: its value on an axis as people read it, its colour. */
import type { Dimension } from "./dimensions";
import { counted, NOTHING, shownIn } from "../format/number";
import { configText } from "../runs/config";
import { clock, duration } from "../format/time";
import { strokeColour } from "../theme/palette";
import { app } from "../state/app.svelte";

export function cellText({ field, measure, values }: Dimension, run: string): string {
  const value = values.get(run);
  if (value === undefined) return NOTHING;
  if (typeof value === "string") return value;
  if (field === "duration") return duration(value);
  if (field === "started") return clock(value, app.now);
  return field.startsWith("config:") ? configText(value) : shownIn(value, measure);
}

const MOST_NAMED = 24;

/** The colours of runs, for a file; of many the first. */
export function runsLegend(runs: Iterable<string>): { label: string; colour: string; dash: number[] }[] {
  const all = [...runs];
  const entries = all.slice(0, MOST_NAMED).map((name) => ({
    label: app.title(name),
    colour: strokeColour(app.strokeOf(name), app.palette),
    dash: [] as number[],
  }));
  return all.length > MOST_NAMED
    ? [
        ...entries,
        { label: counted(all.length - MOST_NAMED, "more run"), colour: app.palette.neutral, dash: [] },
      ]
    : entries;
}
