/** What runs say of themselves: command, versions, ranks. Fetched once for each run and attempt. */
import type { Family } from "../runs/catalog";
import { fetchRecord, historyOf } from "../server/records";
import { receive } from "../server/receive";

const TAG = "stepscope/run";
const MOST = 24;
const known = new Map<string, Record<string, unknown>>();

export class RunInfo {
  #found = $state.raw<ReadonlyMap<string, Record<string, unknown>>>(new Map());
  /** Runs beyond those that are asked. */
  left = $state(0);
  readonly most = MOST;

  /** To be called once in a component. */
  follow(families: () => readonly Family[]): void {
    $effect(() => {
      const wanted = families().slice(0, MOST);
      this.left = families().length - wanted.length;
      const asked = wanted.map(async (family) => [family.name, await runInfo(family)] as const);
      return receive(
        () => Promise.all(asked),
        (answers) => (this.#found = new Map(answers)),
      );
    });
  }

  of(family: Family): Record<string, unknown> {
    return this.#found.get(family.name) ?? { host: family.main.host, version: family.main.version };
  }
}

async function runInfo(family: Family): Promise<Record<string, unknown>> {
  // Runs of other writers have no such record, and are not asked.
  const run = family.runs.find((one) => one.version !== null);
  if (!run) return {};
  const key = `${run.name}\n${run.attempts}\n${run.state}`;
  const before = known.get(key);
  if (before) return before;
  try {
    const facts = historyOf(await fetchRecord(run.name, TAG, 1))?.values.at(-1)?.facts ?? {};
    known.set(key, facts);
    return facts;
  } catch {
    return { host: run.host, version: run.version };
  }
}
