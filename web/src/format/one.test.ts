/** One rule for numbers: no page makes text of a number by itself. */
import { readFileSync, readdirSync } from "node:fs";
import { describe, expect, it } from "vitest";

const SOURCE = new URL("..", import.meta.url).pathname;
/** The address and the drawing into a file round numbers that nobody reads. */
const NOT_READ = ["view/field.ts", "chart/export/svg.ts", "chart/export/dom.ts"];
const files = readdirSync(SOURCE, { recursive: true, encoding: "utf8" }).filter(
  (file) =>
    /\.(ts|svelte)$/.test(file) &&
    !file.endsWith(".test.ts") &&
    !file.startsWith("format/") &&
    !NOT_READ.includes(file),
);

/** Lines of the page's own sources that match. */
function found(pattern: RegExp): string[] {
  return files.flatMap((file) =>
    readFileSync(SOURCE + file, "utf8")
      .split("\n")
      .flatMap((line, at) => (pattern.test(line) ? [`${file}:${at + 1} ${line.trim()}`] : [])),
  );
}

describe("numbers as text", () => {
  it("looks at the sources", () => expect(files.length).toBeGreaterThan(200));
  it("are made by format/ alone", () =>
    expect(found(/\.to(Fixed|Precision|Exponential|LocaleString)\(|Intl\.NumberFormat/)).toEqual([]));
  it("get their unit from there too", () =>
    expect(found(/\}(\$\{GAP\}|\s|&nbsp;)(%|ns|µs|ms|[KMGT]iB|[kMGT]?B(\/s)?|FLOP)(\W|$)/)).toEqual([]));
  it("are counted in words by one function", () =>
    expect(found(/\}\s\{?\$?\{?[\w.]+ === 1 \? "(\w+)" : "\1e?s"\}/)).toEqual([]));
});
