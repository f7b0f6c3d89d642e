/** Rows of the rail: runs, the headings of groups, and the folders of a tree. */
import type { Family } from "./catalog";
import { grouped, type Grouping } from "./groups";

export const ROW_HEIGHT = 32;

export interface RailItem {
  key: string;
  family: Family | null;
  /** Of a heading or a folder; of a run its name below the folder that it stands in. */
  text: string;
  size: number;
  /** Its first run. */
  first: string;
  /** Folders and parents around it. */
  depth: number;
  /** Whether its rows are shown; null: it has none, or is a heading. */
  open: boolean | null;
}

/** Runs in their order, under headings where they are grouped. */
export function groupedRows(families: readonly Family[], grouping: Grouping): RailItem[] {
  return grouped(families, grouping).flatMap(([text, members]) => [
    {
      key: `group:${text}`,
      family: null,
      text,
      size: members.length,
      first: members[0]!.name,
      depth: 0,
      open: null,
    },
    ...flatRows(members),
  ]);
}

/** Runs in their order. */
export function flatRows(families: readonly Family[]): RailItem[] {
  return families.map((family) => rowOf(family, family.name, 0, 1, null));
}

function rowOf(family: Family, text: string, depth: number, size: number, open: boolean | null): RailItem {
  return { key: `run:${family.name}`, family, text, size, first: family.name, depth, open };
}

/** A folder, or a run with what stands below it. */
interface Node {
  path: string;
  family: Family | null;
  children: Node[];
}

/** Runs in their order below their parents, else below the folders that hold several of them. */
export function treeRows(families: readonly Family[], folded: ReadonlySet<string>): RailItem[] {
  const rows: RailItem[] = [];
  const waiting = rootsOf(families)
    .map((node): [Node, number, string] => [node, 0, ""])
    .reverse();
  while (waiting.length) {
    const [node, depth, above] = waiting.pop()!;
    const { family, children, path } = node;
    const open = children.length ? !folded.has(path) : null;
    const text = above && path.startsWith(`${above}/`) ? path.slice(above.length + 1) : path;
    const size = children.length ? runsBelow(node).length : 1;
    if (family) rows.push(rowOf(family, text, depth, size, open));
    else
      rows.push({
        key: `folder:${path}`,
        family,
        text,
        size,
        first: runsBelow(node)[0]!.name,
        depth,
        open,
      });
    if (open)
      for (const child of children.toReversed()) waiting.push([child, depth + 1, family ? above : path]);
  }
  return rows;
}

/** The folders and parents in which a run stands, by the paths under which they are folded. */
export function pathsAround(families: readonly Family[], name: string): string[] {
  const find = (nodes: readonly Node[], above: string[]): string[] | null => {
    for (const { path, family, children } of nodes) {
      if (family?.name === name) return above;
      const below = find(children, [...above, path]);
      if (below) return below;
    }
    return null;
  };
  return find(rootsOf(families), []) ?? [];
}

function runsBelow(node: Node): Family[] {
  const runs: Family[] = [];
  const waiting = [node];
  while (waiting.length) {
    const { family, children } = waiting.pop()!;
    if (family) runs.push(family);
    for (const child of children.toReversed()) waiting.push(child);
  }
  return runs;
}

function rootsOf(families: readonly Family[]): Node[] {
  const nodes = new Map<string, Node>(
    families.map((family) => [family.name, { path: family.name, family, children: [] }]),
  );
  const root: Node = { path: "", family: null, children: [] };
  const folderOf = (name: string): Node => {
    const at = name.lastIndexOf("/");
    if (at <= 0) return root;
    const path = name.slice(0, at);
    const known = nodes.get(path);
    if (known) return known;
    const folder: Node = { path, family: null, children: [] };
    nodes.set(path, folder);
    folderOf(path).children.push(folder);
    return folder;
  };
  for (const { name, main } of families) {
    const parent = main.parent === null ? undefined : nodes.get(main.parent);
    (parent?.family ? parent : folderOf(name)).children.push(nodes.get(name)!);
  }
  // A run whose parent stands below it, by its folder, is reached from nowhere.
  const reached = new Set(runsBelow(root));
  for (const family of reached.size < families.length ? families : [])
    if (!reached.has(family)) root.children.push({ path: family.name, family, children: [] });
  const roots = root.children.flatMap(withoutSingle);
  // A folder that holds everything says nothing.
  return roots.length === 1 && !roots[0]!.family ? roots[0]!.children : roots;
}

/** A folder of one thing is left out: that thing has its name in front. */
function withoutSingle(node: Node): Node[] {
  const children = node.children.flatMap(withoutSingle);
  return !node.family && children.length === 1 ? children : [{ ...node, children }];
}
