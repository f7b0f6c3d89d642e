/** The histograms of one tensor as they are drawn: the large view and the small ones show the same. */
import { recordCache, type Entry } from "../media/records.svelte";
import { historyOf } from "../server/records";
import { app } from "../state/app.svelte";
import { endingOf, type Bad } from "./finite";
import { histogramsOf, ofMagnitudes, rangeOf, wantsLog, type Histogram } from "./histograms";
import { stepsOf } from "./steps";

/** What is known of a tensor beside its histograms. */
export interface Known {
  entry: Entry;
  bad: readonly Bad[];
  /** The last step of the run; null: it has none. */
  runStep: number | null;
}

export class Tensor {
  readonly #known: () => Known;
  histograms = $state.raw<readonly Histogram[]>([]);
  /** How many were recorded. */
  total = $state(0);
  problem = $state<string | null>(null);
  /** Whether the server has answered. */
  read = $state(false);
  log = $derived(
    app.view.distributions.scale === "log" ||
      (app.view.distributions.scale === "auto" && wantsLog(this.histograms)),
  );
  drawn = $derived(this.log ? this.histograms.map(ofMagnitudes) : this.histograms);
  range = $derived(rangeOf(this.drawn));
  ending = $derived.by(() => endingOf(this.histograms, this.#known().bad, this.#known().runStep));
  steps = $derived(stepsOf(this.histograms, this.ending));

  constructor(known: () => Known) {
    this.#known = known;
  }

  /** To be called in an effect; returns what ends it. */
  follow(columns: number, onread: () => void = () => undefined): () => void {
    let gone = false;
    recordCache
      .get(this.#known().entry, columns)
      .then((answer) => {
        if (gone) return;
        const history = historyOf(answer);
        this.histograms = histogramsOf(history?.values ?? []);
        this.total = history?.total ?? 0;
        this.problem = history?.values.find((value) => value.error)?.error ?? null;
        this.read = true;
        onread();
      })
      .catch((error: unknown) => (this.problem = String(error)));
    return () => (gone = true);
  }
}
