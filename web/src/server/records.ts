/** Questions about what is not a scalar: histograms, images, sounds, texts. */
import type {
  RecordAnswer,
  RecordKind,
  RecordTag,
  RecordTags,
  RecordValue,
  TableDifferences,
  TableList,
  TableRows,
} from "./api";
import { compileRegex } from "../regex/regex.svelte";
import { addressOf, question, told } from "./client";

export const fetchRecordTags = async (run: string): Promise<RecordTag[]> =>
  (await told<RecordTags>("records", { run })).tags;

export const fetchRecord = (run: string, tag: string, limit: number): Promise<RecordAnswer> =>
  told("record", { run, tag, limit });

export const fetchTables = (run: string): Promise<TableList> => told("tables", { run });

/** What of a table is asked for: rows that a filter lets pass, in an order, from one place on. */
export interface TableQuestion {
  runs: readonly string[];
  tag: string;
  where?: string;
  sort?: string;
  up?: number;
  same?: string;
  row?: number;
  offset?: number;
  limit?: number;
}

/** A question about several runs; what is empty is not asked. */
function ofRuns(address: string, runs: readonly string[], query: object): string {
  const named = runs.map((run) => `run=${encodeURIComponent(run)}`).join("&");
  const asked = Object.entries(query).filter(
    ([, value]) => value !== undefined && value !== null && value !== "",
  );
  return question(`${address}?${named}`, Object.fromEntries(asked));
}

export const fetchTable = ({ runs, ...query }: TableQuestion): Promise<TableRows> =>
  told(ofRuns("table", runs, query));

/** What of a table differs between two runs, or two steps: pairs of rows from one place on. */
export interface DifferencesQuestion extends Omit<TableQuestion, "where" | "row" | "same"> {
  /** Steps of A and of B; null: the newest. */
  a: number | null;
  b: number | null;
  /** 1: also rows that do not differ. */
  same: number;
}

export const fetchTableDifferences = ({ runs, ...query }: DifferencesQuestion): Promise<TableDifferences> =>
  told(ofRuns("table_differences", runs, query));

/** A value with the writer and the attempt of which its bytes are asked. */
export interface Kept extends RecordValue {
  writer: string;
  attempt: number;
}

/** What a tag holds over all attempts. */
export interface History {
  /** How many values there are; those that came may be some of them, evenly. */
  total: number;
  values: readonly Kept[];
}

/** Address of the bytes of one value. */
export function blobAddress(run: string, tag: string, value: Kept, index: number): string {
  const { writer, attempt, at } = value;
  return addressOf(question("blob", { run, tag, writer, attempt, at, index }));
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

/** The values of all attempts of the writer of the newest; of a step that several recorded, the last counts. */
export function historyOf(answer: RecordAnswer): History | null {
  if (!answer.series.length) return null;
  const { writer } = answer.series.reduce((a, b) => (b.attempt >= a.attempt ? b : a));
  const own = answer.series.filter((each) => each.writer === writer).sort((a, b) => a.attempt - b.attempt);
  return {
    total: own.reduce((sum, each) => sum + each.total - (each.superseded ?? 0), 0),
    values: own.flatMap(({ attempt, values, superseded_from }) =>
      values
        .filter(({ step }) => step < (superseded_from ?? Infinity))
        .map((value) => ({ ...value, writer, attempt })),
    ),
  };
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
