/** Histograms as tables: every bucket as it was recorded. */
import { fetchRecord } from "../server/records";
import { csvRow } from "../chart/export/csv";

/** The most that the server answers at once. */
const MOST_RECORDS = 20_000;

/** Every bucket of every recorded histogram, of all writers and attempts; where there are more than one answer holds, the file begins with that. */
export async function histogramsCsv(entries: readonly { run: string; tag: string }[]): Promise<string[]> {
  const made = [csvRow(["run", "tag", "writer", "attempt", "step", "wall_time", "left", "right", "count"])];
  for (const { run, tag } of entries) {
    const answer = await fetchRecord(run, tag, MOST_RECORDS);
    for (const series of answer.series) {
      if (series.total > series.values.length)
        made.unshift(csvRow([`# ${tag}: ${series.values.length} of ${series.total} histograms, evenly`]));
      for (const { step, wall, rows } of series.values) {
        for (const [left, right, number] of rows ?? [])
          made.push(csvRow([run, tag, series.writer, series.attempt, step, wall, left, right, number]));
      }
    }
  }
  return made;
}
