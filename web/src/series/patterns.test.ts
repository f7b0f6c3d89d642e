/** The meaning of a tag comes from the server: the page has no pattern with a word of its own but these. */
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { parse } from "svelte/compiler";
import ts from "typescript";
import { describe, expect, it } from "vitest";

const SOURCE = join(import.meta.dirname, "..");

/** Patterns that hold a word of two letters or more, and what they are about: none is about tags. */
const KNOWN: Record<string, string> = {
  "(^|\\/)params\\/": "names of nodes in a graph",
  "FLOP\\/s": "a unit",
  "[\\\\/](?:site-packages|dist-packages|lib[\\\\/]python[\\d.]+)[\\\\/]": "paths of files",
  "\\b([1-9]00|[1-9]\\d\\d|bold)\\b": "fonts",
  [String.raw`^ {2}File "(.+)", line (\d+), in (.+)\n(?: {4}(\S.*))?`]: "tracebacks",
  "^(#[\\da-f]{3,8}|[a-z]+|(rgb|hsl|oklch|oklab|lab|lch|color)a?\\([\\w\\s.,%/+-]*\\))$": "colours",
  "^(-?\\d+(\\.\\d*)?(e[-+]?\\d+)?|-?Infinity|NaN|)$": "numbers",
  "^(.*?)([\\d.]+)px(?:\\/\\S+)?\\s+(.*)$": "fonts",
  "^(?:([A-Za-z0-9-]+)_)?rank(\\d+|\\*)_step(\\d{8,})": "names of profiles",
  "^(?:Invalid regular expression|error parsing regexp): ": "errors",
  "^(NaN|-?Infinity)$": "numbers",
  "^(Parameter|Input|Output|Const|Placeholder|Identity|NoOp|VarHandleOp|VariableV?2?|ReadVariableOp)$":
    "operations of a graph",
  "^(Parameter|Variable|VariableV2)$": "operations of a graph",
  "^(archived|run|name)$": "words of a query of runs",
  "^(bytes|moved_bytes$)": "keys of tfprof",
  "^(calls|occurrence)": "keys of tfprof",
  "^(class|style|role|tabindex|href|aria-.*|data-.*)$": "attributes",
  "^(con|prn|aux|nul|com\\d|lpt\\d)(\\.|$)": "names of files",
  "^(device|accelerator)_(total_|self_)?ns|^accelerator_ns|^device_ratio": "keys of tfprof",
  "^(flops$|float_ops)": "keys of tfprof",
  "^(host|cpu)_(total_|self_)?ns|^cpu_ns|^host_ratio": "keys of tfprof",
  "^(style|role|tabindex|href|src|srcset|aria-.*|data-.*)$": "attributes",
  "^(trend|steady):": "charts of the page",
  "^(trend|steady|figures|upto):": "charts of the page",
  "^-?metric$": "orders of runs",
  "^.*\\/(?:site|dist)-packages\\/": "paths of files",
  "^.*\\/(?=[^/]+\\.py\\()": "paths of files",
  "^CSV,\\s*": "names of a menu",
  "^[A-Za-z0-9-]+_rank\\d+(_step\\d{8,}.*)$": "names of profiles",
  "^\\s*(?:step\\s+)?(\\d{1,12})\\s*$": "a step that is typed",
  "^https?:\\/\\/": "addresses",
  "^log:": "axes of a plot",
  "^metric:": "axes of a plot",
  "^nn\\.Module: ": "names of events",
  "^output_bytes": "keys of tfprof",
  "^params": "keys of tfprof",
  "^peak_bytes": "keys of tfprof",
  "^residual_bytes": "keys of tfprof",
  "^step_(total_|self_)?ns|^step_ratio|^total_ns|^micros_ratio": "keys of tfprof",
  "^text-align:(left|center|right)$": "styles",
  "^void ": "names of kernels",
  _bytes$: "keys of tfprof",
  "italic|oblique": "fonts",
  metric: "orders of runs",
};

function patternsIn(file: string): string[] {
  const text = readFileSync(file, "utf8");
  const patterns: string[] = [];
  if (file.endsWith(".svelte")) {
    const walk = (node: unknown): void => {
      if (node === null || typeof node !== "object") return;
      const { type, regex } = node as { type?: string; regex?: { pattern: string } };
      if (type === "Literal" && regex) patterns.push(regex.pattern);
      for (const value of Object.values(node)) walk(value);
    };
    walk(parse(text, { modern: true, filename: file }));
  } else {
    const walk = (node: ts.Node): void => {
      if (ts.isRegularExpressionLiteral(node)) patterns.push(node.text.slice(1, node.text.lastIndexOf("/")));
      ts.forEachChild(node, walk);
    };
    walk(ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true));
  }
  return patterns;
}

/** The words that a pattern spells out: no escapes, no classes, no properties of characters. */
const wordsOf = (pattern: string): string[] =>
  pattern.replace(/\\[pP]\{[^}]*\}|\\.|\[(?:\\.|[^\]\\])*\]|\(\?<\w+>/g, " ").match(/[A-Za-z]{2,}/g) ?? [];

const files = readdirSync(SOURCE, { recursive: true, encoding: "utf8" })
  .filter((name) => /\.(ts|svelte)$/.test(name) && !/\.test\.ts$/.test(name))
  .map((name) => join(SOURCE, name));

describe("patterns of the page", () => {
  it("spell out no words but those that are known", () => {
    const spelt = files.flatMap(patternsIn).filter((pattern) => wordsOf(pattern).length > 0);
    expect([...new Set(spelt)].sort()).toEqual(Object.keys(KNOWN).sort());
  }, 60_000);
  it("are found wherever they stand", () => {
    expect(wordsOf(String.raw`^(.*)_(VERTEX|FACE)$`)).toEqual(["VERTEX", "FACE"]);
    expect(wordsOf(String.raw`^[\w./-]+\d{2}\p{Lu}$`)).toEqual([]);
  });
});
