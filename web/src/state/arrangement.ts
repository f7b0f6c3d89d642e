/** How somebody arranged the charts of a log directory, kept by the browser for the next time that they open it. */
import { readHash, writeHash } from "../view/hash";
import { changed, defaultView, type View } from "../view/view";
import { recall, remember } from "./storage";

type Charts = View["charts"];
type Arrangement = Pick<Charts, "pins" | "own" | "moved" | "perRow" | "cardHeight" | "deep">;

const keyOf = (directory: string): string => `charts ${directory}`;

function arrangementOf({ pins, own, moved, perRow, cardHeight, deep }: Charts): Arrangement {
  return { pins, own, moved, perRow, cardHeight, deep };
}

/** Keeps how charts are arranged where a change arranged them anew. */
export function keepArrangement(directory: string, before: Charts, after: Charts): void {
  const [old, now] = [arrangementOf(before), arrangementOf(after)];
  if ((Object.keys(now) as (keyof Arrangement)[]).every((key) => old[key] === now[key])) return;
  const own = changed(defaultView(), { charts: now });
  const text = writeHash(own);
  remember(keyOf(directory), text === writeHash(defaultView()) ? null : text);
}

/** A view as it was arranged before; a link that says anything but its page is shown as it says. */
export function withArrangement(directory: string, view: View, hash: string): View {
  const kept = hash.includes("?") ? null : recall(keyOf(directory));
  return kept === null ? view : changed(view, { charts: arrangementOf(readHash(kept).charts) });
}
