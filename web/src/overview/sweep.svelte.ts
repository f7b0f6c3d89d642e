/** The sweep that the runs shown are, as the server computes it: asked again while they grow. */
import type { Chart, Sweep, SweepRequest } from "../server/api";
import type { Reading } from "../series/reading";
import { messageOf, sent } from "../server/client";
import type { Family } from "../runs/catalog";
import { app } from "../state/app.svelte";
import { runs } from "../state/runs.svelte";
import { Asking } from "../server/asking";

const REST_MS = 3_000;

export class Sweeps {
  answer = $state.raw<Sweep | null>(null);
  /** Which value of each run the answer reads: another one may be asked for by now. */
  reading = $state<Reading>("last");
  failure = $state("");
  #question = "";
  readonly #asking = new Asking(REST_MS, (question) => this.#look(question));

  /** Asks for the sweep of some runs by a chart; returns what takes the question back. */
  want(chart: Chart, families: readonly Family[] = app.shown): () => void {
    const { reading } = app.view.board;
    const body: SweepRequest = {
      metric: chart.id,
      runs: families.map(({ name }) => name),
      reading,
      step: reading === "step" ? runs.readStep : 0,
    };
    this.#question = JSON.stringify(body);
    const points = families.reduce((sum, { main }) => sum + main.points, 0);
    return this.#asking.want(this.#question, points);
  }

  async #look(question: string): Promise<void> {
    try {
      const body = JSON.parse(question) as SweepRequest;
      const answer = await sent<Sweep>("sweep", body);
      if (question !== this.#question) return;
      this.answer = answer;
      this.reading = body.reading as Reading;
      this.failure = "";
    } catch (error) {
      if (question === this.#question) this.failure = messageOf(error);
      throw error;
    }
  }
}
