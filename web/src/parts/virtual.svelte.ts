/** Which rows of a list of equal rows are on the screen. */

const MORE = 4;

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

  get total(): number {
    return this.#count() * this.height;
  }

  get from(): number {
    return Math.max(0, Math.floor(this.#scrolled / this.height) - MORE);
  }

  get to(): number {
    return Math.min(this.#count(), Math.ceil((this.#scrolled + this.#room) / this.height) + MORE);
  }

  /** Action of the element that scrolls. */
  watch = (element: HTMLElement): { destroy: () => void } => {
    const scrolled = (): void => void (this.#scrolled = element.scrollTop);
    const observer = new ResizeObserver(() => (this.#room = element.clientHeight));
    element.addEventListener("scroll", scrolled, { passive: true });
    observer.observe(element);
    return {
      destroy: () => {
        element.removeEventListener("scroll", scrolled);
        observer.disconnect();
      },
    };
  };
}
