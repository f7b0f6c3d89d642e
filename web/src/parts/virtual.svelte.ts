/** Which rows of a list of equal rows are on the screen. */
import { tick } from "svelte";

const MORE = 4;
/** Rows that a saved page holds of a list. */
export const MOST_SAVED = 5_000;

let saved = $state(false);
const lists = new Set<VirtualRows>();

/** Shows every row of every list until what is to be done is done.
 *
 * @param work: What is done then, given the rows of the longest list.
 */
export async function withEveryRow<T>(work: (longest: number) => Promise<T>): Promise<T> {
  saved = true;
  try {
    await tick();
    return await work(Math.max(0, ...[...lists].map((list) => list.count)));
  } finally {
    saved = false;
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
