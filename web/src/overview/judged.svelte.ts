/** What the health rules say of the run that is looked at; asked again now and then while it grows. */
import type { RunFindings } from "../server/api";
import { fetchFindings } from "../runs/findings";

const REST_MS = 3_000;

export class Judged {
  failed = $state("");
  #found = $state.raw<RunFindings | null>(null);
  #asked = 0;
  /** The run whose answer is still wanted; "" once nobody looks. */
  #wanted = "";

  /** The answer for a run; null until it is there. */
  of(run: string): RunFindings | null {
    return this.#found?.run === run ? this.#found : null;
  }

  /** Asks for a run, soon; returns what takes the question back. */
  want(run: string): () => void {
    this.#wanted = run;
    // A run that grows is asked about now and then, not at each new point.
    const rest = this.#found?.run === run ? Math.max(0, this.#asked + REST_MS - Date.now()) : 0;
    const timer = setTimeout(() => void this.#look(run), rest);
    return () => clearTimeout(timer);
  }

  leave(): void {
    this.#wanted = "";
  }

  async #look(run: string): Promise<void> {
    this.#asked = Date.now();
    try {
      const answer = await fetchFindings(run);
      if (run !== this.#wanted) return;
      this.#found = answer;
      this.failed = "";
    } catch (error) {
      if (run === this.#wanted && this.#found?.run !== run)
        this.failed = error instanceof Error ? error.message : String(error);
    }
  }
}
