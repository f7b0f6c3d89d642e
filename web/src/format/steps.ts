/** Numbers of steps as they read everywhere. */
import { count } from "./number";

/** `steps 4,000–4,002`, or one number; of steps that do not follow each other how many they are. */
export function stepsText(steps: readonly number[]): string {
  if (steps.length === 0) return "no step";
  const [first, last] = [Math.min(...steps), Math.max(...steps)];
  if (first === last) return `step ${count(first)}`;
  const all = last - first === new Set(steps).size - 1 ? "" : `, ${count(steps.length)} of them`;
  return `steps ${count(first)}–${count(last)}${all}`;
}
