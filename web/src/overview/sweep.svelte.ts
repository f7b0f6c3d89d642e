/** The sweep that the runs shown are, as the server computes it: asked again while they grow. */
import type { Chart, Sweep, SweepRequest } from "../server/api";
import { messageOf, sent } from "../server/client";
import type { Family } from "../runs/catalog";
import { app } from "../state/app.svelte";
import { Asking } from "../server/asking";

const REST_MS = 3_000;

export class Sweeps {
  answer = $state.raw<Sweep | null>(null);
  failure = $state("");
  #question = "";
  readonly #asking = new Asking(REST_MS, (question) => this.#look(question));

  /** Asks for the sweep of some runs by a chart; returns what takes the question back. */
  want(chart: Chart, families: readonly Family[] = app.shown): () => void {
    const body: SweepRequest = { metric: chart.id, runs: families.map(({ name }) => name) };
    this.#question = JSON.stringify(body);
    const points = families.reduce((sum, { main }) => sum + main.points, 0);
    return this.#asking.want(this.#question, points);
  }

  async #look(question: string): Promise<void> {
    try {
      const answer = await sent<Sweep>("sweep", JSON.parse(question) as SweepRequest);
      if (question !== this.#question) return;
      this.answer = answer;
      this.failure = "";
    } catch (error) {
      if (question === this.#question) this.failure = messageOf(error);
      throw error;
    }
  }
}
