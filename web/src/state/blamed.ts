/** Which runs had something wrong when they were last seen here: the bar's place is kept for them while they are judged. */
import { recall, remember } from "./storage";

const KEY = "blamed";
/** Runs that are remembered, of all log directories, the newest first. */
const MOST = 200;

/** Whether a run had a finding when this browser saw it last. */
export function wasBlamed(log: string, run: string): boolean {
  return known().includes(keyOf(log, run));
}

export function noteBlamed(log: string, run: string, blamed: boolean): void {
  const key = keyOf(log, run);
  const before = known();
  if (before.includes(key) === blamed) return;
  const others = before.filter((one) => one !== key);
  remember(KEY, JSON.stringify((blamed ? [key, ...others] : others).slice(0, MOST)));
}

const keyOf = (log: string, run: string): string => `${log}\n${run}`;

function known(): string[] {
  try {
    const found: unknown = JSON.parse(recall(KEY) ?? "[]");
    return Array.isArray(found) ? found.filter((one) => typeof one === "string") : [];
  } catch {
    return [];
  }
}
