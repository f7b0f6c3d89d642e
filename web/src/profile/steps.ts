/** Which steps of a profile count: `3`, `3-5`, `3-5,9`; the empty text is all of them. */
import { count, counted } from "../format/number";

/** Part of a profile outside of its steps from which they would open as hairlines. */
const BETWEEN = 0.5;
/** What is shown before and after the step with which a timeline opens, as part of it. */
const MARGIN = 0.05;

/** The window with which a timeline opens: its last step where most of the time lies between steps; null for all of it. */
export function openingOf(
  steps: readonly { number: number; start_ns: number; wall_ns: number }[],
  whole: readonly [number, number],
): [number, number] | null {
  const spans = new Map<number, [number, number]>();
  for (const { number, start_ns, wall_ns } of steps) {
    const [from, to] = spans.get(number) ?? [Infinity, -Infinity];
    spans.set(number, [Math.min(from, start_ns), Math.max(to, start_ns + wall_ns)]);
  }
  if (spans.size < 2) return null;
  const inside = [...spans.values()].reduce((sum, [from, to]) => sum + to - from, 0);
  if (inside >= (1 - BETWEEN) * (whole[1] - whole[0])) return null;
  const [from, to] = [...spans.values()].sort((a, b) => b[0] - a[0])[0]!;
  const margin = MARGIN * (to - from);
  return [Math.max(whole[0], from - margin), Math.min(whole[1], to + margin)];
}

/** The numbers of a list of steps, null where it is none. */
export function stepsOf(text: string, recorded: readonly number[]): number[] | null {
  if (text.trim() === "") return [...recorded];
  const found = new Set<number>();
  for (const part of text.replaceAll(" ", "").split(",")) {
    const match = /^(\d{1,15})(?:-(\d{1,15}))?$/.exec(part);
    if (!match) return null;
    const [first, last] = [Number(match[1]), Number(match[2] ?? match[1])];
    for (const step of recorded) if (step >= first && step <= last) found.add(step);
  }
  return found.size ? recorded.filter((step) => found.has(step)) : null;
}

/** The shortest text for some of the recorded steps; empty where they are all. */
export function stepsText(chosen: readonly number[], recorded: readonly number[]): string {
  if (chosen.length === recorded.length) return "";
  const wanted = new Set(chosen);
  const parts: string[] = [];
  let first: number | null = null;
  let last = 0;
  const close = (): void =>
    void (first !== null && parts.push(first === last ? `${first}` : `${first}-${last}`));
  for (const step of recorded) {
    if (wanted.has(step)) {
      first ??= step;
      last = step;
    } else {
      close();
      first = null;
    }
  }
  close();
  return parts.join(",");
}

/** What a choice is called. */
export function stepsName(text: string, recorded: readonly number[]): string {
  const chosen = stepsOf(text, recorded);
  if (recorded.length === 0) return "No steps marked";
  if (chosen === null) return `Steps ${text}, not recorded`;
  if (chosen.length === recorded.length)
    return recorded.length === 1 ? `Step ${count(recorded[0]!)}` : `All ${counted(recorded.length, "step")}`;
  return chosen.length === 1
    ? `Step ${count(chosen[0]!)}`
    : `Steps ${text.replaceAll("-", "–").replaceAll(",", ", ")}`;
}

/** The step before or after a single chosen one; from all, the first or the last. */
export function stepBeside(text: string, recorded: readonly number[], way: 1 | -1): string {
  const chosen = stepsOf(text, recorded);
  if (!recorded.length) return "";
  if (!chosen || chosen.length === recorded.length) return String(way > 0 ? recorded[0] : recorded.at(-1));
  const edge = way > 0 ? chosen.at(-1)! : chosen[0]!;
  const at = recorded.indexOf(edge) + (chosen.length === 1 ? way : 0);
  return String(recorded[Math.max(0, Math.min(recorded.length - 1, at))]);
}

/** How many steps were recorded: one that several ranks recorded is one. */
export function recordedSteps(steps: readonly { number: number; rank: number }[]): string {
  const numbers = new Set(steps.map((step) => step.number));
  const ranks = new Set(steps.map((step) => step.rank));
  return `${counted(numbers.size, "step")}${ranks.size > 1 ? ` of ${counted(ranks.size, "rank")}` : ""}`;
}

/** What stands for a step of a profile, with its rank where there are several. */
export function stepName(step: { number: number; rank: number }, ranks: readonly number[]): string {
  const name = step.number < 0 ? "Everything that was recorded" : `Step ${count(step.number)}`;
  return ranks.length > 1 ? `${name}, rank ${step.rank}` : name;
}
