/** Tags and values of records, asked for again while their run is written. */
import { untrack } from "svelte";
import type { RecordAnswer, RecordTag } from "../server/api";
import { messageOf } from "../server/client";
import type { Family } from "../runs/catalog";
import { atStep, fetchRecord, fetchRecordTags, historyOf, type History } from "../server/records";
import { app } from "../state/app.svelte";
import { receive } from "../server/receive";

export interface Entry extends RecordTag {
  run: string;
}

/** A run that the server did not answer about, and why. */
export interface NotRead {
  run: string;
  why: string;
}

/** Each run once. */
export const withoutRepeats = (failures: readonly NotRead[]): NotRead[] => [
  ...new Map(failures.map((failure) => [failure.run, failure])).values(),
];

/** Every record tag of some families, by family, and the runs of which they are not known.
 *
 * @param before: What was known: it stays of runs without an answer.
 */
async function tagsOf(
  families: readonly Family[],
  before: ReadonlyMap<string, readonly Entry[]>,
): Promise<[Map<string, Entry[]>, NotRead[]]> {
  const failures: NotRead[] = [];
  const found = await Promise.all(
    families.map(async (family) => {
      const runs = await Promise.all(
        family.runs.map(async ({ name: run }) =>
          fetchRecordTags(run)
            .then((tags) => tags.map((tag) => ({ ...tag, run })))
            .catch((error: unknown) => {
              failures.push({ run, why: messageOf(error) });
              return (before.get(family.name) ?? []).filter((entry) => entry.run === run);
            }),
        ),
      );
      return [family.name, runs.flat()] as const;
    }),
  );
  return [new Map(found.filter(([, tags]) => tags.length)), failures];
}

const AGAIN_MS = 2_500;
/** Runs in view whose records are asked for. */
export const RUNS = 24;
/** Values of a record that can be chosen from. */
const MOST_VALUES = 500;

/** Tags of the runs in view, kept up to date as long as it is used. */
export class Tags {
  families = $state.raw<ReadonlyMap<string, readonly Entry[]>>(new Map());
  ready = $state(false);
  /** Runs of which it is not known what they have; empty: it is known. */
  failures = $state.raw<readonly NotRead[]>([]);
  /** Whether all runs in view are known: what they have is then asked for at once. */
  readonly #settled = $derived(app.answers > 0 && app.catalog.loading === null);
  readonly #names = $derived(
    app.shown
      .slice(0, RUNS)
      .map((family) => family.name)
      .join("\n"),
  );

  /** To be called once in a component. */
  follow(): void {
    $effect(() => {
      void this.#names;
      void this.#settled;
      let heard = 0;
      const look = async () => {
        const known = app.shown.slice(0, RUNS);
        // A run that wrote nothing since then has no new records.
        const newest = Math.max(0, ...known.map((family) => family.main.updated ?? 0));
        if (this.ready && newest === heard) return null;
        const [found, failures] = await tagsOf(
          known,
          untrack(() => this.families),
        );
        return { newest, found, failures };
      };
      return receive(
        look,
        (answer) => {
          if (!answer) return;
          this.failures = answer.failures;
          // What is shown stays while the server does not answer, and is asked for again.
          if (!answer.failures.length) heard = answer.newest;
          this.families = answer.found;
          this.ready = this.#settled;
        },
        undefined,
        { every: AGAIN_MS },
      );
    });
  }
}

/** A table is also written as a text for other viewers; here it stands once. */
export const withoutTwins = (entries: readonly Entry[]): Entry[] =>
  entries.filter((entry) => !entry.of_table);

/** A tag, and what each family has under it. */
export interface Row {
  tag: string;
  cells: { family: string; entry: Entry }[];
}

/** Entries of some families by tag, in the order of names. */
export function rowsOf(
  families: readonly { family: string; entries: readonly Entry[] }[],
  wanted: (tag: string) => boolean = () => true,
): Row[] {
  const found = new Map<string, Row>();
  for (const { family, entries } of families) {
    for (const entry of entries) {
      if (!wanted(entry.tag)) continue;
      const row = found.get(entry.tag) ?? { tag: entry.tag, cells: [] };
      row.cells.push({ family, entry });
      found.set(entry.tag, row);
    }
  }
  return [...found.values()].sort((a, b) => a.tag.localeCompare(b.tag, undefined, { numeric: true }));
}

/** Every step at which anything on the page was recorded. */
export class KnownSteps {
  #known = $state.raw<ReadonlyMap<string, readonly number[]>>(new Map());
  all = $derived([...new Set([...this.#known.values()].flat())].sort((a, b) => a - b));

  learn(entry: Entry, steps: readonly number[]): void {
    const key = `${entry.run}\n${entry.tag}`;
    if (this.#known.get(key)?.length !== steps.length) this.#known = new Map([...this.#known, [key, steps]]);
  }
}

/** What a record holds over all attempts, and its value at the step of the page. */
export class Shown {
  history = $state.raw<History | null>(null);
  failure = $state<string | null>(null);
  value = $derived(this.history ? atStep(this.history.values, app.view.records.step) : null);

  /** To be called in an effect; returns what ends it. */
  follow(
    entry: Entry,
    onsteps: (steps: readonly number[], most: number, shape: readonly number[] | null) => void,
  ): () => void {
    return receive(
      () => recordCache.get(entry, MOST_VALUES),
      (answer) => {
        this.history = historyOf(answer);
        const values = this.history?.values ?? [];
        onsteps(
          values.map((value) => value.step),
          Math.max(0, ...values.map((value) => value.blobs?.length ?? 0)),
          values.at(-1)?.shape ?? null,
        );
      },
      (error) => (this.failure = messageOf(error)),
    );
  }
}

/** A record's values, fetched anew only where there are more of them. */
class Cache {
  readonly #answers = new Map<string, { count: number; answer: Promise<RecordAnswer> }>();

  get(entry: Entry, limit: number): Promise<RecordAnswer> {
    const key = `${entry.run}\n${entry.tag}\n${limit}`;
    const known = this.#answers.get(key);
    if (known && known.count === entry.count) return known.answer;
    const answer = fetchRecord(entry.run, entry.tag, limit);
    this.#answers.set(key, { count: entry.count, answer });
    answer.catch(() => this.#answers.delete(key));
    if (this.#answers.size > 400) this.#answers.delete(this.#answers.keys().next().value!);
    return answer;
  }
}

export const recordCache = new Cache();
