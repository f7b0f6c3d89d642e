/** One axis of values for several tensors, so that runs can be compared by eye. */
import type { Tensor } from "./tensor.svelte";

export class Axis {
  #tensors = $state.raw<readonly Tensor[]>([]);
  /** Whether magnitudes are drawn: where each of them would be drawn so alone. */
  wantsLog = $derived(this.#read.length > 0 && this.#read.every((tensor) => tensor.wantsLog));
  /** The range that holds the values of all of them; null before any is known. */
  range = $derived.by((): [number, number] | null => {
    const ranges = this.#read.map((tensor) => tensor.ownRange);
    if (!ranges.length) return null;
    return [Math.min(...ranges.map(([low]) => low)), Math.max(...ranges.map(([, high]) => high))];
  });

  get #read(): readonly Tensor[] {
    return this.#tensors.filter((tensor) => tensor.histograms.length);
  }

  /** Draws one more on this axis; returns what takes it off again. */
  join(tensor: Tensor): () => void {
    this.#tensors = [...this.#tensors, tensor];
    return () => (this.#tensors = this.#tensors.filter((one) => one !== tensor));
  }
}
