/** Runs the newest of what was asked for, once per frame; what keeps asking does not keep it from running. */
export class EachFrame {
  #due = 0;
  #newest: (() => void) | null = null;

  ask(work: () => void): void {
    this.#newest = work;
    if (this.#due) return;
    this.#due = requestAnimationFrame(() => {
      this.#due = 0;
      this.#newest?.();
    });
  }

  stop(): void {
    cancelAnimationFrame(this.#due);
    this.#due = 0;
  }
}
