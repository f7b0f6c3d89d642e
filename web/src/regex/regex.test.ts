import { beforeAll, describe, expect, it } from "vitest";
import { compileRegex, isPlain, loadEngine, reasonOf } from "./regex.svelte";

const HOSTILE = [
  "(a|aa|a)*b",
  "(a+)+$",
  "a*a*a*a*a*a*a*a*b",
  "(.*)(.*)(.*)(.*)(.*)x",
  "a?".repeat(40) + "b",
  "(a{1,40}){1,20}b",
];

describe("which engine", () => {
  it.each(["", "loss", "loss|accuracy", "^train/.*loss$", "a+", "layer[0-9]", "\\.weight", "[^/]+/norm"])(
    "the browser's own: %s",
    (pattern) => expect(isPlain(pattern)).toBe(true),
  );
  it.each([
    ...HOSTILE,
    "(a)\\1",
    "(?=a)b",
    "\\p{L}",
    "a{2}",
    "\\e",
    "[^a".repeat(30),
    "x".repeat(2000),
    "a*?",
  ])("RE2: %s", (pattern) => expect(isPlain(pattern)).toBe(false));
});

describe("before RE2 is there", () => {
  it("what needs it matches nothing, and what does not is matched", () => {
    expect(compileRegex("(a|b)+").test("ab")).toBe(false);
    expect(compileRegex("a").test("ab")).toBe(true);
  });
});

describe("regexes", () => {
  beforeAll(() => loadEngine());

  it.each(HOSTILE)("end at once: %s", (pattern) =>
    expect(compileRegex(pattern, { ignoreCase: true }).test("a".repeat(5000))).toBe(pattern === "(a+)+$"),
  );
  it("of one repetition end at once in a long text", () =>
    expect(compileRegex("a+$").test("a".repeat(200_000) + "b")).toBe(false));
  it.each(["loss", "(loss|acc)", "^(train|eval)/.*loss$", "L.SS", "a.*b.*c", "(?:x){2}"])(
    "match what the browser's engine matches: %s",
    (pattern) => {
      const texts = [
        "loss",
        "train/my_loss",
        "eval/LOSS",
        "acc",
        "a1b2c3",
        "xx",
        "x",
        "",
        "line\nloss",
        "µs",
      ];
      const native = new RegExp(pattern, "i");
      const ours = compileRegex(pattern, { ignoreCase: true });
      expect(texts.map((text) => ours.test(text))).toEqual(texts.map((text) => native.test(text)));
    },
  );
  it("give groups, those without a part of the text as undefined", () => {
    expect(compileRegex("(a+)(x)?-(\\d+)").match("..aa-12")).toEqual(["aa-12", "aa", undefined, "12"]);
    expect(compileRegex("(a+)+b").match("c")).toBeNull();
  });
  it("keep a newly compiled pattern apart from case", () => {
    expect(compileRegex("(a)+").test("A")).toBe(false);
    expect(compileRegex("(a)+", { ignoreCase: true }).test("A")).toBe(true);
  });
  it.each(["(", "[a", "a**", "(?=a)", "(a)\\1"])("that are none say why: %s", (pattern) => {
    let said = "";
    try {
      compileRegex(pattern);
    } catch (error) {
      said = reasonOf(error);
    }
    expect(said).toMatch(/^Not a regex: \S/);
  });
});
