/** What people say of runs: sent to the server, which tells every page. */
import type { Described, MeaningChange, RunChange, StepSaid, TrashList, ViewList } from "../server/api";
import { messageOf, post, sent, told } from "../server/client";
import { app } from "./app.svelte";

/** Says something of a run; what is left out stays as it is. */
export async function changeRun(change: RunChange): Promise<void> {
  await post("run", change);
  app.poke();
}

/** Keeps a note on a step of a run; without text there is none. */
export async function noteStep(run: string, step: number, text: string): Promise<void> {
  await post("run/step", { run, step, text } satisfies StepSaid);
  app.poke();
}

/** Moves a run into the trash. */
export async function deleteRun(run: string): Promise<void> {
  await post("run/delete", { run, confirm: run });
  app.poke();
}

export const trash = (): Promise<TrashList> => told("trash");

export async function restoreRun(id: string): Promise<TrashList> {
  const left = await sent<TrashList>("trash/restore", { id });
  app.poke();
  return left;
}

export const emptyTrash = (id: string): Promise<TrashList> => sent("trash/empty", { id });

export const savedViews = (): Promise<ViewList> => told("views");

export const saveView = (name: string, hash: string): Promise<ViewList> => sent("views/save", { name, hash });

export const forgetView = (name: string): Promise<ViewList> => sent("views/forget", { name });

/** The meaning of a tag, and the evidence for it. */
export const meaningOf = (tag: string): Promise<Described> => told("meaning", { tag });

/** Corrects the meaning of a tag; facts that are left out stay, null is what the name says. */
export async function correctMeaning(change: MeaningChange): Promise<Described> {
  const meaning = await sent<Described>("meaning/correct", change);
  app.poke();
  return meaning;
}

/** What went wrong, in words. */
export function failure(error: unknown): string {
  const hint = error instanceof Error && "hint" in error && typeof error.hint === "string" ? error.hint : "";
  return `${messageOf(error)}${hint ? `. ${hint}` : ""}`;
}
