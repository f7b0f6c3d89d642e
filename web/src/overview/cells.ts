/** A run's value on an axis as people read it. */
import type { Dimension } from "../core/dimensions";
import { measured, NOTHING } from "../core/number";
import { configText } from "../core/config";
import { clock, duration } from "../core/time";
import { app } from "../state/app.svelte";

export function cellText({ field, unit, values }: Dimension, run: string): string {
  const value = values.get(run);
  if (value === undefined) return NOTHING;
  if (typeof value === "string") return value;
  if (field === "duration") return duration(value);
  if (field === "started") return clock(value, app.now);
  return field.startsWith("config:") ? configText(value) : measured(value, unit);
}
