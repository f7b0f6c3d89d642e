/** How a run stands, in one line each, from what is recorded and nothing else. */
import type { RunSummary } from "./api";
import { count, fixed, percent } from "./number";
import { STATE_NAMES, STATE_TONES, type Tone } from "./state";
import { duration } from "./time";

export interface Phrase {
  text: string;
  tone: Tone;
}

export interface StepTime {
  /** Seconds of a step, smoothed. */
  step: number;
  /** Of that, waiting for data; null: not recorded. */
  wait: number | null;
}

export interface Recorded {
  run: RunSummary;
  now: number;
  stepTime: StepTime | null;
  /** The newest value of what ranks the runs. */
  metric: { title: string; value: string } | null;
  /** Charts whose newest value is not finite. */
  broken: { title: string; step: number }[];
  /** Values of the charts that are known so far that are not finite. */
  nonfinite: number;
}

export function headline({ run, metric, broken }: Recorded): Phrase[] {
  const phrases: Phrase[] = [{ text: STATE_NAMES[run.state], tone: STATE_TONES[run.state] || "ok" }];
  if (run.state === "ended" || run.state === "finished") phrases[0]!.tone = run.state === "finished" ? "ok" : "";
  const first = broken[0];
  if (first) phrases.push({ text: `${first.title} is not finite at step ${count(first.step)}`, tone: "bad" });
  else if (metric) phrases.push({ text: `${metric.title} ${metric.value}`, tone: "" });
  return phrases;
}

/** What the step waits for, else why it is in this state, else how much was recorded. */
export function evidence({ run, now, stepTime }: Recorded): string {
  if (run.reason) return run.reason;
  if (run.state === "stalled" && run.updated !== null) return `Nothing was written for ${duration(now - run.updated)}`;
  if (stepTime?.wait !== null && stepTime && stepTime.step > 0) {
    const digits = stepTime.step < 0.01 ? 2 : 1;
    const [wait, step] = [fixed(stepTime.wait! * 1e3, digits), fixed(stepTime.step * 1e3, digits)];
    return `Waits ${wait} of ${step} ms per step for data (${percent(stepTime.wait! / stepTime.step)})`;
  }
  return `${count(run.points)} points of ${count(run.tags.length)} ${run.tags.length === 1 ? "metric" : "metrics"} recorded`;
}

/** What was lost or could not be read. */
export function losses({ run, nonfinite }: Recorded): Phrase[] {
  const phrases: Phrase[] = [];
  const problems = run.problems.length;
  phrases.push(problems ? { text: `${count(problems)} file ${problems === 1 ? "problem" : "problems"}`, tone: "warn" } : { text: "no file problems", tone: "" });
  if (nonfinite) phrases.push({ text: `${count(nonfinite)} values not finite`, tone: "bad" });
  if (run.dropped) phrases.push({ text: `${count(run.dropped)} points dropped`, tone: "bad" });
  else if (run.dropped === 0) phrases.push({ text: "none dropped", tone: "" });
  return phrases;
}
