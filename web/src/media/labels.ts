/** Embeddings: questions, colours by a column of their labels, and what is found in these. */
import type { EmbeddingHeader, EmbeddingList, Metric, NeighbourList, Reduction } from "../server/api";
import { addressOf, ask, question, told } from "../server/client";
import { columnOf, openFrame } from "../server/wire";

export interface Points extends Omit<EmbeddingHeader, "places"> {
  /** x, y, z of each. */
  places: Float32Array;
}

export const fetchEmbeddings = (run: string): Promise<EmbeddingList> => told("embeddings", { run });

export async function fetchPoints(
  run: string,
  name: string,
  method: Reduction,
  axes: 2 | 3,
): Promise<Points> {
  const asked = question("embedding", { run, name, method, axes });
  const frame = await (await ask(asked, {}, 120_000)).arrayBuffer();
  const { header, start } = openFrame<EmbeddingHeader>(frame);
  return { ...header, places: columnOf(frame, start, header.places) as Float32Array };
}

export const fetchNeighbours = (
  run: string,
  name: string,
  point: number,
  metric: Metric,
  count: number,
): Promise<NeighbourList> => told("neighbours", { run, name, point, metric, count });

export const spriteAddress = (run: string, name: string): string =>
  addressOf(question("sprite", { run, name }));

/** Tag and step of an embedding that was recorded by step, as `hidden:00000020`. */
export function tagAndStep(name: string): { tag: string; step: number | null } {
  const found = /^(.*):(\d{5,})$/s.exec(name);
  return found ? { tag: found[1]!, step: Number(found[2]) } : { tag: name, step: null };
}

export interface Colouring {
  /** A scale from `low` to `high`; else groups. */
  range: [number, number] | null;
  /** The largest groups, which have a colour and a shape of their own. */
  groups: { value: string; count: number }[];
  /** Points in other groups, which are grey. */
  others: number;
  /** Group of each point, -1: another; on a scale 0 to 255, -1: no number. */
  of: Int32Array;
}

/** Eight colours as discs, then as squares. */
export const MOST_GROUPS = 16;
/** A column of so many different numbers is a scale, not groups. */
const FEW = 12;

/** How points are coloured by one column of their labels. */
export function colouring(values: readonly string[]): Colouring {
  const counts = new Map<string, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  const numbers = values.map((value) => (value.trim() === "" ? NaN : Number(value)));
  const finite = numbers.filter(Number.isFinite);
  if (counts.size > FEW && finite.length >= 0.9 * values.length) {
    const [low, high] = [finite.reduce((a, b) => Math.min(a, b)), finite.reduce((a, b) => Math.max(a, b))];
    const of = Int32Array.from(numbers, (value) =>
      Number.isFinite(value) ? Math.round((255 * (value - low)) / (high - low || 1)) : -1,
    );
    return { range: [low, high], groups: [], others: values.length - finite.length, of };
  }
  const largest = [...counts]
    .sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0], undefined, { numeric: true }))
    .slice(0, MOST_GROUPS);
  // In the order of their names: the same classes have the same colours at every step.
  const groups = largest
    .map(([value, count]) => ({ value, count }))
    .sort((a, b) => a.value.localeCompare(b.value, undefined, { numeric: true }));
  const place = new Map(groups.map(({ value }, at) => [value, at]));
  const of = Int32Array.from(values, (value) => place.get(value) ?? -1);
  return { range: null, groups, others: of.reduce((sum, at) => sum + (at < 0 ? 1 : 0), 0), of };
}

/** Points whose labels hold a text, in their order. */
export function found(labels: readonly (readonly string[])[], text: string): number[] {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return [];
  const hits: number[] = [];
  labels.forEach((row, point) => row.some((cell) => cell.toLowerCase().includes(wanted)) && hits.push(point));
  return hits;
}

/** What a point is called: its label, or its number. */
export function pointName(points: Pick<Points, "labels">, point: number, column = 0): string {
  const label = points.labels[point]?.[column]?.trim();
  return label ? label : `point ${point}`;
}
