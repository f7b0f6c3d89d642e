/** Most that work takes of a frame before the rest of it waits for the next: layout and painting of what it made come after it. */
const TURN_MS = 5;
/** Lines that are drawn in a frame, of several pieces of work: the browser paints them after it, when no clock of ours runs. */
const TURN_LINES = 220;

interface Work {
  run: () => void;
  lines: number;
}

/** Does work that was asked for in frames to come: in each at least one piece, and as many as fit. */
export class Turns {
  readonly #waiting = new Map<string, Work>();
  #asked = false;

  /** The newest work of a key takes the place of its earlier one.
   *
   * @param lines: That it draws.
   */
  ask(key: string, run: () => void, lines = 0): void {
    this.#waiting.set(key, { run, lines });
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
    let drawn = 0;
    for (const [key, { run, lines }] of this.#waiting) {
      if (drawn && drawn + lines > TURN_LINES) break;
      drawn += lines;
      this.#waiting.delete(key);
      run();
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
