/** What the server finds in the runs that are looked at: asked once for all parts of the page, again while a run grows. */
import { SvelteMap } from "svelte/reactivity";
import { fetchChanges } from "./changes";
import { fetchFindings } from "../runs/findings";
import { Asking } from "../server/asking";
import { messageOf } from "../server/client";

export class Answers<T> {
  readonly #found = new SvelteMap<string, T>();
  readonly #failed = new SvelteMap<string, string>();
  readonly #asking: Asking;

  /**
   * @param fetch: Asks the server about a run.
   * @param restMs: Between two questions about a run that grows.
   */
  constructor(
    readonly fetch: (run: string) => Promise<T>,
    restMs: number,
  ) {
    this.#asking = new Asking(restMs, (run) => this.#look(run));
  }

  /** The answer for a run; null until it is there. */
  of(run: string): T | null {
    return this.#found.get(run) ?? null;
  }

  /** Why a run has no answer; "" where it has one, or none was asked for. */
  failure(run: string): string {
    return this.of(run) ? "" : (this.#failed.get(run) ?? "");
  }

  /** Asks for a run, soon; returns what takes the question back.
   *
   * @param version: What the answer depends on: one that has come for it is not asked for again.
   */
  want(run: string, version: number): () => void {
    return this.#asking.want(run, version);
  }

  async #look(run: string): Promise<void> {
    try {
      this.#found.set(run, await this.fetch(run));
      this.#failed.delete(run);
    } catch (error) {
      this.#failed.set(run, messageOf(error));
      throw error;
    }
  }
}

/** What the health rules say. */
export const judged = new Answers(fetchFindings, 3_000);
export type Judged = typeof judged;
/** What changed; the server looks at every series for it. */
export const changed = new Answers(fetchChanges, 30_000);
