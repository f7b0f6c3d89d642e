/** When a view shows what would move while its answers come: once they are there, or once that has taken long. */

const PATIENCE_MS = 2_000;

export class Settled {
  /** What it has shown. */
  #seen = $state<string | null>(null);
  readonly #there: boolean;

  /** To be made while a component is.
   *
   * @param of: What is shown: of another subject answers are waited for anew.
   * @param ready: Whether the answers are there.
   */
  constructor(
    private readonly of: () => string,
    ready: () => boolean,
  ) {
    this.#there = $derived(ready());
    $effect(() => {
      const subject = of();
      if (this.#there) return void (this.#seen = subject);
      const timer = setTimeout(() => (this.#seen = subject), PATIENCE_MS);
      return () => clearTimeout(timer);
    });
  }

  get is(): boolean {
    return this.#there || this.#seen === this.of();
  }
}
