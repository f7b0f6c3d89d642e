/** The one sentence that says what is wrong with a run: since when, how much, in which line; and where it is seen. */
import type { Capture, Chart, RunFinding, RunFindings } from "../server/api";
import type { Family } from "../runs/catalog";
import { lowered, summaryOf } from "../runs/findings";
import type { Change } from "../view/view";
import { count } from "../format/number";
import { glanceOf, lineOf, type Advice } from "./captures";
import type { Mark } from "../chart/model";
import { linkOf } from "./evidence";
import { nearestTo, TIMED, type Near } from "./near";
import { worstOpen } from "./verdict";

export interface Blame {
  finding: RunFinding;
  /** `Since step 300`. */
  since: string;
  /** What holds since then. */
  sentence: string;
  /** `file:line function` that is to blame, "" where it is not known. */
  line: string;
  /** The best evidence, and what its button says; null: there is none to look at. */
  look: { change: Change; name: string } | null;
  /** Open findings beside this one. */
  others: number;
  /** Whether stacks would tell the line, and none were recorded since it began. */
  lacking: boolean;
}

/** The severest open finding of a run as a sentence; null where there is none. */
export function blameOf(
  found: RunFindings | null,
  captures: readonly Capture[],
  family: Family,
  charts: readonly Chart[],
): Blame | null {
  const finding = worstOpen(found);
  if (!found || !finding || finding.severity === "info") return null;
  const timed = TIMED.has(finding.rule);
  const near = timed ? telling(captures, finding) : null;
  const advice = near ? adviceOn(finding, glanceOf(near.capture.summary)?.advice ?? []) : null;
  const link = linkOf(finding, family, charts);
  const line = (advice && lineOf(advice)) || finding.stack.at(-1) || "";
  const event = advice?.events[0] ?? null;
  const window = event && [event.start_ns - event.duration_ns, event.start_ns + 2 * event.duration_ns];
  const look = near
    ? {
        name: `Show step ${count(near.step)}`,
        change: {
          page: "profile",
          profile: {
            path: near.path,
            tab: "timeline",
            steps: "",
            event: event?.row ?? null,
            window: window ? [Math.max(0, window[0]!), window[1]!] : null,
            range: null,
            find: "",
          },
        } satisfies Change,
      }
    : link && { name: `Show step ${count(finding.since_step)}`, change: link };
  const rules = new Set(found.findings.filter((one) => one.closed_step === null).map((one) => one.rule));
  return {
    finding,
    since: `Since step ${count(finding.since_step)}`,
    sentence: lowered(summaryOf(finding)),
    line,
    look,
    others: rules.size - 1,
    lacking: timed && line === "" && !(near && hasStacks(near.capture)),
  };
}

/** The capture since it began that tells most: the line, else stacks; the nearest of several. */
function telling(captures: readonly Capture[], finding: RunFinding): Near | null {
  const lined = captures.filter((one) => adviceOn(finding, glanceOf(one.summary)?.advice ?? []) !== null);
  for (const those of [lined, captures.filter(hasStacks), captures]) {
    const near = nearestTo(those, finding, finding.since_step);
    if (near) return near;
  }
  return null;
}

const hasStacks = ({ summary }: Capture): boolean => glanceOf(summary)?.stacks ?? false;

function adviceOn(finding: RunFinding, advice: readonly Advice[]): Advice | null {
  return advice.find((one) => finding.in_profile.includes(one.rule) && lineOf(one)) ?? null;
}

/** Whether the bar and the findings say what a profile's advice says, line included. */
export function isSaid(found: RunFindings | null, line: string, advice: Advice): boolean {
  if (!["", line].includes(lineOf(advice))) return false;
  return (found?.findings ?? []).some(
    (finding) => finding.closed_step === null && finding.in_profile.includes(advice.rule),
  );
}

/** Where the finding began, and the steps that were captured. */
export function marksOf(blame: Blame | null, captures: readonly Capture[]): Mark[] {
  const marks: Mark[] = captures
    .filter((one) => one.path !== null && one.steps.length > 0)
    .map((one) => ({
      step: Math.min(...one.steps),
      kind: "capture",
      text: `Captured step ${count(Math.min(...one.steps))}`,
      path: one.path,
      ...(one.cause === "slow step" ? { slow: true } : {}),
    }));
  if (blame)
    marks.push({ step: blame.finding.since_step, kind: "onset", text: blame.finding.title, path: null });
  return marks;
}
