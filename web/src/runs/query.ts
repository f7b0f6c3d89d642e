/** The run query: words match names, `key:value` and `key>number` match what is recorded, `-` negates.
 *
 * ```
 * gpt lr>1e-4 loss<0.5 loss.min<0.4 state:running -tag:debug run:"exact name","another" optimizer:adam*
 * ```
 */
import type { RunSummary } from "../server/api";
import { flatten } from "./config";

type Test = (run: RunSummary) => boolean;

/** The values of a metric by run; null: not known yet, so that no run is left out for them. */
export type MetricOf = (name: string) => ReadonlyMap<string, number> | null;
const NO_METRIC: MetricOf = () => new Map();

export interface RunQuery {
  matches: Test;
  /** Settings and metrics that are asked for, so that the page can say when no run has one. */
  keys: string[];
  /** Whether it asks for archived runs, or for one run by its whole name; otherwise those are left out. */
  archived: boolean;
}

const QUOTED = String.raw`"(?:[^"\\]|\\.)*"?`;
const CHOICE = new RegExp(`${QUOTED}|[^",]+`, "g");
const TOKEN = new RegExp(
  String.raw`(-?)(?:([\w./\-[\]]+?)(:|>=|<=|!=|=|>|<))?((?:${QUOTED}|[^\s",]+|,)(?:,(?:${QUOTED}|[^\s",]*))*)`,
  "g",
);
const BY_NAME = /^(archived|run|name)$/i;
const FACTS: Record<string, (run: RunSummary) => unknown> = {
  run: (run) => run.name,
  name: (run) => (run.title === null ? run.name : [run.name, run.title]),
  state: (run) => run.state,
  split: (run) => run.split,
  tag: (run) => run.labels,
  label: (run) => run.labels,
  metric: (run) => run.tags,
  host: (run) => run.host,
  step: (run) => run.step,
  points: (run) => run.points,
  attempts: (run) => run.attempts,
  writers: (run) => run.writers,
  dropped: (run) => run.dropped,
  archived: (run) => run.archived,
  note: (run) => run.note,
};

/** Reads a query; every text is one, a half-typed one included. */
export function parseQuery(text: string, metric: MetricOf = NO_METRIC): RunQuery {
  const tests: Test[] = [];
  const keys: string[] = [];
  let archived = false;
  for (const [, minus, key, operator, words] of text.matchAll(TOKEN)) {
    const quoted = words!.replace(/(?<=[^,]),+$/, ""); // a comma ends a condition as a blank does
    const named = key !== undefined && !(key.toLowerCase() in FACTS);
    const values = named ? metric(key) : null;
    const test = key && operator ? keyTest(key, operator, quoted, values) : wordTest(unquote(quoted));
    if (named) keys.push(key);
    archived ||= key !== undefined && !minus && BY_NAME.test(key);
    const wanted: Test = minus ? (run) => !test(run) : test;
    const isOpen: Test = (run) => named && values === null && configValue(run, key) === undefined;
    tests.push((run) => isOpen(run) || wanted(run));
  }
  return { matches: (run) => tests.every((test) => test(run)), keys, archived };
}

function wordTest(word: string): Test {
  const wanted = word.toLowerCase();
  return (run) =>
    run.name.toLowerCase().includes(wanted) || (run.title?.toLowerCase().includes(wanted) ?? false);
}

function keyTest(
  key: string,
  operator: string,
  text: string,
  values: ReadonlyMap<string, number> | null,
): Test {
  const recorded = (run: RunSummary): unknown => {
    const value = configValue(run, key);
    return value === undefined ? values?.get(run.name) : value;
  };
  const read = FACTS[key.toLowerCase()] ?? recorded;
  const choices = (text.match(CHOICE) ?? []).map((choice) =>
    choice.startsWith('"') ? exactly(unquote(choice)) : pattern(choice),
  );
  if (operator === ":" || operator === "=")
    return (run) => choices.some((choice) => equal(read(run), choice));
  if (operator === "!=") return (run) => !choices.some((choice) => equal(read(run), choice));
  const bound = Number(text);
  return (run) => compare(read(run), operator, bound);
}

/** A config value by its dotted key, or by the last part of it where that is enough. */
export function configValue(run: RunSummary, key: string): unknown {
  const flat = flatten(run.config);
  if (key in flat) return flat[key];
  const ending = `.${key}`;
  const found = Object.keys(flat).find((name) => name.endsWith(ending));
  return found === undefined ? undefined : flat[found];
}

type Wanted = (value: string | number) => boolean;

function equal(value: unknown, wanted: Wanted): boolean {
  if (Array.isArray(value)) return value.some((one) => equal(one, wanted));
  if (value === undefined) return false;
  if (value === null) return wanted("none");
  return wanted(typeof value === "number" ? value : String(value));
}

/** What was quoted means itself. */
function exactly(text: string): Wanted {
  return (value) => String(value) === text;
}

/** A number, or a text without regard to case in which `*` stands for anything. */
function pattern(text: string): Wanted {
  const parts = text.toLowerCase().split("*");
  return (value) => (typeof value === "number" && Number(text) === value) || consistsOf(String(value), parts);
}

/** Whether a text is its parts in their order, with anything between them. */
function consistsOf(text: string, parts: readonly string[]): boolean {
  const whole = text.toLowerCase();
  const [first, last] = [parts[0]!, parts.at(-1)!];
  if (parts.length === 1) return whole === first;
  if (!whole.startsWith(first) || !whole.endsWith(last)) return false;
  let at = first.length;
  for (const part of parts.slice(1, -1)) {
    const found = whole.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return at <= whole.length - last.length;
}

function compare(value: unknown, operator: string, bound: number): boolean {
  const number =
    typeof value === "number" ? value : typeof value === "string" && value !== "" ? Number(value) : NaN;
  if (operator === ">") return number > bound;
  if (operator === ">=") return number >= bound;
  if (operator === "<") return number < bound;
  return number <= bound;
}

function unquote(text: string): string {
  if (!text.startsWith('"')) return text;
  return text.replace(/^"|"$/g, "").replace(/\\(.)/g, "$1");
}

/** The query that matches exactly one run. */
export function runQuery(name: string): string {
  const plain = /^[^\s",*]+$/.test(name);
  return `run:${plain ? name : `"${name.replace(/["\\]/g, "\\$&")}"`}`;
}
