/** What of the timeline can be saved as tables. */
import type { ProfileOutline } from "../server/api";
import { addressOf } from "../server/client";
import { fetchTracks, type TracksDrawn } from "./questions";
import { csvOf, type Cell } from "../chart/export/csv";
import { fileName } from "../chart/export/names";
import type { TableData } from "../chart/export/rows";

/** As many stretches of a level as the server tells apart at once. */
const STRETCHES = 8192;

/** Every event within a window, as the server sends it. */
export function eventsFile(path: string, [from, to]: readonly [number, number]): TableData {
  return {
    address: addressOf(
      `profile/events?path=${encodeURIComponent(path)}&start=${Math.floor(from)}&end=${Math.ceil(to)}`,
    ),
    name: fileName(`events of ${path}`, "csv"),
  };
}

/** Levels of memory and counters, and tensors, within a window: asked for anew, closer than they are drawn. */
export async function tracksCsv(
  outline: ProfileOutline,
  [from, to]: readonly [number, number],
): Promise<BlobPart[]> {
  return [
    tracksTable(
      outline,
      await fetchTracks(
        outline.path,
        from,
        to,
        STRETCHES,
        outline.tracks.map((_, at) => at),
      ),
    ),
  ];
}

export function tracksTable(outline: Pick<ProfileOutline, "tracks">, drawn: TracksDrawn): string {
  const rows: Cell[][] = [];
  outline.tracks.forEach((facts, track) => {
    const found = drawn.of.get(track);
    const head = [facts.rank, facts.process, facts.name, facts.kind, facts.unit];
    const step = (drawn.end - drawn.start) / (found?.high?.length ?? 1);
    for (let at = 0; at < (found?.high?.length ?? 0); at += 1) {
      const [low, high] = [found!.low![at]!, found!.high![at]!];
      // A level holds until it changes: stretches that say nothing new are left out.
      const same = at > 0 && low === found!.low![at - 1] && high === found!.high![at - 1];
      if (!Number.isNaN(high) && !same) rows.push([...head, drawn.start + at * step, null, low, high, null]);
    }
    const { tensors } = found ?? {};
    for (let at = 0; tensors && at < tensors.start.length; at += 1) {
      rows.push([
        ...head,
        tensors.start[at]!,
        tensors.end[at]!,
        tensors.bytes[at]!,
        tensors.bytes[at]!,
        tensors.row[at]!,
      ]);
    }
  });
  return csvOf(
    ["rank", "process", "track", "kind", "unit", "start_ns", "end_ns", "lowest", "highest", "event_row"],
    rows,
  );
}
