/** The events that a search found: a page of them at a time, as there may be millions. */
import type { SearchAnswer } from "../server/api";
import { fetchSearch } from "./questions";

export class Hits {
  found = $state.raw<SearchAnswer | null>(null);
  /** Place of the chosen one among all; -1: none is. */
  at = $state(-1);
  #text = "";

  /** @param choose Called with the row of the one that is gone to. */
  constructor(
    readonly path: string,
    readonly choose: (row: number) => void,
  ) {}

  /** What is looked for changes: answers about what was looked for before choose nothing any more. */
  expect(text: string): void {
    this.#text = text;
  }

  /** Searches, and goes to the first hit from a time on, unless something is chosen already. */
  async look(text: string, start: number, chosen: number | null): Promise<void> {
    this.expect(text);
    if (!text) {
      this.found = null;
      this.at = -1;
      return;
    }
    const found = await fetchSearch(this.path, text, { start }).catch(() => null);
    if (this.#text !== text) return;
    this.found = found;
    const place = found?.hits.findIndex((one) => one.row === chosen) ?? -1;
    this.at = place < 0 ? -1 : found!.skip + place;
    if (chosen === null && found?.hits.length) await this.go(found.skip);
  }

  /** Goes to a hit by its place, round at the ends. */
  async go(place: number): Promise<void> {
    const [text, known] = [this.#text, this.found];
    if (!known?.total) return;
    const at = (place + known.total) % known.total;
    if (at < known.skip || at >= known.skip + known.hits.length) {
      const found = await fetchSearch(this.path, text, { skip: Math.max(0, at - 100) }).catch(() => null);
      if (!found?.hits.length || this.#text !== text) return;
      this.found = found;
    }
    this.at = at;
    const hit = this.found!.hits[at - this.found!.skip];
    if (hit) this.choose(hit.row);
  }
}
