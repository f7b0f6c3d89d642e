/** Rows of a long answer, asked for by windows as they are looked at. */
import { untrack } from "svelte";
import { SvelteMap } from "svelte/reactivity";
import { messageOf } from "../server/client";

const TYPING_MS = 250;

interface Part<Row> {
  rows: readonly Row[];
  /** Rows that there are in all. */
  found: number;
}

/** Of another question all is asked anew. Made while a component is made. */
export class Windows<Row, Answer extends Part<Row>> {
  answer = $state.raw<Answer | null>(null);
  failure = $state<string | null>(null);
  readonly rows = new SvelteMap<number, Row>();
  readonly #asking = new Set<string>();
  #asked = "";
  #seen: readonly [number, number] = [0, 0];

  /**
   * @param size - Rows of a window.
   * @param question - What is asked, as a text that is another one where rows are.
   * @param fetch - Asks for a window, by its first row.
   * @param anew - Called before another question is asked.
   */
  constructor(
    private readonly size: number,
    question: () => string,
    private readonly fetch: (from: number) => Promise<Answer>,
    anew: () => void,
  ) {
    $effect(() => {
      const asked = question();
      const first = (): void => {
        this.#asked = asked;
        this.rows.clear();
        anew();
        this.#ask(...this.#seen, Infinity);
      };
      if (!untrack(() => this.answer)) untrack(first);
      const timer = untrack(() => this.answer) && setTimeout(first, TYPING_MS);
      return () => {
        clearTimeout(timer ?? undefined);
        this.#asked = "";
      };
    });
  }

  /** Rows that are near the screen. */
  look(from: number, to: number): void {
    this.#seen = [from, to];
    if (this.#asked) untrack(() => this.#ask(from, to, this.answer?.found ?? 0));
  }

  #ask(from: number, to: number, total: number): void {
    for (let at = from - (from % this.size); at < Math.min(Math.max(to, 1), total); at += this.size)
      if (!this.rows.has(at)) void this.#window(at);
  }

  async #window(from: number): Promise<void> {
    const asked = this.#asked;
    const key = `${asked} ${from}`;
    if (this.#asking.has(key)) return;
    this.#asking.add(key);
    try {
      const answer = await this.fetch(from);
      if (asked !== this.#asked) return;
      [this.answer, this.failure] = [answer, null];
      answer.rows.forEach((row, at) => this.rows.set(from + at, row));
    } catch (error) {
      if (asked === this.#asked) this.failure = messageOf(error);
    } finally {
      this.#asking.delete(key);
    }
  }
}
