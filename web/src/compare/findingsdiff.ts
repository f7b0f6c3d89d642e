/** Findings of two sides by rule. */
import type { RunFinding, RunFindings, Severity } from "../server/api";

export interface Found {
  run: string;
  /** The severest of the rule in that run. */
  finding: RunFinding;
}

export interface RuleRow {
  rule: string;
  title: string;
  severity: Severity;
  a: Found[];
  b: Found[];
}

const ORDER: Severity[] = ["high", "medium", "low", "info"];

/** A row for each rule that found anything, those of one side only and the severest first. */
export function byRule(a: readonly RunFindings[], b: readonly RunFindings[]): RuleRow[] {
  const rows = new Map<string, RuleRow>();
  for (const [side, answers] of [
    ["a", a],
    ["b", b],
  ] as const) {
    for (const { run, findings } of answers) {
      for (const finding of findings) {
        const row = rows.get(finding.rule) ?? {
          rule: finding.rule,
          title: finding.title,
          severity: finding.severity,
          a: [],
          b: [],
        };
        if (ORDER.indexOf(finding.severity) < ORDER.indexOf(row.severity)) row.severity = finding.severity;
        if (!row[side].some((found) => found.run === run)) row[side].push({ run, finding });
        rows.set(finding.rule, row);
      }
    }
  }
  const shared = (row: RuleRow): number => Number(row.a.length > 0 && row.b.length > 0);
  return [...rows.values()].sort(
    (p, q) =>
      shared(p) - shared(q) ||
      ORDER.indexOf(p.severity) - ORDER.indexOf(q.severity) ||
      p.title.localeCompare(q.title),
  );
}
