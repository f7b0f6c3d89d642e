/** Which captured profile of A is compared with which of B, before anyone chooses. */
import type { Capture, ProfileEntry } from "../server/api";
import { stepsText } from "../format/steps";

/** A profile, and why and of which steps it was captured; null: it was not captured by a run. */
export interface Taken {
  path: string;
  steps: readonly number[];
  cause: string | null;
}

/** Captured because something was unusual: such steps are not those of the run. */
const UNUSUAL = new Set(["slow step", "alert"]);

/** What is known of profiles by the captures of their runs; ranks' files lie in the folder of the whole. */
export function takenOf(profiles: readonly ProfileEntry[], captures: readonly Capture[]): Taken[] {
  return profiles.map(({ path }) => {
    const mine = captures.find(
      (one) => one.path !== null && (one.path === path || one.path.startsWith(`${path}/`)),
    );
    return { path, steps: mine?.steps ?? [], cause: mine?.cause ?? null };
  });
}

/** The pair that is most alike: usual steps of both, else both unusual, then the same steps, then the newest. */
export function pairOf(a: readonly Taken[], b: readonly Taken[]): [string, string] {
  let best: [string, string] = [a[0]?.path ?? "", b[0]?.path ?? ""];
  let most = -Infinity;
  a.forEach((one, older) =>
    b.forEach((other, old) => {
      const value = likeness(one, other) - (older + old) / (a.length + b.length);
      if (value > most) [most, best] = [value, [one.path, other.path]];
    }),
  );
  return best;
}

/** Larger by one at least for each thing that is alike and counts more than all after it. */
function likeness(one: Taken, other: Taken): number {
  const [first, second] = [UNUSUAL.has(one.cause ?? ""), UNUSUAL.has(other.cause ?? "")];
  const usual = first || second ? (first && second ? 4 : 0) : 8;
  const steps = one.steps.length && one.steps.join() === other.steps.join() ? 2 : 0;
  return usual + steps + (one.cause !== null && one.cause === other.cause ? 1 : 0);
}

/** What two sides have that makes their difference another than that of the runs; empty: nothing known. */
export function unlike(a: Taken | undefined, b: Taken | undefined): string {
  if (!a || !b) return "";
  const told = [a, b].map((one, at) =>
    UNUSUAL.has(one.cause ?? "")
      ? `${"AB"[at]} was captured for ${one.cause === "alert" ? "an alert" : "a slow step"}`
      : "",
  );
  const [first, second] = told;
  if (first && second)
    return "Both were captured for something unusual, so their steps are not the runs' usual ones";
  const one = first || second;
  return one ? `${one}, so its steps are not the run's usual ones` : "";
}

/** How a profile is named where one is chosen. */
export function takenText(one: Taken): string {
  return [one.steps.length ? stepsText(one.steps) : "", one.cause ?? ""].filter((text) => text).join(", ");
}
