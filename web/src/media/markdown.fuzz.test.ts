import { describe, expect, it } from "vitest";
import { INPUTS, damaged } from "../view/fuzz";
import { rendered } from "./markdown";

const SEEDS = [
  "# One\n\ntwo\nlines\n\n- a\n- b\n  more\n\n1. x\n\n```py\ncode <b>\n```\n\n> said\n\n---\n\n| a | b\\|c |\n|---|:-:|\n| 1 | 2 |\n",
  "a **b *c*** `d` ~~e~~ [f](https://x.org 'title') <https://y.org> https://z.org",
  "[x](javascript:alert(1)) ![x](https://evil.test/a.png) <img src=x onerror=alert(1)> [a]: javascript:b\n[a][a]",
  "<script>alert(1)</script>\n<div style='x'>\n&lt;b&gt; &#60;img src=x&#62; &NewLine;",
  "> > > - - * 1. a\n\n\tcode\n\n***\n___\nTitle\n===\n[ref]: http://a.b 'c'\n[ref]",
];
/** Tags that Markdown makes; anything else would be the text's own. */
const MADE =
  /^<\/?(a|blockquote|br|code|em|hr|li|ol|p|pre|s|strong|table|tbody|td|th|thead|tr|ul)(\s[^<>]*)?>$/;
const ATTRIBUTES = /\s([^\s=]+)="/g;
const KNOWN = ["class", "href", "rel", "start", "tabindex", "target", "title"];

describe("any text", () => {
  it("becomes Markdown's own markup and nothing that acts", { timeout: 900_000 }, () => {
    for (const text of damaged(SEEDS, INPUTS)) {
      for (const tag of rendered(text).match(/<[^>]*>/g) ?? []) {
        expect(tag, text).toMatch(MADE);
        for (const [, name] of tag.matchAll(ATTRIBUTES)) expect(KNOWN, text).toContain(name);
        const href = /href="([^"]*)"/.exec(tag);
        if (href) expect(href[1], text).toMatch(/^https?:\/\//i);
      }
    }
  });
});
