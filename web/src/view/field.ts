/** Fields of the view: how each is named, written and read in the address. */

/** `read` never fails: what it cannot read is as by default. */
export interface Field<T> {
  readonly name: string;
  readonly initial: T;
  /** Whether the back button takes back a change of it. */
  readonly visited: boolean;
  write(value: T): string;
  read(text: string): T;
}

/** What is known of a part of the view, by field. */
export type Values<Fields> = {
  -readonly [K in keyof Fields]: Fields[K] extends Field<infer T> ? T : never;
};

function field<T>(
  name: string,
  initial: T,
  write: (value: T) => string,
  read: (text: string) => T,
): Field<T> {
  return { name, initial, visited: false, write, read };
}

/** The same field, whose changes the back button takes back. */
export function visited<T>(field: Field<T>): Field<T> {
  return { ...field, visited: true };
}

export function text(name: string, initial = ""): Field<string> {
  return field(name, initial, String, String);
}

/** A text that may be missing. */
export function optional(name: string): Field<string | null> {
  return field<string | null>(name, null, String, String);
}

export function flag(name: string, initial?: boolean): Field<boolean>;
export function flag(name: string, initial: null): Field<boolean | null>;
export function flag(name: string, initial: boolean | null = false): Field<never> {
  const write = (value: boolean | null): string => (value ? "1" : "0");
  return field<boolean | null>(name, initial, write, (text) => text === "1") as Field<never>;
}

/** Texts with commas between them. */
export function list(name: string): Field<string[]> {
  return field<string[]>(
    name,
    [],
    (texts) => texts.map((one) => one.replace(/[\\,]/g, "\\$&")).join(","),
    (text) =>
      [...text.matchAll(/((?:[^\\,]|\\.)+)(?:,|$)/g)].map((match) => match[1]!.replace(/\\(.)/g, "$1")),
  );
}

/** One of several words, the first by default. */
export function choice<T extends string>(name: string, words: readonly [T, ...T[]]): Field<T> {
  return field<T>(name, words[0], String, (text) => words.find((word) => word === text) ?? words[0]);
}

/** A number between two others. */
export function amount(name: string, initial: number, least: number, most: number): Field<number> {
  return field(name, initial, shortNumber, (text) => {
    const value = Number(text);
    return Number.isFinite(value) ? Math.min(most, Math.max(least, value)) : initial;
  });
}

/** A row or a step: a whole number from 0. */
export function place(name: string): Field<number | null> {
  return field<number | null>(name, null, String, (text) => (/^\d{1,10}$/.test(text) ? Number(text) : null));
}

/** A stretch of an axis, as `from-to`. */
export function stretch(name: string): Field<[number, number] | null> {
  return field<[number, number] | null>(
    name,
    null,
    (value) => (value ? value.map(shortNumber).join("-") : ""),
    readStretch,
  );
}

function readStretch(text: string): [number, number] | null {
  const match = /^(-?[\d.]+(?:e[+-]?\d+)?)-(-?[\d.]+(?:e[+-]?\d+)?)$/i.exec(text);
  const from = Number(match?.[1]);
  const to = Number(match?.[2]);
  return match && Number.isFinite(from) && Number.isFinite(to) && from < to ? [from, to] : null;
}

function shortNumber(value: number): string {
  return String(Number(value.toPrecision(15)));
}
