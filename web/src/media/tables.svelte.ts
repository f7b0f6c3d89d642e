/** The tables of the runs in view, each over all steps and runs. */
import { fetchTables } from "../server/records";
import { app } from "../state/app.svelte";
import { RUNS, type Tags } from "./records.svelte";

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

  /** To be called once in a component; looks again when the tags of the runs have been looked at. */
  follow(tags: Tags): void {
    $effect(() => {
      void tags.families;
      const runs = app.shown
        .slice(0, RUNS)
        .flatMap((family) => family.runs.map((run) => ({ run: run.name, family: family.name })));
      let gone = false;
      void Promise.all(
        runs.map(async (one) => ({ ...one, tables: (await fetchTables(one.run).catch(() => null))?.tables })),
      ).then((found) => {
        if (gone) return;
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
      });
      return () => (gone = true);
    });
  }
}
