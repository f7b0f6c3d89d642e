/** The order in which the runs of a log directory were first seen, kept by the browser: a run's colour follows from it. */
import { placesOf } from "../theme/colour";
import { recall, remember } from "./storage";

/** Names beyond are not written down; the order of the runs' starts then decides alone. */
const MOST_KEPT = 5000;

/** Names of runs by their place.
 *
 * @param directory: The log directory.
 * @param settled: Whether all runs have been found; before, new ones are placed for now only.
 */
export function keptPlaces(
  directory: string,
  runs: readonly { name: string; started: number | null }[],
  settled: boolean,
): string[] {
  const key = `places ${directory}`;
  const before = read(recall(key));
  const places = placesOf(before, runs);
  if (settled && places.length > before.length && places.length <= MOST_KEPT)
    remember(key, JSON.stringify(places));
  return places;
}

function read(text: string | null): string[] {
  try {
    const found: unknown = JSON.parse(text ?? "[]");
    return Array.isArray(found) ? found.filter((name) => typeof name === "string") : [];
  } catch {
    return [];
  }
}
