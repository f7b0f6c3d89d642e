/** Counts of values that are not finite, of all tensors of a run at once; asked for again while it is written. */
import type { RecordTag, RunSummary } from "../server/api";
import { fetchSeries } from "../server/client";
import type { DecodedChart, DecodedLine } from "../server/wire";
import type { Bad } from "./finite";

const BUCKETS = 2000;
const LINES = 500;
/** A run that is written is asked again at most so often. */
const REST_MS = 10_000;

export class Counts {
  #found = $state.raw<ReadonlyMap<string, readonly Bad[]>>(new Map());
  #asked = "";
  #at = 0;

  /** To be called in an effect; returns what ends it. */
  follow(run: RunSummary | undefined, histograms: readonly RecordTag[]): () => void {
    const wanted = histograms.flatMap((one) => one.tensor?.counts ?? []);
    const question = JSON.stringify([run?.name, wanted]);
    const rest = question === this.#asked ? Math.max(0, this.#at + REST_MS - Date.now()) : 0;
    if (question !== this.#asked) this.#found = new Map();
    this.#asked = question;
    const ask = async (): Promise<void> => {
      this.#at = Date.now();
      const found = await read(run!.name, wanted).catch(() => null);
      if (found && question === this.#asked) this.#found = found;
    };
    const timer = run && wanted.length ? setTimeout(() => void ask(), rest) : undefined;
    return () => clearTimeout(timer);
  }

  of({ tensor }: RecordTag): readonly Bad[] {
    return (tensor?.counts ?? []).flatMap((count) => this.#found.get(count) ?? []);
  }
}

async function read(run: string, tags: readonly string[]): Promise<Map<string, Bad[]>> {
  const charts = [];
  for (let at = 0; at < tags.length; at += LINES)
    charts.push({
      id: String(at),
      lines: tags.slice(at, at + LINES).map((tag) => ({ run, tag })),
      buckets: BUCKETS,
    });
  const found = new Map<string, Bad[]>();
  for (const chart of await fetchSeries(charts))
    for (const line of chart.lines)
      found.set(line.tag, [...(found.get(line.tag) ?? []), ...badOf(chart, line)]);
  for (const bad of found.values()) bad.sort((a, b) => a.step - b.step);
  return found;
}

function badOf(chart: DecodedChart, line: DecodedLine): Bad[] {
  const steps = line.columns["x"] ?? chart.x_values ?? [];
  const counts = line.columns["value"] ?? line.columns["max"] ?? [];
  const about = chart.mode === "buckets";
  return [...counts].flatMap((count, at) => (count > 0 ? [{ step: steps[at]!, count, about }] : []));
}
