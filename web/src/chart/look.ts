/** How one chart, or all of a kind, are drawn otherwise than the page: texts in the address. */
import { rounded } from "../format/number";
import type { Chart, MetricKind } from "../server/api";
import type { Range } from "../series/limits";

/** What a chart or a kind may have of its own; what is left out is as on the page. */
export interface Look {
  smoothing?: number;
  logY?: boolean;
  outliers?: boolean;
}

/** What is looked at: a chart by its id, or a kind of metric. */
export type Target = { chart: string } | { kind: MetricKind };

const NAMES = { smoothing: "sm", logY: "log", outliers: "out" } as const;
const keyOf = (target: Target): string => ("kind" in target ? `kind:${target.kind}` : target.chart);

/** The look of a target itself; an empty one where nothing is said of it. */
export function lookOf(looks: readonly string[], target: Target): Look {
  const own = looks.find((text) => text.startsWith(`${keyOf(target)}\t`));
  const found: Look = {};
  for (const part of own?.split("\t").slice(1) ?? []) {
    const [name, value] = part.split("=");
    const number = Number(value);
    if (!Number.isFinite(number)) continue;
    if (name === NAMES.smoothing) found.smoothing = Math.min(0.999, Math.max(0, number));
    if (name === NAMES.logY) found.logY = number === 1;
    if (name === NAMES.outliers) found.outliers = number === 1;
  }
  return found;
}

/** The looks with another one for a target; an empty one is left out. */
export function withLook(looks: readonly string[], target: Target, look: Look): string[] {
  const key = keyOf(target);
  const parts = [
    ...(look.smoothing === undefined ? [] : [`${NAMES.smoothing}=${look.smoothing}`]),
    ...(look.logY === undefined ? [] : [`${NAMES.logY}=${Number(look.logY)}`]),
    ...(look.outliers === undefined ? [] : [`${NAMES.outliers}=${Number(look.outliers)}`]),
  ];
  const others = looks.filter((text) => !text.startsWith(`${key}\t`));
  return parts.length ? [...others, [key, ...parts].join("\t")] : others;
}

/** The settings of the page as they hold for a chart: its own before those of its kind before those of all. */
export function drawnAs<
  View extends { smoothing: number; logY: boolean | null; outliers: boolean; looks: readonly string[] },
>(view: View, { id, kind }: Pick<Chart, "id" | "kind">): View {
  if (!view.looks.length) return view;
  return { ...view, ...lookOf(view.looks, { kind }), ...lookOf(view.looks, { chart: id }) };
}

/** Whether a smoothing is set for a chart or its kind: then evaluations are smoothed too. */
export const asksSmoothing = (looks: readonly string[], { id, kind }: Pick<Chart, "id" | "kind">): boolean =>
  (lookOf(looks, { chart: id }).smoothing ?? lookOf(looks, { kind }).smoothing) !== undefined;

/** The y range that a chart was zoomed into; null: as its values want it. */
export function yZoomOf(zooms: readonly string[], chart: string): Range | null {
  const own = zooms.find((text) => text.startsWith(`${chart}\t`));
  const [min, max] = own?.split("\t").slice(-2).map(Number) ?? [];
  return min !== undefined && max !== undefined && Number.isFinite(min) && max > min ? { min, max } : null;
}

export function withYZoom(zooms: readonly string[], chart: string, range: Range | null): string[] {
  const others = zooms.filter((text) => !text.startsWith(`${chart}\t`));
  return range ? [...others, `${chart}\t${rounded(range.min, 6)}\t${rounded(range.max, 6)}`] : others;
}
