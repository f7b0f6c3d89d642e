/** Most that work takes of a frame before the rest of it waits for the next. */
const TURN_MS = 8;

/** Does work that was asked for in frames to come: in each at least one piece, and as many as fit. */
export class Turns {
  readonly #waiting = new Map<string, () => void>();
  #asked = false;

  /** The newest work of a key takes the place of its earlier one. */
  ask(key: string, work: () => void): void {
    this.#waiting.set(key, work);
    this.#askForFrame();
  }

  drop(key: string): void {
    this.#waiting.delete(key);
  }

  get idle(): boolean {
    return this.#waiting.size === 0;
  }

  #run(): void {
    const end = performance.now() + TURN_MS;
    this.#asked = false;
    for (const [key, work] of this.#waiting) {
      this.#waiting.delete(key);
      work();
      if (performance.now() >= end) break;
    }
    if (!this.idle) this.#askForFrame();
  }

  #askForFrame(): void {
    if (this.#asked) return;
    this.#asked = true;
    requestAnimationFrame(() => this.#run());
  }
}
