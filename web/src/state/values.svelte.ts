/** One value of a metric for each run, as the server reads it: for queries, the order of lists and their columns. */
import { SvelteMap } from "svelte/reactivity";
import type { MetricValues, Reading } from "../server/api";
import { Asking } from "../server/asking";
import { question as addressed, told } from "../server/client";

/** Between two questions about runs that grow. */
const REST_MS = 1_000;

export interface RunValues {
  /** Of the chart; empty: no run has the metric. */
  title: string;
  /** Whether some values are of an evaluation. */
  evaluated: boolean;
  byRun: ReadonlyMap<string, number>;
}

class Values {
  readonly #answers = new SvelteMap<string, RunValues>();
  readonly #asking = new Asking(REST_MS, (question) => this.#look(question));

  /** Asks for the values of a metric as long as they are wanted; returns what takes that back.
   *
   * @param version: Changes where runs have grown.
   */
  want(metric: string, reading: Reading, step: number, version: number): () => void {
    return this.#asking.want(questionOf(metric, reading, step), version);
  }

  /** null: not known yet. */
  of(metric: string, reading: Reading = "last", step = 0): RunValues | null {
    return this.#answers.get(questionOf(metric, reading, step)) ?? null;
  }

  async #look(question: string): Promise<void> {
    const { title, evaluated, values } = await told<MetricValues>(question);
    const byRun = new Map(Object.entries(values).map(([run, value]) => [run, Number(value)]));
    this.#answers.set(question, { title, evaluated, byRun });
  }
}

const questionOf = (metric: string, reading: Reading, step: number): string =>
  addressed("values", { metric, reading, step: reading === "step" ? step : null });

export const values = new Values();
