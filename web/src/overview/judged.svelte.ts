/** What the health rules say of the runs that are looked at: asked once for all parts of the page, again while a run grows. */
import { SvelteMap } from "svelte/reactivity";
import type { RunFindings } from "../server/api";
import { fetchFindings } from "../runs/findings";
import { Asking } from "./asking";

const REST_MS = 3_000;

export class Judged {
  readonly #found = new SvelteMap<string, RunFindings>();
  readonly #failed = new SvelteMap<string, string>();
  readonly #asking = new Asking(REST_MS, (run) => this.#look(run));

  /** The answer for a run; null until it is there. */
  of(run: string): RunFindings | null {
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
      this.#found.set(run, await fetchFindings(run));
      this.#failed.delete(run);
    } catch (error) {
      this.#failed.set(run, error instanceof Error ? error.message : String(error));
      throw error;
    }
  }
}

export const judged = new Judged();
