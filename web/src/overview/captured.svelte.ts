/** The profiles that runs took of themselves: one question for all parts of the page that show them. */
import { SvelteMap } from "svelte/reactivity";
import type { Capture } from "../server/api";
import { fetchCaptures } from "./captures";

const EVERY_MS = 5000;

export interface Captured {
  captures: readonly Capture[];
  /** Whether a hook of the run takes requests. */
  listens: boolean;
}

const NONE: Captured = { captures: [], listens: false };

class CapturesOfRuns {
  readonly #found = new SvelteMap<string, Captured>();
  readonly #wanted = new Map<string, number>();
  readonly #timers = new Map<string, ReturnType<typeof setInterval>>();

  /** What is known of a run; nothing until it has come. */
  of(run: string): Captured {
    return this.#found.get(run) ?? NONE;
  }

  isKnown(run: string): boolean {
    return this.#found.has(run);
  }

  /** Keeps what is known of a run up to date; returns what ends that. */
  follow(run: string): () => void {
    this.#wanted.set(run, (this.#wanted.get(run) ?? 0) + 1);
    if (!this.#timers.has(run)) {
      void this.#look(run);
      this.#timers.set(
        run,
        setInterval(() => void this.#look(run), EVERY_MS),
      );
    }
    return () => {
      const left = (this.#wanted.get(run) ?? 1) - 1;
      this.#wanted.set(run, left);
      if (left) return;
      clearInterval(this.#timers.get(run));
      this.#timers.delete(run);
    };
  }

  async #look(run: string): Promise<void> {
    if (document.hidden) return;
    try {
      const { captures, listens } = await fetchCaptures(run);
      this.#found.set(run, { captures, listens });
    } catch {
      // The badge above says that the server does not answer.
    }
  }
}

export const capturesOfRuns = new CapturesOfRuns();
