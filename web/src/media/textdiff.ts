/** Two texts line by line. */
import { diffLines, diffWordsWithSpace } from "diff";

export interface Piece {
  text: string;
  changed: boolean;
}

export interface DiffLine {
  kind: "same" | "removed" | "added";
  /** Numbers of the line in either text, from 1. */
  a: number | null;
  b: number | null;
  pieces: Piece[];
}

/** Lines that are the same and far from any difference. */
export interface Fold {
  kind: "fold";
  count: number;
}

const CONTEXT = 3;
/** Texts that differ by more lines than this are not aligned: it would take longer than anybody waits. */
export const MOST_EDITS = 1000;

/** The lines of both texts in one order, a changed line with the words that changed.
 *
 * @returns: null where they differ by more than `MOST_EDITS` lines.
 */
export function lineDiff(a: string, b: string): DiffLine[] | null {
  const changes = diffLines(a.replace(/\r\n/g, "\n"), b.replace(/\r\n/g, "\n"), {
    maxEditLength: MOST_EDITS,
  });
  if (!changes) return null;
  const lines: DiffLine[] = [];
  let [atA, atB] = [0, 0];
  for (let at = 0; at < changes.length; at += 1) {
    const { value, added, removed } = changes[at]!;
    const texts = value.replace(/\n$/, "").split("\n");
    const next = changes[at + 1];
    if (removed && next?.added) {
      const others = next.value.replace(/\n$/, "").split("\n");
      const words = texts.map((text, place) =>
        place < others.length ? wordDiff(text, others[place]!) : null,
      );
      texts.forEach((text, place) =>
        lines.push({ kind: "removed", a: (atA += 1), b: null, pieces: words[place]?.a ?? plain(text) }),
      );
      others.forEach((text, place) =>
        lines.push({ kind: "added", a: null, b: (atB += 1), pieces: words[place]?.b ?? plain(text) }),
      );
      at += 1;
      continue;
    }
    for (const text of texts) {
      if (added) lines.push({ kind: "added", a: null, b: (atB += 1), pieces: plain(text) });
      else if (removed) lines.push({ kind: "removed", a: (atA += 1), b: null, pieces: plain(text) });
      else lines.push({ kind: "same", a: (atA += 1), b: (atB += 1), pieces: plain(text) });
    }
  }
  return lines;
}

const plain = (text: string): Piece[] => [{ text, changed: false }];

function wordDiff(a: string, b: string): { a: Piece[]; b: Piece[] } {
  const parts = diffWordsWithSpace(a, b);
  return {
    a: parts.filter((part) => !part.added).map((part) => ({ text: part.value, changed: part.removed })),
    b: parts.filter((part) => !part.removed).map((part) => ({ text: part.value, changed: part.added })),
  };
}

/** Folds what is the same, but for a few lines around each difference. */
export function folded(lines: readonly DiffLine[], context = CONTEXT): (DiffLine | Fold)[] {
  const near = new Uint8Array(lines.length);
  lines.forEach((line, at) => {
    if (line.kind !== "same") near.fill(1, Math.max(0, at - context), at + context + 1);
  });
  const found: (DiffLine | Fold)[] = [];
  lines.forEach((line, at) => {
    const last = found.at(-1);
    if (near[at]) found.push(line);
    else if (last?.kind === "fold") last.count += 1;
    else found.push({ kind: "fold", count: 1 });
  });
  return found;
}
