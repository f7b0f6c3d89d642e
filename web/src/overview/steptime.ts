/** The time of a step and how much of it waits for data, as the server has them. */
import type { StageMeans } from "../server/api";

export interface StagePart {
  name: string;
  value: number;
}

/** Stages of the step but its wait for data, as parts of a time: their shares are those of the newest steps. */
export function partsOf(stages: StageMeans | null, seconds: number): StagePart[] {
  const own = (stages?.stages ?? []).map((name, at) => ({ name, value: stages!.mean_s[at]! }));
  const worked = own.filter((part) => part.name !== "data");
  const whole = worked.reduce((sum, part) => sum + part.value, 0);
  if (!(whole > 0)) return [];
  return worked
    .filter((part) => part.value > 0)
    .map(({ name, value }) => ({
      name: name === "rest" ? "Rest of the step" : `${name[0]!.toUpperCase()}${name.slice(1)}`,
      value: (value / whole) * seconds,
    }));
}
