/** Charts that a user makes: tags and expressions on one pair of axes, kept as texts in the address.
 *
 * ```
 * loss - eval/loss                       an expression
 * train/loss; eval/loss; ema(loss, 20)   several lines
 * Gap = loss - eval/loss                 a title of its own
 * ~grad_norm/layer\d+                    every tag that a regex matches
 * ```
 */
import { AS_RECORDED, type Measure } from "../format/number";
import { compileRegex, reasonOf } from "../regex/regex.svelte";
import type { Chart, ChartLine, MetricKind } from "../server/api";

export interface OwnLine extends ChartLine {
  /** Whether `tag` is an expression over tags. */
  expression?: boolean;
}

export interface OwnChart extends Chart {
  lines: OwnLine[];
  /** What each tag is; an expression is none of them. */
  kinds: ReadonlyMap<string, MetricKind>;
  /** What is drawn against an axis of its own, on the right; null: all share one. */
  right: SecondAxis | null;
  /** The text that it is made of. */
  own: string;
  /** Why its regex is none. */
  error: string | null;
}

/** Tags whose values are of another unit, or without one of another kind, than the first. */
export interface SecondAxis {
  tags: ReadonlySet<string>;
  unit: string | null;
  measure: Measure;
  kind: MetricKind;
}

export const OWN = "own:";

export function isOwn(chart: Chart): chart is OwnChart {
  return "own" in chart;
}

/** A text cut at a sign that does not stand in quotes; a quote that does not end lasts to the end. */
export function splitOutside(text: string, sign: string): string[] {
  const parts = [""];
  let quoted = false;
  for (let at = 0; at < text.length; at += 1) {
    const letter = text[at]!;
    if (quoted && letter === "\\") {
      parts[parts.length - 1] += letter + (text[++at] ?? "");
      continue;
    }
    if (letter === '"') quoted = !quoted;
    if (letter === sign && !quoted) parts.push("");
    else parts[parts.length - 1] += letter;
  }
  return parts;
}

const PLAIN = /^[^\W\d][\w]*(?:[./:@]\w+)*$/;
const AXES = ["step", "elapsed"];

/** A tag as it is written in an expression. */
export function quoteTag(tag: string): string {
  return PLAIN.test(tag) && !AXES.includes(tag) ? tag : `"${tag.replace(/["\\]/g, "\\$&")}"`;
}

/** The tag that a text names and nothing more; null: an expression. */
function tagOf(text: string): string | null {
  if (PLAIN.test(text) && !AXES.includes(text)) return text;
  const quoted = /^"((?:[^"\\]|\\.)*)"$/.exec(text);
  return quoted ? quoted[1]!.replace(/\\(.)/g, "$1") : null;
}

export interface OwnParts {
  title: string | null;
  pattern: string | null;
  /** Expressions, in order; none for a regex. */
  texts: string[];
}

