/** Rows with depths as a tree: what is open, what a flame graph draws of it. */
import type { TreeRow } from "../server/api";

export interface Node {
  /** Index of the row. */
  at: number;
  depth: number;
  parent: number;
  children: number[];
}

export function treeOf(rows: readonly Pick<TreeRow, "depth">[]): Node[] {
  const nodes: Node[] = [];
  const open: number[] = [];
  rows.forEach((row, at) => {
    while (open.length && nodes[open.at(-1)!]!.depth >= row.depth) open.pop();
    const parent = open.at(-1) ?? -1;
    nodes.push({ at, depth: row.depth, parent, children: [] });
    if (parent >= 0) nodes[parent]!.children.push(at);
    open.push(at);
  });
  return nodes;
}

/** Rows that are open at first: levels from the root on, as long as they fit. */
export function openAtFirst(nodes: readonly Node[], most: number): Set<number> {
  const open = new Set<number>();
  let level = nodes.filter((node) => node.parent < 0);
  let shown = level.length;
  while (level.length) {
    const next = level.flatMap((node) => node.children.map((child) => nodes[child]!));
    // The first level is always open: a closed root says nothing.
    if (!next.length || (open.size > 0 && shown + next.length > most)) break;
    for (const node of level) if (node.children.length) open.add(node.at);
    shown += next.length;
    level = next;
  }
  return open;
}

/** Rows to show: a row whose ancestors are all open. */
export function visible(nodes: readonly Node[], open: ReadonlySet<number>): number[] {
  const shown: number[] = [];
  const seen = new Set<number>();
  for (const node of nodes) {
    if (node.parent < 0 || (seen.has(node.parent) && open.has(node.parent))) {
      seen.add(node.at);
      shown.push(node.at);
    }
  }
  return shown;
}

/** The path of greatest values from the root down. */
export function hottest(nodes: readonly Node[], value: (at: number) => number): number[] {
  const path: number[] = [];
  let level = nodes.filter((node) => node.parent < 0).map((node) => node.at);
  while (level.length) {
    const best = level.reduce((a, b) => (value(b) > value(a) ? b : a));
    path.push(best);
    level = nodes[best]!.children;
  }
  return path;
}

export interface Box {
  at: number;
  depth: number;
  /** Left edge and width as parts of the whole. */
  left: number;
  width: number;
}

/** Boxes of an icicle: children beside each other under their parent, those too small left out. */
export function icicle(
  nodes: readonly Node[],
  value: (at: number) => number,
  root: number,
  least: number,
): Box[] {
  const boxes: Box[] = [];
  const whole = value(root);
  if (!(whole > 0)) return boxes;
  const place = (at: number, left: number, width: number, depth: number): void => {
    if (width < least) return;
    boxes.push({ at, depth, left, width });
    const children = nodes[at]!.children;
    const sum = children.reduce((all, child) => all + Math.max(0, value(child)), 0);
    // Values of work that overlaps may add up to more than their parent's: then they share its width.
    const scale = sum > value(at) ? width / sum : width / value(at);
    let next = left;
    for (const child of [...children].sort((a, b) => value(b) - value(a))) {
      const wide = Math.max(0, value(child)) * scale;
      place(child, next, wide, depth + 1);
      next += wide;
    }
  };
  place(root, 0, 1, 0);
  return boxes;
}
