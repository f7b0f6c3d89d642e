/** Where on the page a finding can be seen: the chart of its series, around the steps that the rule looked at. */
import type { Chart, RunFinding } from "../server/api";
import { hasTag, type Family } from "../runs/catalog";
import type { Change } from "../view/view";

/** Steps that are shown before and after, at least. */
const MARGIN = 20;

/** What to change of the view to look at a finding; null where no chart has its series. */
export function linkOf(finding: RunFinding, family: Family, charts: readonly Chart[]): Change | null {
  if (finding.fact !== null) {
    const rank = finding.rank === null ? null : `rank ${finding.rank}`;
    const step = rank === null ? null : finding.since_step;
    return { page: "ranks", ranks: { fact: finding.fact, sort: "outlier", rank, step } };
  }
  const recorded = family.runs.some((run) => hasTag(run, finding.tag));
  const chart = recorded && charts.find((chart) => chart.lines.some((line) => line.tag === finding.tag));
  if (!chart) return null;
  return {
    page: "scalars",
    charts: { x: "step", filter: `^${escaped(finding.tag)}$`, zoom: windowOf(finding) },
  };
}

/** The steps of a finding, from where it began, with as many before and after. */
export function windowOf(finding: RunFinding): [number, number] {
  const begin = Math.min(finding.first_step, finding.since_step);
  const end = Math.max(finding.since_step, finding.closed_step ?? finding.step);
  const margin = Math.max(MARGIN, end - begin);
  return [Math.max(0, begin - margin), end + margin];
}

export function escaped(tag: string): string {
  return tag.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
