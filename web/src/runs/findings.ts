/** What the page says of a run's findings: one row for each rule, however many layers or ranks it concerns. */
import type { RunFinding, RunFindings, Severity } from "../server/api";
import { told } from "../server/client";
import { GAP, count, fixed } from "../format/number";

export interface Row {
  first: RunFinding;
  /** Further findings of the same rule. */
  others: number;
}

const TONES: Record<Severity, string> = { high: "bad", medium: "warn", low: "", info: "" };

export const fetchFindings = (run: string): Promise<RunFindings> => told("findings", { run });

/** One row for each rule, in the order of its severest finding. */
export function rowsOf(found: RunFindings): Row[] {
  const rows = new Map<string, Row>();
  for (const finding of found.findings) {
    const row = rows.get(finding.rule);
    if (row) row.others += 1;
    else rows.set(finding.rule, { first: finding, others: found.more[finding.rule] ?? 0 });
  }
  return [...rows.values()];
}

export function toneOf(severity: Severity): string {
  return TONES[severity];
}

/** With a capital letter at its beginning, unless that is a name such as `train/loss`, and percent as the page writes it. */
export function sentence(text: string): string {
  return spaced(text.replace(/^\p{Ll}(?=[\p{L}'’-]*[,;.:)]*(?:\s|$))/u, (letter) => letter.toUpperCase()));
}

/** Percent as the page writes it. */
export const spaced = (text: string): string => text.replace(/(\d)%/g, `$1${GAP}%`);

/** With a small letter at its beginning, unless it begins with an acronym. */
export function lowered(text: string): string {
  return /^.[A-Z/]/.test(text) ? text : text.charAt(0).toLowerCase() + text.slice(1);
}

/** What was found, without the steps at which it was where {@link whenOf} stands beside it. */
export function summaryOf({ summary, since_step, closed_step }: RunFinding): string {
  const when =
    closed_step === null
      ? `(?:since|at) step (?:${since_step}|${fixed(since_step, 0)})`
      : `from step ${fixed(since_step, 0)} to ${fixed(closed_step, 0)}`;
  // Step 60 is not in "since step 600", nor step 6 in "since step 6,000".
  return spaced(summary.replace(new RegExp(`(^| )${when}(?![,.]?\\d)`, "i"), "").trim());
}

/** `Step 2,500`, or since when it was there and when it was seen to be over: that takes some good values. */
export function whenOf(finding: RunFinding): string {
  const step = count(finding.since_step);
  return finding.closed_step === null
    ? `Since step ${step}`
    : finding.closed_step === finding.since_step
      ? `Step ${step}`
      : `From step ${step}, over by ${count(finding.closed_step)}`;
}

/** Series, layer and rank that show it, and how many more there are. */
export function placeOf({ first, others }: Row): string {
  const rank = first.rank === null ? "" : `, rank ${first.rank}`;
  const part = first.part ? `${first.part}: ` : "";
  return `${part}${first.tag}${rank}${others ? `, and ${count(others)} more` : ""}`;
}

const LAYERS = 4;

/** Where it began, in which further layers it was found, and the batches of its steps: a sentence each. */
export function detailsOf({ also, causes, batches }: RunFinding): string[] {
  const more = also.length > LAYERS ? `, and ${count(also.length - LAYERS)} more` : "";
  const layers = also.length ? [`Also in ${also.slice(0, LAYERS).join(", ")}${more}`] : [];
  return [...layers, ...causes.map(sentence), ...batches.map(sentence)];
}

/** `9 checks pass, 18 lacked data`. */
export function countsOf(found: RunFindings): string {
  const passed = found.passed.length;
  return `${count(passed)} ${passed === 1 ? "check passes" : "checks pass"}, ${count(found.abstained.length)} lacked data`;
}
