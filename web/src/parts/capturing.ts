/** How far a request for a profile has come, in words. */
import { stepsText } from "../format/steps";
import type { Capture, CaptureProgress } from "../server/api";

export type Stage = "asked" | "waiting" | "done" | "failed";

export interface Standing {
  stage: Stage;
  text: string;
  /** The profile, once there is one. */
  path: string | null;
}

/** The request that was made last of each run, and when: the page may draw another button before it is answered. */
export const requests = new Map<string, { request: string; since: number }>();

/** Seconds without a reply after which nobody seems to look. */
export const PATIENCE_S = 30;

export function standing(
  request: string,
  captures: readonly Capture[],
  progress: CaptureProgress | null,
  seconds: number,
): Standing {
  const mine = captures.filter((one) => one.request === request);
  const made =
    mine.find((one) => one.path !== null && one.format !== "memory_snapshot") ??
    mine.find((one) => one.path !== null);
  if (made) return { stage: "done", text: `Captured ${steps(made.steps)}`, path: made.path };
  const lost = mine.find((one) => one.failure !== null);
  if (lost) return { stage: "failed", text: lost.failure!, path: null };
  const replies = progress?.replies ?? [];
  if (replies.length && replies.every((one) => one.status !== "taken")) {
    const missed = replies.some((one) => one.status === "missed");
    return {
      stage: "failed",
      text: missed ? "The step was over before the run could follow" : "Another capture is under way",
      path: null,
    };
  }
  if (progress?.at_step != null)
    return { stage: "waiting", text: `Waiting for ${stepsText([progress.at_step])}`, path: null };
  if (replies.length) return { stage: "waiting", text: "Recording the next steps", path: null };
  if (seconds > PATIENCE_S)
    return { stage: "asked", text: "No answer yet: the run checks between its steps", path: null };
  return { stage: "asked", text: "Asked", path: null };
}

const steps = (numbers: readonly number[]): string => (numbers.length ? stepsText(numbers) : "a profile");
