/** Questions about what is not a scalar: histograms, images, sounds, texts. */
import {
  API,
  type RecordAnswer,
  type RecordKind,
  type RecordSeries,
  type RecordTag,
  type RecordTags,
} from "./api";
import { compileRegex } from "../regex/regex.svelte";
import { ask } from "./client";

const encoded = (query: Record<string, string | number>): string =>
  Object.entries(query)
    .map(([key, value]) => `${key}=${encodeURIComponent(value)}`)
    .join("&");

export async function fetchRecordTags(run: string): Promise<RecordTag[]> {
  return ((await (await ask(`records?${encoded({ run })}`)).json()) as RecordTags).tags;
}

export async function fetchRecord(run: string, tag: string, limit: number): Promise<RecordAnswer> {
  return (await (await ask(`record?${encoded({ run, tag, limit })}`)).json()) as RecordAnswer;
}

/** Address of the bytes of one value. */
export function blobAddress(
  run: string,
  tag: string,
  series: RecordSeries,
  at: number,
  index: number,
): string {
  return `${API}blob?${encoded({ run, tag, writer: series.writer, attempt: series.attempt, at, index })}`;
}

/** Whether a tag matches what was typed: a regex without regard to case, or plain text where it is none. */
export function tagFilter(text: string): (tag: string) => boolean {
  try {
    const pattern = compileRegex(text, { ignoreCase: true });
    return (tag) => pattern.test(tag);
  } catch {
    return (tag) => tag.includes(text);
  }
}

/** The series of the newest attempt. */
export function newest(answer: RecordAnswer): RecordSeries | null {
  return answer.series.length ? answer.series.reduce((a, b) => (b.attempt >= a.attempt ? b : a)) : null;
}

/** The value nearest to a step from below, else the first; null step: the newest. */
export function atStep<T extends { step: number }>(values: readonly T[], step: number | null): T | null {
  if (!values.length) return null;
  if (step === null) return values.at(-1)!;
  let found = values[0]!;
  for (const value of values) if (value.step <= step) found = value;
  return found;
}

export function ofKinds<T extends RecordTag>(tags: readonly T[], ...kinds: RecordKind[]): T[] {
  return tags.filter((tag) => kinds.includes(tag.kind));
}
