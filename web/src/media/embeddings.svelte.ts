/** Embeddings of the runs in view: those of Stepscope and those that only a projector's config names. */
import { untrack } from "svelte";
import type { EmbeddingList } from "../core/api";
import { fetchEmbeddings } from "../core/embeddings";
import { app } from "../state/app.svelte";
import type { Tags } from "./records.svelte";

export interface RunEmbeddings extends EmbeddingList {
  family: string;
}

const RUNS = 24;

export class Embeddings {
  runs = $state.raw<readonly RunEmbeddings[]>([]);

  /** To be called once in a component; asks again when there are other tags, or values. */
  follow(tags: Tags): void {
    $effect(() => {
      void tags.families;
      const families = untrack(() => app.shown.slice(0, RUNS));
      let gone = false;
      const asked = families.flatMap((family) => family.runs.map(async (run) => ({ ...(await fetchEmbeddings(run.name)), family: family.name })));
      void Promise.allSettled(asked).then((answers) => {
        if (gone) return;
        const found = answers.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value] : []));
        this.runs = found.filter(({ embeddings, error }) => embeddings.length || error !== null);
      });
      return () => (gone = true);
    });
  }
}
