/** Markdown as a tree of plain pieces. Nothing in it becomes markup of the page: the page makes its own elements of the
 * pieces, so a text can show anything and do nothing. */

export type Inline =
  | { kind: "text" | "code" | "strong" | "em" | "strike"; text: string }
  | { kind: "link"; text: string; href: string };

export type Block =
  | { kind: "heading"; level: number; inlines: Inline[] }
  | { kind: "paragraph" | "quote"; inlines: Inline[] }
  | { kind: "code"; text: string }
  | { kind: "list"; ordered: boolean; items: Inline[][] }
  | { kind: "table"; head: Inline[][]; rows: Inline[][][] }
  | { kind: "rule" };

const FENCE = /^\s*(```|~~~)/;
const ITEM = /^\s*(?:([-*+])|(\d{1,9})[.)])\s+(.*)$/;

export function blocksOf(text: string): Block[] {
  const lines = text.replace(/\r\n?/g, "\n").split("\n");
  const blocks: Block[] = [];
  let at = 0;
  const line = (): string => lines[at] ?? "";
  while (at < lines.length) {
    const heading = /^(#{1,6})\s+(.*?)\s*#*$/.exec(line());
    if (!line().trim()) {
      at += 1;
    } else if (FENCE.test(line())) {
      const fence = FENCE.exec(line())![1]!;
      const inside: string[] = [];
      for (at += 1; at < lines.length && !line().trim().startsWith(fence); at += 1) inside.push(line());
      at += 1;
      blocks.push({ kind: "code", text: inside.join("\n") });
    } else if (/^( {4}|\t)/.test(line())) {
      const inside: string[] = [];
      for (; at < lines.length && (/^( {4}|\t)/.test(line()) || !line().trim()); at += 1)
        inside.push(line().replace(/^( {4}|\t)/, ""));
      blocks.push({ kind: "code", text: inside.join("\n").trimEnd() });
    } else if (heading) {
      blocks.push({ kind: "heading", level: heading[1]!.length, inlines: inlinesOf(heading[2]!) });
      at += 1;
    } else if (/^\s*([-*_])(\s*\1){2,}\s*$/.test(line())) {
      blocks.push({ kind: "rule" });
      at += 1;
    } else if (
      line().includes("|") &&
      /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/.test(lines[at + 1] ?? "")
    ) {
      const head = cellsOf(line());
      const rows: Inline[][][] = [];
      for (at += 2; at < lines.length && line().includes("|"); at += 1) rows.push(cellsOf(line()));
      blocks.push({ kind: "table", head, rows });
    } else if (ITEM.test(line())) {
      const ordered = ITEM.exec(line())![2] !== undefined;
      const items: string[] = [];
      for (; at < lines.length && (ITEM.test(line()) || (line().trim() && /^\s{2,}/.test(line()))); at += 1) {
        const item = ITEM.exec(line());
        if (item) items.push(item[3]!);
        else items[items.length - 1] += ` ${line().trim()}`;
      }
      blocks.push({ kind: "list", ordered, items: items.map(inlinesOf) });
    } else if (/^\s*>/.test(line())) {
      const inside: string[] = [];
      for (; at < lines.length && /^\s*>/.test(line()); at += 1) inside.push(line().replace(/^\s*>\s?/, ""));
      blocks.push({ kind: "quote", inlines: inlinesOf(inside.join("\n")) });
    } else {
      const inside: string[] = [];
      for (
        ;
        at < lines.length &&
        line().trim() &&
        !FENCE.test(line()) &&
        !/^#{1,6}\s/.test(line()) &&
        !ITEM.test(line());
        at += 1
      )
        inside.push(line());
      if (!inside.length) inside.push(lines[at++]!);
      blocks.push({ kind: "paragraph", inlines: inlinesOf(inside.join("\n")) });
    }
  }
  return blocks;
}

function cellsOf(line: string): Inline[][] {
  const inside = line
    .trim()
    .replace(/^\|/, "")
    .replace(/(?<!\\)\|$/, "");
  return inside.split(/(?<!\\)\|/).map((cell) => inlinesOf(cell.trim().replaceAll("\\|", "|")));
}

const INLINE =
  /`([^`]+)`|\*\*([^*]+)\*\*|__([^_]+)__|~~([^~]+)~~|\*([^*\s][^*]*)\*|\[([^\]]*)\]\(([^()\s]+)(?:\s+"[^"]*")?\)/g;

export function inlinesOf(text: string): Inline[] {
  const found: Inline[] = [];
  let last = 0;
  for (const match of text.matchAll(INLINE)) {
    if (match.index > last) found.push({ kind: "text", text: text.slice(last, match.index) });
    last = match.index + match[0].length;
    if (match[1] !== undefined) found.push({ kind: "code", text: match[1] });
    else if (match[2] !== undefined || match[3] !== undefined)
      found.push({ kind: "strong", text: (match[2] ?? match[3])! });
    else if (match[4] !== undefined) found.push({ kind: "strike", text: match[4] });
    else if (match[5] !== undefined) found.push({ kind: "em", text: match[5] });
    else
      found.push(
        safe(match[7]!)
          ? { kind: "link", text: match[6] || match[7]!, href: match[7]! }
          : { kind: "text", text: match[0] },
      );
  }
  if (last < text.length) found.push({ kind: "text", text: text.slice(last) });
  return found;
}

/** Links lead to web pages only; a person decides to follow them. */
function safe(href: string): boolean {
  return /^https?:\/\//i.test(href);
}
