/** The histograms of one tensor as they are drawn: the large view and the small ones show the same. */
import { recordCache, type Entry } from "../media/records.svelte";
import { historyOf } from "../server/records";
import { app } from "../state/app.svelte";
import { endingOf, type Bad } from "./finite";
import type { Axis } from "./axis.svelte";
import {
  boundsOf,
  endingAtOne,
  histogramsOf,
  ofMagnitudes,
  rangeOf,
  wantsLog,
  type Histogram,
} from "./histograms";
import { stepsOf } from "./steps";
import { messageOf } from "../server/client";
import { receive } from "../server/receive";

/** What is known of a tensor beside its histograms. */
export interface Known {
  entry: Entry;
  bad: readonly Bad[];
  /** The last step of the run; null: it has none. */
  runStep: number | null;
}

export class Tensor {
  readonly #known: () => Known;
  #recorded = $state.raw<readonly Histogram[]>([]);
  #tensor = $derived.by(() => this.#known().entry.tensor);
  #outputs = $derived.by(() => this.#tensor?.outputs ?? false);
  histograms = $derived.by(() => (this.#tensor?.bounded ? endingAtOne(this.#recorded) : this.#recorded));
  /** How many were recorded. */
  total = $state(0);
  problem = $state<string | null>(null);
  /** Whether the server has answered. */
  read = $state(false);
  wantsLog = $derived.by(() => wantsLog(this.histograms, this.#outputs));
  log = $derived.by(
    () =>
      app.view.distributions.scale === "log" ||
      (app.view.distributions.scale === "auto" && (this.#axis ? this.#axis.wantsLog : this.wantsLog)),
  );
  drawn = $derived(this.log ? this.histograms.map(ofMagnitudes) : this.histograms);
  ownRange = $derived.by((): readonly [number, number] => {
    const bounds = this.log ? null : boundsOf(this.histograms, this.#outputs);
    return bounds ?? rangeOf(this.drawn);
  });
  range = $derived.by((): readonly [number, number] => this.#axis?.range ?? this.ownRange);
  ending = $derived.by(() => endingOf(this.histograms, this.#known().bad, this.#known().runStep));
  steps = $derived(stepsOf(this.histograms, this.ending));

  readonly #axis: Axis | null;

  /** With an axis that others are drawn on, too, where there is one. */
  constructor(known: () => Known, axis: Axis | null = null) {
    this.#known = known;
    this.#axis = axis;
  }

  /** To be called in an effect; returns what ends it. */
  share(): (() => void) | undefined {
    return this.#axis?.join(this);
  }

  /** To be called in an effect; returns what ends it. */
  follow(columns: number, onread: () => void = () => undefined): () => void {
    return receive(
      () => recordCache.get(this.#known().entry, columns),
      (answer) => {
        const history = historyOf(answer);
        this.#recorded = histogramsOf(history?.values ?? []);
        this.total = history?.total ?? 0;
        this.problem = history?.values.find((value) => value.error)?.error ?? null;
        this.read = true;
        onread();
      },
      (error) => (this.problem = messageOf(error)),
    );
  }
}
