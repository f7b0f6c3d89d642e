/** What of a graph is drawn: the boxes of one scope, what is alike folded, and the edges between them. */
import {
  ALIKE,
  added,
  baseOf,
  joined,
  operationsOf,
  within,
  type Link,
  type Model,
  type Scope,
} from "./model";

export const MOST_BOXES = 160;
/** Edges that are drawn: more would be a grey area. */
export const MOST_EDGES = 500;
/** Scopes outside that are named on one side; the others are counted. */
const MOST_OUTSIDE = 12;
/** Up to so many parts of a scope only stacks of blocks are folded; what is alike here and there is drawn. */
const FEW = 24;

export interface Box {
  key: string;
  title: string;
  /** Where a box of the scope itself stands, or where edges come from and go to outside of it. */
  kind: "scope" | "operation" | "fold" | "before" | "after";
  members: Scope[];
  /** Why its members are one box. */
  fold: "alike" | "kind" | "rest" | null;
  op: string;
  operations: number;
  micros: number | null;
  memory: number | null;
  flops: number | null;
  parameters: number | null;
  gradient: number | null;
}

export interface Edge {
  from: string;
  to: string;
  /** Of data; edges that only order are counted apart. */
  count: number;
  sizes: number[] | null;
}

export interface Picture {
  boxes: Box[];
  edges: Edge[];
  /** Boxes that data flows neither to nor from. */
  loose: Box[];
  /** Edges between boxes that only say what runs first; they are not drawn. */
  ordered: number;
  /** Edges left out, for there are too many: those that stand for fewest. */
  left: number;
}

/** The boxes and edges of a scope.
 *
 * @param unfolded: Keys of folds whose members are drawn one by one, as far as there is room.
 */
export function pictureOf(model: Model, scope: Scope, unfolded: ReadonlySet<string>): Picture {
  const inside = boxesOf(scope, unfolded);
  const owner = new Map<Scope, Box>();
  for (const box of inside) for (const member of box.members) owner.set(member, box);
  const outside = new Map<string, Box>();
  const edges = new Map<string, Edge>();
  let ordered = 0;
  const put = (link: Link, from: Box, to: Box): void => {
    if (from === to) return;
    if (link.control) {
      ordered += 1;
      return;
    }
    const key = `${from.key}\n${to.key}`;
    const known = edges.get(key);
    if (known) known.count += 1;
    else edges.set(key, { from: from.key, to: to.key, count: 1, sizes: link.sizes });
  };
  const childOf = (operation: Scope): Scope => {
    let up = operation;
    while (up.parent !== scope) up = up.parent!;
    return up;
  };
  for (const operation of operationsOf(scope)) {
    if (operation === scope) continue;
    const mine = owner.get(childOf(operation))!;
    for (const link of model.into.get(operation.path) ?? []) {
      if (within(link.from, scope)) put(link, owner.get(childOf(link.from))!, mine);
      else if (!link.control) put(link, outsideBox(outside, link.from, scope, "before"), mine);
    }
    for (const link of model.outOf.get(operation.path) ?? []) {
      if (!within(link.to, scope) && !link.control)
        put(link, mine, outsideBox(outside, link.to, scope, "after"));
    }
  }
  return arranged([...inside, ...outside.values()], [...edges.values()], ordered);
}

function arranged(boxes: Box[], edges: Edge[], ordered: number): Picture {
  const touched = new Set(edges.flatMap((edge) => [edge.from, edge.to]));
  const drawn =
    edges.length > MOST_EDGES ? [...edges].sort((a, b) => b.count - a.count).slice(0, MOST_EDGES) : edges;
  return {
    boxes: boxes.filter((box) => touched.has(box.key)),
    edges: drawn,
    loose: boxes.filter((box) => !touched.has(box.key)),
    ordered,
    left: edges.length - drawn.length,
  };
}

/** The box of a scope outside: the part of the graph that it belongs to, seen from within another. */
function outsideBox(known: Map<string, Box>, operation: Scope, scope: Scope, kind: "before" | "after"): Box {
  let part = operation;
  while (!within(scope, part.parent!)) part = part.parent!;
  const key = `${kind}:${part.path}`;
  const found = known.get(key);
  if (found) return found;
  const many = [...known.values()].filter((box) => box.kind === kind);
  if (many.length < MOST_OUTSIDE) {
    const made = boxOf(key, part.path, kind, [part], null);
    known.set(key, made);
    return made;
  }
  const rest = known.get(`${kind}:`) ?? boxOf(`${kind}:`, "", kind, [], "rest");
  if (!rest.members.includes(part)) rest.members.push(part);
  rest.title = `${rest.members.length} more`;
  known.set(rest.key, rest);
  return rest;
}

