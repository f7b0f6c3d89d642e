import { describe, expect, it } from "vitest";
import { rendered } from "./markdown";

describe("markdown", () => {
  it("knows headings, paragraphs, lists, code, quotes, rules and tables", () => {
    const text =
      "# One\n\ntwo\nlines\n\n- a\n- b\n  more\n\n1. x\n\n```py\ncode <b>\n```\n\n> said\n\n---\n\n| a | b\\|c |\n|---|:-:|\n| 1 | 2 |\n";
    const html = rendered(text);
    expect(html).toContain('<p class="heading large">One</p>');
    expect(html).toContain("<p>two<br>\nlines</p>");
    expect(html).toContain("<li>b<br>\nmore</li>");
    expect(html).toContain("<ol>\n<li>x</li>\n</ol>");
    expect(html).toContain('<pre tabindex="0">code &lt;b&gt;\n</pre>');
    expect(html).toContain("<blockquote>\n<p>said</p>\n</blockquote>");
    expect(html).toContain("<hr>");
    expect(html).toContain('<th>a</th>\n<th class="center">b|c</th>');
  });

  it("knows emphasis inside emphasis, code and links to web pages", () => {
    expect(rendered("a **b *c*** `d` ~~e~~ [f](https://x.org)")).toBe(
      '<p>a <strong>b <em>c</em></strong> <code>d</code> <s>e</s> <a href="https://x.org" target="_blank" rel="noopener noreferrer">f</a></p>\n',
    );
  });

  it("makes nothing of markup, images and other schemes", () => {
    for (const text of [
      "<script>alert(1)</script>",
      "<img src=x onerror=alert(1)>",
      "![x](https://evil.test/a.png)",
      "[x](javascript:alert(1))",
      "[x](data:text/html,a)",
      "<javascript:alert(1)>",
      "[x](/api/v1/trash/empty)",
      '| a |\n|:-:|\n| <b style="x">1 |',
    ]) {
      const html = rendered(text);
      expect(html).not.toMatch(/<(script|img|b)\b|<[^>]*(style|src|on\w+)=/);
      expect(html.match(/href="[^"]*"/g) ?? []).toSatisfy((hrefs: string[]) =>
        hrefs.every((href) => href.startsWith('href="https://')),
      );
    }
  });

  it("ends with any input", () => {
    for (const text of ["", "```", "|\n|-|", "> ", "- ", "* ", "#", "****", "    ", "\t", "a\n# b", "1)"])
      expect(typeof rendered(text)).toBe("string");
    expect(rendered("[".repeat(20_000)).length).toBeGreaterThan(20_000);
    expect(rendered("> ".repeat(20_000)).length).toBeGreaterThan(0);
  });
});
