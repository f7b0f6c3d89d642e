/** What is known of the log directory: runs, families of runs, charts. Filled from the answers of `changes`. */
import { isOwn } from "../series/own";
import type { Changes, Chart, LogSummary, Progress, RunSummary, Split, State } from "../server/api";

/** A run with its `eval`, `train` or `test` sub-runs: one row of the rail and one colour. */
export interface Family {
  name: string;
  /** The run whose state and config speak for the family. */
  main: RunSummary;
  runs: RunSummary[];
}

/** One line to be drawn: a tag of a run, and what it stands for in its chart. */
export interface LineOf {
  run: string;
  tag: string;
  family: string;
  split: Split | null;
  /** Whether `tag` is an expression. */
  expression?: boolean;
}

export interface Catalog {
  runs: ReadonlyMap<string, RunSummary>;
  families: readonly Family[];
  charts: readonly Chart[];
  log: LogSummary | null;
  loading: Progress | null;
}

export const EMPTY: Catalog = { runs: new Map(), families: [], charts: [], log: null, loading: null };

/** Applies one answer; the given catalog stays as it is. */
export function applyChanges(catalog: Catalog, changes: Changes): Catalog {
  const touched = changes.reset || changes.runs.length > 0 || changes.removed.length > 0;
  let { runs, families } = catalog;
  if (touched) {
    const next = new Map(changes.reset ? [] : runs);
    for (const name of changes.removed) next.delete(name);
    for (const run of changes.runs) next.set(run.name, { ...run, tags: sharedTags(run.tags) });
    runs = next;
    families = familiesOf(next.values());
  }
  const charts = changes.charts ?? (changes.reset ? [] : catalog.charts);
  return { runs, families, charts, log: changes.log, loading: changes.loading };
}

/** Runs of one program have the same tags: they are held once, whatever number of runs. */
const tagLists = new Map<string, string[]>();

function sharedTags(tags: string[]): string[] {
  const key = tags.join("\n");
  const known = tagLists.get(key);
  if (known) return known;
  if (tagLists.size >= MOST_TAG_LISTS) tagLists.clear();
  tagLists.set(key, tags);
  return tags;
}

const MOST_TAG_LISTS = 200;
const collator = new Intl.Collator("en", { numeric: true });

/** Names in the order people expect: run2 before run10. */
export const byName = (a: string, b: string): number => collator.compare(a, b);

function familiesOf(runs: Iterable<RunSummary>): Family[] {
  const grouped = new Map<string, RunSummary[]>();
  for (const run of runs) {
    const members = grouped.get(run.base);
    if (members) members.push(run);
    else grouped.set(run.base, [run]);
  }
  const families = [...grouped].map(([name, members]) => familyOf(name, members));
  return families.sort((a, b) => byName(a.name, b.name));
}

const SPLIT_ORDER: (Split | null)[] = [null, "train", "eval", "test"];

function familyOf(name: string, members: RunSummary[]): Family {
  const runs = members.sort(
    (a, b) =>
      Number(b.name === name) - Number(a.name === name) ||
      SPLIT_ORDER.indexOf(a.split) - SPLIT_ORDER.indexOf(b.split) ||
      byName(a.name, b.name),
  );
  return { name, main: runs.length === 1 ? runs[0]! : merged(name, runs), runs };
}

/** The main run, with the counts and times of the whole family. */
function merged(name: string, runs: RunSummary[]): RunSummary {
  const main = runs[0]!;
  return {
    ...main,
    name,
    state: stateOf(runs.map((run) => run.state)),
    step: largest(runs.map((run) => run.step)),
    started: smallest(runs.map((run) => run.started)),
    updated: largest(runs.map((run) => run.updated)),
    points: runs.reduce((sum, run) => sum + run.points, 0),
    tags: [...new Set(runs.flatMap((run) => run.tags))],
    problems: runs.flatMap((run) => run.problems),
    total_steps: main.total_steps ?? largest(runs.map((run) => run.total_steps)),
    config: runs.find((run) => Object.keys(run.config).length > 0)?.config ?? {},
  };
}

const URGENCY: State[] = ["running", "failed", "stalled", "stopped", "finished", "ended"];

/** The most telling of several states: a family runs while any of its runs does. */
export function stateOf(states: State[]): State {
  return URGENCY.find((state) => states.includes(state)) ?? "ended";
}

function largest(values: (number | null)[]): number | null {
  const known = values.filter((value): value is number => value !== null);
  return known.length ? Math.max(...known) : null;
}

function smallest(values: (number | null)[]): number | null {
  const known = values.filter((value): value is number => value !== null);
  return known.length ? Math.min(...known) : null;
}

const tagSets = new WeakMap<readonly string[], Set<string>>();

export function hasTag(run: RunSummary, tag: string): boolean {
  let tags = tagSets.get(run.tags);
  if (!tags) tagSets.set(run.tags, (tags = new Set(run.tags)));
  return tags.has(tag);
}

/** Whether any run of the families has a tag of the chart. */
export function recordedBy(chart: Chart, families: readonly Family[]): boolean {
  if (isOwn(chart) && chart.lines.some((line) => line.expression)) return families.length > 0;
  return families.some((family) =>
    family.runs.some((run) => chart.lines.some((line) => hasTag(run, line.tag))),
  );
}

/** The lines of a chart for some families, families in the given order; an expression has one for each.
 *
 * @param most: Lines at most, of whole families only.
 */
export function linesOf(chart: Chart, families: readonly Family[], most = Infinity): LineOf[] {
  const lines: LineOf[] = [];
  const own = isOwn(chart) ? chart.lines.filter((line) => line.expression) : [];
  for (const family of families) {
    const before = lines.length;
    for (const { tag } of own)
      lines.push({ run: family.runs[0]!.name, tag, family: family.name, split: null, expression: true });
    for (const run of family.runs) {
      for (const line of chart.lines) {
        if (!hasTag(run, line.tag)) continue;
        lines.push({ run: run.name, tag: line.tag, family: family.name, split: line.split ?? run.split });
      }
    }
    if (lines.length > most && before > 0) return lines.slice(0, before);
  }
  return lines;
}
