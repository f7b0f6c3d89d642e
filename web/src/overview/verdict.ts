/** How a run stands, in one line each, from what is recorded and nothing else. */
import type { RunFinding, RunFindings, RunSummary, Severity } from "../server/api";
import { lowered, sentence, summaryOf } from "../runs/findings";
import { count, counted, partOf, percent } from "../format/number";
import { stateName, stateTone, type Tone } from "../runs/state";
import { duration } from "../format/time";

export interface Phrase {
  text: string;
  tone: Tone;
  /** What it is about, where it can be looked at. */
  finding?: RunFinding;
}

export interface Recorded {
  run: RunSummary;
  now: number;
  /** The newest value of what ranks the runs. */
  metric: { title: string; value: string } | null;
  /** Charts whose newest value is not finite. */
  broken: { title: string; step: number }[];
  /** What the health rules say; null: they have not answered. */
  judged: RunFindings | null;
}

/** Kinds of problems that are not those of a file. */
const NO_FILE: ReadonlySet<string> = new Set(["failed", "unmeasured", "ended"]);

const SEVERITY_TONES: Record<Severity, Tone> = { high: "bad", medium: "warn", low: "warn", info: "" };

/** The state, then the worst that is wrong, else that nothing is, and the newest value. */
export function headline({ run, metric, broken, judged }: Recorded): Phrase[] {
  const phrases: Phrase[] = [{ text: stateName(run), tone: stateTone(run) || "ok" }];
  if (run.state === "ended" || run.state === "finished")
    phrases[0]!.tone = run.state === "finished" ? "ok" : "";
  // What a callback or hook that failed would have recorded is missing: no other state may hide that.
  for (const { kind, text } of run.problems)
    if (kind === "failed" || kind === "unmeasured") phrases.push({ text, tone: "warn" });
  const [first, worst] = [broken[0], worstOpen(judged)];
  if (worst)
    phrases.push({
      text: `${lowered(worst.title)} since step ${count(worst.since_step)}`,
      tone: SEVERITY_TONES[worst.severity],
      finding: worst,
    });
  else if (first)
    phrases.push({ text: `${first.title} is not finite at step ${count(first.step)}`, tone: "bad" });
  else {
    const health = run.state === "failed" ? "" : healthOf(judged); // "nothing wrong" is not the answer to a failure
    if (health) phrases.push({ text: health, tone: healthTone(judged!) });
    if (metric) phrases.push({ text: `${metric.title} ${metric.value}`, tone: "" });
  }
  return phrases;
}

/** The severest finding that is not over; null where there is none, or no answer. */
export function worstOpen(judged: RunFindings | null): RunFinding | null {
  return judged?.findings.find((finding) => finding.closed_step === null) ?? null;
}

/** The server's verdict, which is "healthy" only if the questions that matter are answered; "" without one. */
function healthOf(judged: RunFindings | null): string {
  if (!judged || worstOpen(judged)) return "";
  const over = Math.max(...judged.findings.map((finding) => finding.closed_step ?? 0));
  const again = judged.verdict === "healthy" && judged.findings.length;
  return again ? `healthy since step ${count(over)}` : judged.verdict;
}

function healthTone(judged: RunFindings): Tone {
  return judged.verdict === "healthy" ? "ok" : "";
}

/** What a list says of a run's health. */
export interface Verdict extends Phrase {
  /** More of it, for who points at it. */
  title: string;
  /** Something was judged, and nothing is wrong. */
  isSound?: boolean;
}

export function verdictOf(judged: RunFindings): Verdict {
  const worst = worstOpen(judged);
  const more = checks(judged)
    .map(({ text }) => text)
    .join(", ");
  if (worst)
    return {
      text: lowered(worst.title),
      tone: SEVERITY_TONES[worst.severity],
      finding: worst,
      title: `Since step ${count(worst.since_step)}: ${summaryOf(worst)}; ${more}`,
    };
  return {
    text: judged.short,
    tone: "",
    title: `${judged.verdict}; ${more}`,
    isSound:
      judged.coverage.some(({ answer }) => answer === "yes") &&
      judged.coverage.every(({ answer }) => answer !== "no"),
  };
}

/** Checks that pass, findings, and what could not be judged; nothing before there is an answer. */
export function checks(judged: RunFindings | null): Phrase[] {
  if (!judged) return [];
  const [passed, rules, lacking] = [
    judged.passed.length,
    new Set(judged.findings.map((finding) => finding.rule)).size,
    judged.abstained.length,
  ];
  const phrases: Phrase[] = [
    {
      text: `${count(passed)} of ${count(passed + rules + lacking)} checks ${passed === 1 ? "passes" : "pass"}`,
      tone: "",
    },
  ];
  if (rules) phrases.push({ text: counted(rules, "finding"), tone: "" });
  if (lacking) phrases.push({ text: `${counted(lacking, "check")} lacked data`, tone: "" });
  return phrases;
}

/** A smaller part of the step is no wait that a reader has to know of. */
const LEAST_WAIT = 0.01;

/** What is wrong, else what the step waits for, else why it is in this state, else how much was recorded. */
export function evidence({ run, now, judged }: Recorded): string {
  // Why a run failed stands above all, with its stack.
  if (run.reason && run.state !== "failed") return run.reason;
  const worst = worstOpen(judged);
  if (worst) return sentence(summaryOf(worst));
  if (run.state === "stalled" && run.updated !== null)
    return `Nothing was written for ${duration(now - run.updated)}`;
  const { seconds, wait_s: wait } = run.step_time ?? { seconds: 0, wait_s: null };
  if (wait !== null && seconds > 0 && wait >= LEAST_WAIT * seconds)
    return `Waits ${partOf(wait, seconds, "s")} per step for data (${percent(wait / seconds)})`;
  return `${counted(run.points, "point")} of ${counted(run.tags.length, "metric")} recorded`;
}

/** What the rules say in numbers, and what was lost or could not be read. */
export function losses({ run, judged }: Recorded): Phrase[] {
  const phrases = checks(judged);
  const problems = run.problems.filter(({ kind }) => !NO_FILE.has(kind)).length;
  if (problems)
    phrases.push({
      text: counted(problems, "file problem"),
      tone: "warn",
    });
  else if (!judged) phrases.push({ text: "no file problems", tone: "" });
  if (run.dropped) phrases.push({ text: `${counted(run.dropped, "point")} dropped`, tone: "bad" });
  else if (run.dropped === 0 && !judged) phrases.push({ text: "none dropped", tone: "" });
  return phrases;
}
