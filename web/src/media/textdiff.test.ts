import { describe, expect, it } from "vitest";
import { folded, lineDiff } from "./textdiff";

const shape = (a: string, b: string) =>
  lineDiff(a, b)!.map(({ kind, a, b, pieces }) => [kind, a, b, pieces.map(({ text }) => text).join("")]);

describe("lines", () => {
  it("keep their numbers in both texts", () => {
    expect(shape("one\ntwo\nthree\n", "one\n2\nthree\nfour")).toEqual([
      ["same", 1, 1, "one"],
      ["removed", 2, null, "two"],
      ["added", null, 2, "2"],
      ["same", 3, 3, "three"],
      ["added", null, 4, "four"],
    ]);
  });
  it("a changed line says which words changed", () => {
    const [removed, added] = lineDiff("lr is 0.1 now", "lr is 0.2 now")!;
    expect(
      removed!.pieces
        .filter(({ changed }) => changed)
        .map(({ text }) => text)
        .join(""),
    ).toContain("1");
    expect(
      added!.pieces
        .filter(({ changed }) => changed)
        .map(({ text }) => text)
        .join(""),
    ).toContain("2");
    expect(added!.pieces.map(({ text }) => text).join("")).toBe("lr is 0.2 now");
  });
  it("the same is the same, line ends of other systems included", () => {
    expect(shape("a\r\nb", "a\nb")).toEqual([
      ["same", 1, 1, "a"],
      ["same", 2, 2, "b"],
    ]);
  });
  it("an empty text has nothing to lose", () =>
    expect(lineDiff("", "x")!.map(({ kind }) => kind)).toEqual(["added"]));
  it("texts that have nothing in common are not aligned for ever", () => {
    const text = (word: string): string => Array.from({ length: 6000 }, (_, at) => `${word}${at}`).join("\n");
    expect(lineDiff(text("a"), text("b"))).toBeNull();
  });
});

describe("folds", () => {
  it("leave a few lines around each difference", () => {
    const lines = lineDiff(
      Array.from({ length: 20 }, (_, at) => `l${at}`).join("\n"),
      Array.from({ length: 20 }, (_, at) => (at === 10 ? "x" : `l${at}`)).join("\n"),
    )!;
    expect(folded(lines, 2).map((line) => (line.kind === "fold" ? line.count : line.kind))).toEqual([
      8,
      "same",
      "same",
      "removed",
      "added",
      "same",
      "same",
      7,
    ]);
  });
});