export function readOwn(text: string): OwnParts {
  const trimmed = text.trim();
  if (trimmed.startsWith("~")) return { title: null, pattern: trimmed.slice(1), texts: [] };
  // A title stands before the first "=" that is no part of <=, >=, == and !=.
  const titled = /^([^=<>!"]*)=(?!=)([^]*)$/.exec(trimmed);
  const body = titled ? titled[2]! : trimmed;
  const title = titled?.[1]!.trim() || null;
  if (body.trim().startsWith("~")) return { title, pattern: body.trim().slice(1), texts: [] };
  const texts = splitOutside(body, ";")
    .map((part) => part.trim())
    .filter(Boolean);
  return { title, pattern: null, texts };
}

/** The chart of a text.
 *
 * @param charts: All others: they say which tags there are, and in which unit.
 */
export function ownChart(text: string, charts: readonly Chart[]): OwnChart {
  const { title, pattern, texts } = readOwn(text);
  const known = new Map(
    charts.flatMap((chart) => chart.lines.map((line) => [line.tag, { chart, line }] as const)),
  );
  let error: string | null = null;
  let lines: OwnLine[];
  if (pattern !== null) {
    const found = matching(pattern, [...known.keys()]);
    error = found.error;
    lines = found.tags.map((tag) => known.get(tag)!.line);
  } else {
    lines = texts.map((one) => {
      const tag = tagOf(one);
      return tag !== null && known.has(tag)
        ? known.get(tag)!.line
        : { tag: one, split: null, expression: true };
    });
  }
  const named = lines.filter((line) => !line.expression && known.has(line.tag));
  const right = secondAxis(named.map(({ tag }) => ({ tag, chart: known.get(tag)!.chart })));
  const left = lines.filter(({ tag }) => !right?.tags.has(tag));
  const { unit, measure } = shared(
    left.map((line) => (line.expression ? undefined : known.get(line.tag)?.chart)),
  );
  const like = oneKind(left.map((line) => (line.expression ? undefined : known.get(line.tag)?.chart)));
  const shown = title ?? (pattern !== null ? `~${pattern}` : texts.join("; "));
  return {
    id: OWN + text,
    title: shown || "Custom chart",
    short: shown || "Custom chart",
    section: "Custom charts",
    unit,
    measure,
    kind: like?.kind ?? "other",
    lower_is_better: like?.lower_is_better ?? null,
    split: null,
    role: null,
    tier: "recorded",
    place: charts.length,
    section_place: 0,
    own_cost: false,
    lines,
    kinds: new Map(named.map(({ tag }) => [tag, known.get(tag)!.chart.kind])),
    right,
    own: text,
    error,
  };
}

/** The tags that need a second axis: those of the other one of two units, or kinds; more than two share one axis. */
function secondAxis(tags: readonly { tag: string; chart: Chart }[]): SecondAxis | null {
  const measured = ({ unit, kind }: Chart): string => (unit === null ? `kind ${kind}` : `unit ${unit}`);
  const groups = new Map<string, { tag: string; chart: Chart }[]>();
  for (const each of tags) {
    const key = measured(each.chart);
    groups.set(key, [...(groups.get(key) ?? []), each]);
  }
  const other = [...groups.values()][1];
  if (!other || groups.size > 2) return null;
  const kind = oneKind(other.map(({ chart }) => chart))?.kind ?? "other";
  return { tags: new Set(other.map(({ tag }) => tag)), ...shared(other.map(({ chart }) => chart)), kind };
}

/** The unit that charts share, if they share one, and the largest in which one of them is shown. */
function shared(charts: readonly (Chart | undefined)[]): Pick<Chart, "unit" | "measure"> {
  const unit = charts[0]?.unit ?? null;
  if (unit === null || charts.some((chart) => chart?.unit !== unit))
    return { unit: null, measure: AS_RECORDED };
  return {
    unit,
    measure: charts.map((chart) => chart!.measure).reduce((a, b) => (b.factor < a.factor ? b : a)),
  };
}

/** A chart that stands for all where they are of one kind. */
function oneKind(charts: readonly (Chart | undefined)[]): Chart | undefined {
  return charts.every((chart) => chart && chart.kind === charts[0]?.kind) ? charts[0] : undefined;
}

function matching(pattern: string, tags: string[]): { tags: string[]; error: string | null } {
  try {
    const regex = compileRegex(pattern, { ignoreCase: true });
    return { tags: pattern ? tags.filter((tag) => regex.test(tag)) : [], error: null };
  } catch (error) {
    return { tags: [], error: reasonOf(error) };
  }
}

/** The text of a chart that holds the lines of several, each once. */
export function combined(charts: readonly Chart[]): string {
  const parts = charts.flatMap((chart) =>
    isOwn(chart) && !readOwn(chart.own).pattern
      ? readOwn(chart.own).texts
      : chart.lines.map((line) => quoteTag(line.tag)),
  );
  return [...new Set(parts)].join("; ");
}
