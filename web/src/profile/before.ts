/** Which profile of a run shows it as it was before something went wrong. */
import type { Mark } from "../chart/model";

/** Whether a profile is that of a capture, which may be known by its directory. */
const isOf = (path: string, captured: string): boolean =>
  path === captured || path.startsWith(`${captured}/`);

const stepOf = (marks: readonly Mark[], path: string): number | null =>
  marks.find((mark) => mark.kind === "capture" && mark.path !== null && isOf(path, mark.path))?.step ?? null;

const onsetOf = (marks: readonly Mark[]): number | null =>
  marks.find((mark) => mark.kind === "onset")?.step ?? null;

/** The last profile captured before what the run's finding is about began; null: the open one is one, or there is none.
 *
 * @param marks: Onset and captures of the run in view.
 * @param open: The path of the profile that is open.
 * @param others: Paths of those that it may be compared with.
 */
function beforeOnset(marks: readonly Mark[], open: string, others: readonly string[]): string | null {
  const [onset, own] = [onsetOf(marks), stepOf(marks, open)];
  if (onset === null || own === null || own < onset) return null;
  const earlier = others
    .map((path) => ({ path, step: stepOf(marks, path) }))
    .filter((one): one is { path: string; step: number } => one.step !== null && one.step < onset);
  return earlier.sort((a, b) => a.step - b.step).at(-1)?.path ?? null;
}

/** The profiles of usual steps: what was captured because a step was slow says nothing of the others. */
const usual = (marks: readonly Mark[], paths: readonly string[]): string[] =>
  paths.filter(
    (path) => !marks.some((mark) => mark.slow === true && mark.path !== null && isOf(path, mark.path)),
  );

/** What a profile is compared with unless something else is chosen; null: there is none before it.
 *
 * The last before what is wrong with the run began, else the last usual one before it, else another usual one.
 *
 * @param series: Paths of the profiles of its run and rank, the oldest first.
 */
export function defaultOther(marks: readonly Mark[], open: string, series: readonly string[]): string | null {
  const earlier = series.slice(0, Math.max(0, series.indexOf(open)));
  const others = usual(marks, series).filter((path) => path !== open);
  const well = beforeOnset(marks, open, others) ?? usual(marks, earlier).at(-1);
  return well ?? (earlier.length ? (others.at(-1) ?? earlier.at(-1)!) : null);
}

/** The mark of the onset, where both profiles were captured after it, so that neither shows the run before. */
export function bothAfter(marks: readonly Mark[], a: string, b: string): Mark | null {
  const onset = marks.find((mark) => mark.kind === "onset");
  const steps = [a, b].map((path) => stepOf(marks, path));
  return onset && steps.every((step) => step !== null && step >= onset.step) ? onset : null;
}
