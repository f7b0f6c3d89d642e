/* Prints every text of the page with its place, one a line, so that all can be read at once: node texts.js */
import { readFileSync, readdirSync } from "node:fs";
import { join, relative } from "node:path";
import { parse } from "svelte/compiler";
import ts from "typescript";

const SOURCE = join(import.meta.dirname, "src");
/** Attributes of markup whose values people read, or hear. */
const READ = /^(title|aria-label|label|placeholder|alt|note|says|csvSays|empty|head|hint|what)$/;
/** A literal of a program is read by people if it has several words, or is a word that begins like a sentence. */
const WORDS = /^[A-Z][a-z]+$|[A-Za-z]{2,} [A-Za-z(]/;

const lineOf = (text, at) => text.slice(0, at).split("\n").length;

function* literals(code) {
  const file = ts.createSourceFile("x.ts", code, ts.ScriptTarget.Latest, true);
  const found = [];
  const visit = (node) => {
    if (ts.isImportDeclaration(node)) return;
    if (ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node))
      found.push([node.text, node.pos]);
    else if (ts.isTemplateExpression(node))
      found.push([
        node
          .getText(file)
          .slice(1, -1)
          .replace(/\$\{[^}]*\}/g, "…"),
        node.pos,
      ]);
    ts.forEachChild(node, visit);
  };
  visit(file);
  for (const [text, at] of found) if (WORDS.test(text)) yield [text, at];
}

function* markup(node, code) {
  if (!node || typeof node !== "object") return;
  if (Array.isArray(node)) for (const one of node) yield* markup(one, code);
  else if (node.type === "Text" && /[A-Za-z]{2}/.test(node.data)) yield [node.data.trim(), node.start];
  else if (node.type === "Attribute") {
    if (READ.test(node.name)) yield [code.slice(node.start, node.end), node.start];
    else if (node.value !== true)
      for (const part of [node.value].flat()) if (part.expression) yield* inCode(part.expression, code);
  } else if (node.type === "ExpressionTag") yield* inCode(node.expression, code);
  else for (const [name, value] of Object.entries(node)) if (name !== "metadata") yield* markup(value, code);
}

function* inCode(expression, code) {
  for (const [text] of literals(`(${code.slice(expression.start, expression.end)})`))
    yield [text, expression.start];
}

for (const name of readdirSync(SOURCE, { recursive: true }).sort()) {
  if (!/\.(svelte|ts)$/.test(name) || /\.test\.ts$|fixtures|server\/api/.test(name)) continue;
  const code = readFileSync(join(SOURCE, name), "utf8");
  const texts = [];
  if (name.endsWith(".ts")) texts.push(...literals(code));
  else {
    const tree = parse(code, { modern: true });
    const { start, end } = tree.instance?.content ?? { start: 0, end: 0 };
    for (const [text, at] of literals(code.slice(start, end))) texts.push([text, start + at]);
    texts.push(...markup(tree.fragment, code));
  }
  for (const [text, at] of texts)
    console.log(`${relative(".", join("src", name))}:${lineOf(code, at)}: ${text.replace(/\s+/g, " ")}`);
}
