/** What people say of runs: sent to the server, which tells every page. */
import type { Described, MeaningChange, RunChange, StepSaid, TrashList, ViewList } from "../server/api";
import { ask, messageOf, post } from "../server/client";
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

export async function trash(): Promise<TrashList> {
  return (await (await ask("trash")).json()) as TrashList;
}

export async function restoreRun(id: string): Promise<TrashList> {
  const left = (await (await post("trash/restore", { id })).json()) as TrashList;
  app.poke();
  return left;
}

export async function emptyTrash(id: string): Promise<TrashList> {
  return (await (await post("trash/empty", { id })).json()) as TrashList;
}

export async function savedViews(): Promise<ViewList> {
  return (await (await ask("views")).json()) as ViewList;
}

export async function saveView(name: string, hash: string): Promise<ViewList> {
  return (await (await post("views/save", { name, hash })).json()) as ViewList;
}

export async function forgetView(name: string): Promise<ViewList> {
  return (await (await post("views/forget", { name })).json()) as ViewList;
}

/** The meaning of a tag, and the evidence for it. */
export async function meaningOf(tag: string): Promise<Described> {
  return (await (await ask(`meaning?tag=${encodeURIComponent(tag)}`)).json()) as Described;
}

/** Corrects the meaning of a tag; facts that are left out stay, null is what the name says. */
export async function correctMeaning(change: MeaningChange): Promise<Described> {
  const meaning = (await (await post("meaning/correct", change)).json()) as Described;
  app.poke();
  return meaning;
}

/** What went wrong, in words. */
export function failure(error: unknown): string {
  const hint = error instanceof Error && "hint" in error && typeof error.hint === "string" ? error.hint : "";
  return `${messageOf(error)}${hint ? `. ${hint}` : ""}`;
}
