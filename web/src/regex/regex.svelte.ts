/** Regexes of users, and of whoever wrote the link that was opened: matched in time linear in the text.
 *
 * A browser's own engine tries every way to match and can be kept at it for good. It is asked only where one
 * look is enough; anything else goes to RE2, which is fetched when a pattern first needs it.
 */
import type { RE2JS } from "re2js";

export interface Regex {
  test(text: string): boolean;
  /** The match, then its groups; null where there is none. */
  match(text: string): (string | undefined)[] | null;
}

/** Texts that the browser's engine may be given: one repetition goes through them once for each place to begin. */
const SHORT = 1000;
const ONE = String.raw`(?:[^\\()[\]{}*+?]|\\[dDwWsSbBtnrfv\W]|\[(?:[^\\\]]|\\[dDwWsStnrfv\W])+\])`;
/** Letters, classes, anchors and alternatives, and one repetition of one of them; without groups nothing is tried twice. */
const PLAIN = new RegExp(`^${ONE}*$|^${ONE}+[*+?]${ONE}*$`, "s");

let engine = $state.raw<typeof RE2JS | null>(null);
let asked: Promise<void> | null = null;

/** Fetches RE2; what was derived from a pattern without it is derived again. */
export function loadEngine(): Promise<void> {
  asked ??= import("re2js").then(
    (found) => void (engine = found.RE2JS),
    (error: unknown) => {
      asked = null; // the next pattern tries again
      throw error;
    },
  );
  return asked;
}

/** Whether the browser's own engine looks at each place of a short text once. */
export function isPlain(pattern: string): boolean {
  return pattern.length <= SHORT && PLAIN.test(pattern);
}

/** Reads a pattern.
 *
 * Until RE2 is there, what needs it matches nothing.
 *
 * @throws Error: The pattern is none; see `reasonOf`.
 */
export function compileRegex(pattern: string, { ignoreCase = false } = {}): Regex {
  // Reading a pattern is quick in any engine, and says at once what is none; only matching may not be.
  const read = new RegExp(pattern, ignoreCase ? "i" : "");
  const plain: Regex | null = isPlain(pattern)
    ? { test: (text) => read.test(text), match: (text) => read.exec(text) }
    : null;
  let linear: Regex | null = null;
  const slow = (): Regex | null => {
    if (linear) return linear;
    if (engine) return (linear = linearRegex(engine, pattern, ignoreCase));
    loadEngine().catch(() => undefined); // without a server nothing on the page is new
    return null;
  };
  if (!plain) slow();
  const choose = (text: string): Regex | null => (plain && text.length <= SHORT ? plain : slow());
  return {
    test: (text) => choose(text)?.test(text) ?? false,
    match: (text) => choose(text)?.match(text) ?? null,
  };
}

function linearRegex(RE2: typeof RE2JS, pattern: string, ignoreCase: boolean): Regex {
  const compiled = RE2.compile(pattern, ignoreCase ? RE2.CASE_INSENSITIVE : 0);
  return {
    test: (text) => compiled.test(text),
    match: (text) => {
      const found = compiled.matcher(text);
      if (!found.find()) return null;
      const groups = Array.from(
        { length: found.groupCount() + 1 },
        (_, at) => found.group(at) as string | null,
      );
      return groups.map((group) => group ?? undefined);
    },
  };
}

/** Why a pattern is none, for people. */
export function reasonOf(error: unknown): string {
  const said = error instanceof Error ? error.message : String(error);
  const reason = said
    .replace(/^(?:Invalid regular expression|error parsing regexp): /i, "")
    .replace(/^\/.*\/[a-z]*: /s, "");
  return `Not a regex: ${reason}`;
}
