/** The tables of the runs in view, each over all steps and runs. */
import { fetchTables } from "../server/records";
import { messageOf } from "../server/client";
import { app } from "../state/app.svelte";
import { RUNS, type NotRead, type Tags } from "./records.svelte";
import { receive } from "../server/receive";

export interface TableOfRuns {
  tag: string;
  name: string;
  runs: { run: string; family: string }[];
  /** Another one if any of it changed. */
  version: string;
}

export class Tables {
  all = $state.raw<readonly TableOfRuns[]>([]);
  ready = $state(false);
  /** Runs of which it is not known what tables they have. */
  failures = $state.raw<readonly NotRead[]>([]);

  /** To be called once in a component; looks again when the tags of the runs have been looked at. */
  follow(tags: Tags): void {
    $effect(() => {
      void tags.families;
      const runs = app.shown
        .slice(0, RUNS)
        .flatMap((family) => family.runs.map((run) => ({ run: run.name, family: family.name })));
      const failures: NotRead[] = [];
      const asked = runs.map(async (one) => {
        const answer = await fetchTables(one.run).catch((error: unknown) => {
          failures.push({ run: one.run, why: messageOf(error) });
          return null;
        });
        return { ...one, tables: answer?.tables };
      });
      const take = (found: Awaited<(typeof asked)[number]>[]): void => {
        this.failures = failures;
        const byTag = new Map<string, TableOfRuns>();
        for (const { run, family, tables } of found) {
          for (const { tag, name, version } of tables ?? []) {
            const table = byTag.get(tag) ?? { tag, name, runs: [], version: "" };
            byTag.set(tag, {
              ...table,
              runs: [...table.runs, { run, family }],
              version: `${table.version} ${version}`,
            });
          }
        }
        this.all = [...byTag.values()].sort((a, b) => a.tag.localeCompare(b.tag));
        this.ready = tags.ready;
      };
      return receive(() => Promise.all(asked), take);
    });
  }
}
