/** Embeddings of the runs in view: those of Stepscope and those that only a projector's config names. */
import { untrack } from "svelte";
import type { EmbeddingList } from "../server/api";
import { fetchEmbeddings } from "./labels";
import { app } from "../state/app.svelte";
import type { Tags } from "./records.svelte";
import { receive } from "../server/receive";

export interface RunEmbeddings extends EmbeddingList {
  family: string;
}

const RUNS = 24;

export class Embeddings {
  runs = $state.raw<readonly RunEmbeddings[]>([]);
  /** Whether the server has said which there are. */
  ready = $state(false);

  /** To be called once in a component; asks again when there are other tags, or values. */
  follow(tags: Tags): void {
    $effect(() => {
      void tags.families;
      const told = tags.ready;
      const families = untrack(() => app.shown.slice(0, RUNS));
      const asked = families.flatMap((family) => family.runs.map((run) => this.#of(run.name, family.name)));
      return receive(
        () => Promise.all(asked),
        (answers) => {
          this.runs = answers.flatMap((answer) =>
            answer && (answer.embeddings.length || answer.error !== null) ? [answer] : [],
          );
          this.ready = told;
        },
      );
    });
  }

  /** Ask for those of a run; what was known of it where the server does not answer. */
  async #of(run: string, family: string): Promise<RunEmbeddings | null> {
    const answer = await fetchEmbeddings(run).catch(() => null);
    return answer === null ? (this.runs.find((one) => one.run === run) ?? null) : { ...answer, family };
  }
}
