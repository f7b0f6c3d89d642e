/** The state of a run in words. */
import type { RunSummary, State } from "../server/api";
import { count } from "../format/number";

export type Tone = "" | "ok" | "warn" | "bad";

export const STATE_NAMES: Record<State, string> = {
  running: "Running",
  finished: "Finished",
  failed: "Failed",
  stopped: "Stopped",
  stalled: "Stalled",
  ended: "Ended",
};

/** A run that has not ended and whose process is seen to be gone did not stop by itself. */
function isGone({ state, reason }: RunSummary): boolean {
  return state === "stalled" && (reason ?? "").startsWith("its process is gone");
}

export const stateName = (run: RunSummary): string => (isGone(run) ? "Process gone" : STATE_NAMES[run.state]);

export const stateTone = (run: RunSummary): Tone => (isGone(run) ? "bad" : STATE_TONES[run.state]);

export const STATE_TONES: Record<State, Tone> = {
  running: "ok",
  finished: "",
  failed: "bad",
  stopped: "warn",
  stalled: "warn",
  ended: "",
};

/** State and, where it did not simply finish, the step it is at. */
export function stateText(run: RunSummary): { text: string; tone: Tone } {
  const name = stateName(run);
  const step = run.state === "finished" || run.step === null ? "" : `, ${count(run.step)}`;
  return { text: name + step, tone: stateTone(run) };
}

/** How long a run took or has been going, in seconds; null where its times are not known. */
export function elapsed(run: RunSummary, now: number): number | null {
  if (run.started === null) return null;
  const end = run.state === "running" ? Math.max(now, run.updated ?? 0) : run.updated;
  return end === null ? null : Math.max(0, end - run.started);
}

/** Share of the steps that is done, 0 to 1; steps are numbered from 0, so the last of 1,000 is 999. */
export function progress(run: RunSummary): number | null {
  if (run.step === null || !run.total_steps) return null;
  return Math.min(1, Math.max(0, (run.step + 1) / run.total_steps));
}
