/** What the palette finds beside commands and charts: runs by what they were configured with, steps, colours, groups, settings. */
import type { Family } from "../runs/catalog";
import { configText, flatten, type Difference } from "../runs/config";
import { count, fixed } from "../format/number";
import type { Change } from "../view/view";

export interface Found {
  group: string;
  label: string;
  change: Change;
}

/** At most so many config values are offered to choose runs by. */
const MOST_VALUES = 200;
/** So many steps lie on either side of a step that is looked for. */
const AROUND = 0.05;
const LEAST_AROUND = 10;

/** Runs by a config value: `lr=0.001` chooses all that have it. */
export function byConfig(differing: readonly Difference[]): Found[] {
  return differing
    .filter(({ key }) => /^[\w./\-[\]]+$/.test(key))
    .flatMap(({ key, values }) =>
      values.flatMap((value) => {
        const asked = wanted(value);
        if (asked === null) return [];
        const query = `${key}:${asked}`;
        return [
          { group: "Config", label: `Runs with ${key} = ${configText(value)}`, change: { runs: { query } } },
        ];
      }),
    )
    .slice(0, MOST_VALUES);
}

/** A value as a query asks for it; null: a list or an object, which no query names. */
function wanted(value: unknown): string | null {
  if (value === null) return "none";
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  if (typeof value !== "string") return null;
  return /^[\w.+-]+$/.test(value) ? value : `"${value.replace(/["\\]/g, "\\$&")}"`;
}

/** Colours and groups by every key that differs. */
export function byKey(differing: readonly Difference[]): Found[] {
  return differing.flatMap(({ key }) => [
    { group: "Colour", label: `Colour runs by ${key}`, change: { runs: { colourBy: key, groupBy: null } } },
    { group: "Group", label: `Group runs by ${key}`, change: { runs: { groupBy: key } } },
  ]);
}

/** Notes on steps: each leads to the charts around its step. */
export function byNote(families: readonly Family[], titleOf: (name: string) => string): Found[] {
  return families.flatMap(({ name, main }) =>
    main.step_notes.map(({ step, text }) => ({
      group: "Note",
      label: `${text} (${titleOf(name)}, step ${count(step)})`,
      change: {
        page: "scalars" as const,
        runs: { selected: name },
        charts: { x: "step" as const, zoom: around(step, main.step), full: null },
      },
    })),
  );
}

function around(step: number, last: number | null): [number, number] {
  const by = Math.max(LEAST_AROUND, Math.round((last ?? step) * AROUND));
  return [Math.max(0, step - by), step + by];
}

/** The step that a text names; null: it is something else. */
export function stepIn(text: string): number | null {
  const match = /^\s*(?:step\s+)?(\d{1,12})\s*$/i.exec(text.replaceAll(",", ""));
  return match ? Number(match[1]) : null;
}

/** The step that a text names, as "step 200" or "200": the charts around it, and what was recorded there. */
export function atStep(text: string, last: number | null): Found[] {
  const step = stepIn(text);
  if (step === null || (last !== null && step > last)) return [];
  const zoom = around(step, last);
  return [
    {
      group: "Step",
      label: `Charts around step ${count(step)}`,
      change: { page: "scalars", charts: { x: "step", zoom, full: null } },
    },
    {
      group: "Step",
      label: `Distributions at step ${count(step)}`,
      change: { page: "distributions", records: { step } },
    },
    { group: "Step", label: `Media at step ${count(step)}`, change: { page: "media", records: { step } } },
  ];
}

/** Settings of charts, as their controls say them. */
export const SETTINGS: readonly Found[] = [
  ...[0, 0.6, 0.9, 0.99].map((smoothing) => ({
    group: "Setting",
    label: `Smoothing ${fixed(smoothing, 2)}`,
    change: { charts: { smoothing } },
  })),
  ...(["step", "wall", "relative"] as const).map((x) => ({
    group: "Setting",
    label: `X axis: ${{ step: "step", wall: "wall time", relative: "elapsed time" }[x]}`,
    change: { charts: { x, zoom: null } },
  })),
  { group: "Setting", label: "Outliers left out", change: { charts: { outliers: false } } },
  { group: "Setting", label: "Outliers kept", change: { charts: { outliers: true } } },
  { group: "Setting", label: "Colour runs one by one", change: { runs: { colourBy: null, groupBy: null } } },
  ...[1, 2, 3, 4].map((perRow) => ({
    group: "Setting",
    label: `Cards per row: ${perRow}`,
    change: { charts: { perRow } },
  })),
  { group: "Setting", label: "Cards per row: to fit", change: { charts: { perRow: null } } },
  { group: "Setting", label: "Sections by two parts of the path", change: { charts: { deep: true } } },
];

/** The config of a run in one line, so that a run is found by it. */
export const configWords = ({ main }: Family): string =>
  Object.entries(flatten(main.config))
    .map(([key, value]) => `${key}=${configText(value)}`)
    .join(" ");
