/** Runs as tables: what the leaderboard shows, and what plots are drawn from. */
import type { Chart } from "../server/api";
import type { Family } from "../runs/catalog";
import { flatten } from "../runs/config";
import type { Dimension } from "./dimensions";
import { elapsed } from "../runs/state";
import { csvOf, type Cell } from "../chart/export/csv";

const named = (label: string, unit: string | null): string => (unit ? `${label} [${unit}]` : label);

/** Every run with its value on each axis, as it is, not as it is written on the axis. */
export function axesCsv(
  runs: readonly string[],
  title: (run: string) => string,
  axes: readonly Dimension[],
): string[] {
  const head = ["run", "title", ...axes.map(({ label, unit }) => named(label, unit))];
  return [
    csvOf(
      head,
      runs.map((run) => [run, title(run), ...axes.map(({ values }) => values.get(run))]),
    ),
  ];
}

function configCell(value: unknown): Cell {
  if (value === undefined || value === null) return null;
  return typeof value === "number" || typeof value === "string" || typeof value === "boolean"
    ? value
    : JSON.stringify(value);
}

export interface Board {
  runs: readonly Family[];
  title: (run: string) => string;
  now: number;
  charts: readonly Chart[];
  readings: (chart: Chart) => ReadonlyMap<string, number>;
  config: readonly string[];
}

/** The leaderboard with all its rows, in its order. */
export function boardCsv({ runs, title, now, charts, readings, config }: Board): string[] {
  const facts = [
    "run",
    "title",
    "state",
    "reason",
    "step",
    "total_steps",
    "started",
    "duration_s",
    "steps_per_second",
  ];
  const metrics = charts.map((chart) => readings(chart));
  const rows = runs.map(({ name, main }) => {
    const flat = flatten(main.config);
    return [
      name,
      title(name),
      main.state,
      main.reason,
      main.step,
      main.total_steps,
      main.started,
      elapsed(main, now),
      main.steps_per_second,
      ...metrics.map((found) => found.get(name)),
      ...config.map((key) => configCell(flat[key])),
    ];
  });
  return [csvOf([...facts, ...charts.map((chart) => named(chart.title, chart.unit)), ...config], rows)];
}