function boxOf(key: string, title: string, kind: Box["kind"], members: Scope[], fold: Box["fold"]): Box {
  const sum = (value: (scope: Scope) => number | null): number | null =>
    members.map(value).reduce(added, null);
  return {
    key,
    title,
    kind,
    members,
    fold,
    op: members[0]?.op ?? "",
    operations: sum((scope) => scope.operations) ?? 0,
    micros: sum((scope) => scope.micros),
    memory: sum((scope) => scope.memory),
    flops: sum((scope) => scope.flops),
    parameters: sum((scope) => scope.parameters),
    gradient: members.map((scope) => scope.gradient).reduce(joined, null),
  };
}

function single(scope: Scope): Box {
  return boxOf(scope.path, scope.name, scope.children.length ? "scope" : "operation", [scope], null);
}

/** Boxes of the children of a scope: repeated blocks as one; then, while there are too many, operations by kind. */
export function boxesOf(scope: Scope, unfolded: ReadonlySet<string>, most = MOST_BOXES): Box[] {
  if (!scope.children.length) return scope.node ? [single(scope)] : [];
  const like = (child: Scope): string | null =>
    child.children.length ? `${baseOf(child.name)}\n${child.shape}` : null;
  let boxes = gathered(scope.children, "alike", like, unfolded, scope.children.length > FEW);
  if (boxes.length > most) {
    const kinds = gathered(
      scope.children.filter((child) => !child.children.length),
      "kind",
      (child) => child.op,
      new Set(),
    );
    boxes = [...boxes.filter((box) => box.kind !== "operation"), ...kinds];
  }
  return boxes.length > most ? withRest(boxes, most) : boxes;
}

function gathered(
  children: readonly Scope[],
  fold: "alike" | "kind",
  likeness: (child: Scope) => string | null,
  unfolded: ReadonlySet<string>,
  scattered = true,
): Box[] {
  const groups = new Map<string, Scope[]>();
  for (const child of children) {
    const like = likeness(child) ?? `=${child.path}`;
    const group = groups.get(like);
    if (group) group.push(child);
    else groups.set(like, [child]);
  }
  return [...groups.values()].flatMap((group) => {
    const key = foldKey(group[0]!);
    if (group.length < ALIKE || unfolded.has(key) || (!scattered && !inRow(group))) return group.map(single);
    return [
      boxOf(
        key,
        fold === "kind" ? `${group[0]!.op} ×${group.length}` : `${rangeText(group)} ×${group.length}`,
        "fold",
        group,
        fold,
      ),
    ];
  });
}

/** Whether their numbers follow each other: a stack of blocks, and not the activations between its layers. */
function inRow(group: readonly Scope[]): boolean {
  const numbers = group.map((one) => Number(/\d+$/.exec(one.name)?.[0] ?? 0)).sort((a, b) => a - b);
  return numbers.every((number, at) => at === 0 || number === numbers[at - 1]! + 1);
}

export function foldKey(first: Scope): string {
  return `${first.path}…`;
}

/** First and last name of a row of blocks. */
function rangeText(group: readonly Scope[]): string {
  const sorted = [...group].sort((a, b) => a.name.localeCompare(b.name, undefined, { numeric: true }));
  return `${sorted[0]!.name} … ${sorted.at(-1)!.name}`;
}

/** Keeps the boxes that take most time, then those of most operations; the others become one. */
function withRest(boxes: readonly Box[], most: number): Box[] {
  const order = [...boxes].sort((a, b) => (b.micros ?? 0) - (a.micros ?? 0) || b.operations - a.operations);
  const kept = new Set(order.slice(0, most - 1));
  const rest = boxes.filter((box) => !kept.has(box)).flatMap((box) => box.members);
  return [
    ...boxes.filter((box) => kept.has(box)),
    boxOf(`${rest[0]!.path}+`, `${rest.length} more`, "fold", rest, "rest"),
  ];
}

export interface Place {
  key: string;
  x: number;
  y: number;
}

export type Direction = "up" | "down" | "left" | "right";

/** The box nearest in a direction, by centres; across counts double. */
export function neighbour(
  places: readonly Place[],
  from: string | null,
  direction: Direction,
): string | null {
  const here = places.find((place) => place.key === from);
  if (!here) return places[0]?.key ?? null;
  const [ahead, across] =
    direction === "up" || direction === "down" ? (["y", "x"] as const) : (["x", "y"] as const);
  const sign = direction === "up" || direction === "left" ? -1 : 1;
  let best: string | null = null;
  let least = Infinity;
  for (const place of places) {
    const far = sign * (place[ahead] - here[ahead]);
    if (far < 1) continue;
    const distance = far + 2 * Math.abs(place[across] - here[across]);
    if (distance < least) [best, least] = [place.key, distance];
  }
  return best;
}
