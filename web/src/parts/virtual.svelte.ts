/** Which rows of a list of equal rows are on the screen, and what a saved page holds beyond the screen. */
import { tick } from "svelte";
import { count } from "../format/number";
import { seeAll } from "./visible";

const MORE = 4;
/** Rows that a saved page holds of a list. */
const MOST_SAVED = 5_000;
/** Charts and pictures that it holds. */
const MOST_DRAWN = 1_000;

let saved = $state(false);
const lists = new Set<VirtualRows>();
const ends = new Set<() => string | null>();

/** Whether the page is being saved: then what is not on the screen has to be there too. */
export const whole = {
  get wanted(): boolean {
    return saved;
  },
  /** Says where what is saved ends, or null where it does not; returns what takes that back. */
  ending(text: () => string | null): () => void {
    ends.add(text);
    return () => void ends.delete(text);
  },
};

/** Shows all that was scrolled away until what is to be done is done.
 *
 * @param work: What is done then, told where what is shown ends, in sentences.
 */
export async function withAll<T>(work: (ended: readonly string[]) => Promise<T>): Promise<T> {
  saved = true;
  const seen = seeAll(MOST_DRAWN);
  try {
    await tick();
    const longest = Math.max(0, ...[...lists].map((list) => list.count));
    const rows = longest > MOST_SAVED ? [`Lists end at row ${count(MOST_SAVED)}.`] : [];
    const drawn = seen.more() ? [`Charts and pictures end after the first ${count(MOST_DRAWN)}.`] : [];
    const own = [...ends].map((text) => text()).filter((text) => text !== null);
    return await work([...rows, ...drawn, ...own]);
  } finally {
    saved = false;
    seen.end();
  }
}

export class VirtualRows {
  #scrolled = $state(0);
  #room = $state(600);
  readonly #count: () => number;

  constructor(
    private readonly height: number,
    count: () => number,
  ) {
    this.#count = count;
  }

  get count(): number {
    return this.#count();
  }

  get total(): number {
    return this.#count() * this.height;
  }

  get from(): number {
    return saved ? 0 : Math.max(0, Math.floor(this.#scrolled / this.height) - MORE);
  }

  get to(): number {
    if (saved) return Math.min(this.#count(), MOST_SAVED);
    return Math.min(this.#count(), Math.ceil((this.#scrolled + this.#room) / this.height) + MORE);
  }

  /** Action of the element that scrolls. */
  watch = (element: HTMLElement): { destroy: () => void } => {
    const scrolled = (): void => void (this.#scrolled = element.scrollTop);
    const observer = new ResizeObserver(() => (this.#room = element.clientHeight));
    element.addEventListener("scroll", scrolled, { passive: true });
    observer.observe(element);
    element.dataset["rows"] = "";
    lists.add(this);
    return {
      destroy: () => {
        lists.delete(this);
        element.removeEventListener("scroll", scrolled);
        observer.disconnect();
      },
    };
  };
}
