/** Names that a person would give to profiles. */
import type { ProfileEntry } from "../server/api";
import { count, counted } from "../format/number";
import { stepsText } from "../format/steps";

const CAPTURE = /^(?:([A-Za-z0-9-]+)_)?rank(\d+|\*)_step(\d{8,})/;

/** "slow-disk, steps 1,200–1,202, rank 3" of a capture, else the path; with how many ranks it has.
 *
 * @param several: Whether it may be of one of several runs.
 */
export function titleOf(
  entry: Pick<ProfileEntry, "path" | "run" | "files" | "steps">,
  several = true,
): string {
  const ranks = entry.files > 1 ? `, ${counted(entry.files, "rank")}` : "";
  const match = CAPTURE.exec(entry.path.slice(entry.path.lastIndexOf("/") + 1));
  if (!match && !entry.steps.length) return `${entry.path}${ranks}`;
  const run = several && entry.run && entry.run !== "." ? `${entry.run}, ` : "";
  const number = match?.[2] ?? "0";
  const rank = number === "*" || number === "0" ? "" : `, rank ${count(Number(number))}`;
  return `${run}${stepsText(entry.steps.length ? entry.steps : [Number(match![3])])}${rank}${ranks}`;
}

/** Titles of all, without the run where they are of one; those that read the same are told apart by their paths. */
export function titlesOf(entries: readonly ProfileEntry[]): Map<string, string> {
  const several = new Set(entries.map(({ run }) => run)).size > 1;
  const titles = entries.map((entry) => titleOf(entry, several));
  const twice = new Set(titles.filter((title, at) => titles.indexOf(title) !== at));
  return new Map(
    titles.map((title, at) => {
      const { path } = entries[at]!;
      return [path, twice.has(title) ? `${title}, ${path}` : title];
    }),
  );
}

/** The path of what all ranks captured of the step that a profile is of; null for one that is not a capture. */
export function setOf(path: string): string | null {
  const at = path.lastIndexOf("/") + 1;
  const match = /^[A-Za-z0-9-]+_rank\d+(_step\d{8,}.*)$/.exec(path.slice(at));
  return match ? `${path.slice(0, at)}rank*${match[1]}` : null;
}
