import { describe, expect, it } from "vitest";
import { blocksOf, inlinesOf } from "./markdown";

describe("markdown", () => {
  it("knows headings, paragraphs, lists, code, quotes, rules and tables", () => {
    const text =
      "# One\n\ntwo\nlines\n\n- a\n- b\n  more\n\n1. x\n\n```py\ncode <b>\n```\n\n> said\n\n---\n\n| a | b\\|c |\n|---|:-:|\n| 1 | 2 |\n\n    indented";
    expect(blocksOf(text).map((block) => block.kind)).toEqual([
      "heading",
      "paragraph",
      "list",
      "list",
      "code",
      "quote",
      "rule",
      "table",
      "code",
    ]);
    const [heading, , list, , code, , , table] = blocksOf(text);
    expect(heading).toEqual({ kind: "heading", level: 1, inlines: [{ kind: "text", text: "One" }] });
    expect(list).toEqual({
      kind: "list",
      ordered: false,
      items: [[{ kind: "text", text: "a" }], [{ kind: "text", text: "b more" }]],
    });
    expect(code).toEqual({ kind: "code", text: "code <b>" });
    expect(table).toMatchObject({
      head: [[{ text: "a" }], [{ text: "b|c" }]],
      rows: [[[{ text: "1" }], [{ text: "2" }]]],
    });
  });

  it("knows emphasis, code and links to web pages", () => {
    expect(inlinesOf("a **b** *c* `d` ~~e~~ [f](https://x.org)")).toEqual([
      { kind: "text", text: "a " },
      { kind: "strong", text: "b" },
      { kind: "text", text: " " },
      { kind: "em", text: "c" },
      { kind: "text", text: " " },
      { kind: "code", text: "d" },
      { kind: "text", text: " " },
      { kind: "strike", text: "e" },
      { kind: "text", text: " " },
      { kind: "link", text: "f", href: "https://x.org" },
    ]);
  });

  it("makes nothing of scripts, images and other schemes", () => {
    for (const text of [
      "<script>alert(1)</script>",
      "[x](javascript:alert(1))",
      "![x](https://evil.test/a.png)",
      "[x](data:text/html,a)",
    ]) {
      const kinds = inlinesOf(text).map((one) => (one.kind === "link" ? one.href : "text"));
      expect(kinds.filter((one) => one !== "text" && !one.startsWith("https://"))).toEqual([]);
    }
    expect(inlinesOf("[x](javascript:alert(1))").every((one) => one.kind === "text")).toBe(true);
  });

  it("ends with any input", () => {
    for (const text of ["", "```", "|\n|-|", "> ", "- ", "* ", "#", "****", "    ", "\t", "a\n# b", "1)"])
      expect(Array.isArray(blocksOf(text))).toBe(true);
  });
});
