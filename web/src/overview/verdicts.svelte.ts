/** What the health rules say of each run of a list, asked one run after the other; of many those on the screen alone. */
import { SvelteMap } from "svelte/reactivity";
import type { RunSummary } from "../server/api";
import { fetchFindings } from "../runs/findings";
import { Refused } from "../server/client";
import { verdictOf, type Verdict } from "./verdict";

/** A run that grows, or of which there was no answer, is asked about again after so long. */
const REST_MS = 15_000;
/** Of so many runs all are judged, whether a small screen shows them or not: their sum is told. */
export const JUDGED_TOGETHER = 12;

const unanswered = (error: unknown): Verdict => ({
  text: "no answer",
  tone: "",
  title: error instanceof Refused ? error.message : "The server did not answer; it will be asked again",
});

export class Verdicts {
  readonly found = new SvelteMap<string, Verdict>();
  readonly #asked = new Map<string, { updated: number | null | undefined; at: number }>();
  #wanted: readonly RunSummary[] = [];
  #busy = false;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** Takes the runs that are on the screen, in their order; an empty list ends asking. */
  want(runs: readonly RunSummary[]): void {
    this.#wanted = runs;
    void this.#next();
  }

  async #next(): Promise<void> {
    clearTimeout(this.#timer);
    if (this.#busy || document.hidden) return this.#later();
    const now = Date.now();
    const run = this.#wanted.find(({ name, updated }) => {
      const asked = this.#asked.get(name);
      return !asked || (asked.updated !== updated && now - asked.at >= REST_MS);
    });
    if (!run) return this.#later();
    this.#busy = true;
    this.#asked.set(run.name, { updated: run.updated, at: now });
    try {
      this.found.set(run.name, verdictOf(await fetchFindings(run.name)));
    } catch (error: unknown) {
      this.found.set(run.name, unanswered(error));
      this.#asked.set(run.name, { updated: undefined, at: now });
    }
    this.#busy = false;
    void this.#next();
  }

  #later(): void {
    if (this.#wanted.length && !this.#busy) this.#timer = setTimeout(() => void this.#next(), REST_MS);
  }
}
