/** A graph of operations as a tree of scopes, with what each of them costs. */
import type { GradientNorm, GradientNorms, GraphAnswer, Node as GraphNode } from "../server/api";
import { told } from "../server/client";

/** One scope, or one operation where `node` is set. */
export interface Scope {
  /** Unique; that of the root is empty. */
  path: string;
  name: string;
  parent: Scope | null;
  depth: number;
  children: Scope[];
  node: GraphNode | null;
  /** Operations within. */
  operations: number;
  /** Sum over the operations within; null: of none was it recorded. */
  micros: number | null;
  /** The same for memory, in bytes. */
  memory: number | null;
  /** The same for floating point operations. */
  flops: number | null;
  /** Elements of the parameters within; null: there are none. */
  parameters: number | null;
  /** L2 norm of the gradients of the parameters within, NaN or infinite where one is; null: none was recorded. */
  gradient: number | null;
  /** The same at an earlier step, before it fell where it did. */
  before: number | null;
  /** Whether the gradient of a parameter within fell, and stayed so. */
  fell: boolean;
  /** The kind of operation; of a scope the one that takes most time within, without times the most frequent. */
  op: string;
  /** The same number for scopes that are made of the same operations, digits at the ends of names aside. */
  shape: number;
  /** Position in the tree from top to bottom. */
  at: number;
}

export interface Link {
  from: Scope;
  to: Scope;
  /** Sizes of what flows, as far as known. */
  sizes: number[] | null;
  /** Only an order, no data. */
  control: boolean;
}

export interface Model {
  root: Scope;
  /** All scopes and operations from top to bottom. */
  all: Scope[];
  at: ReadonlyMap<string, Scope>;
  /** By the operation's path. */
  into: ReadonlyMap<string, readonly Link[]>;
  outOf: ReadonlyMap<string, readonly Link[]>;
  /** Measured operations that are not in the graph, and what they took. */
  strangers: number;
  strangerMicros: number;
}

/** So many alike in a scope are drawn as one. */
export const ALIKE = 3;
/** Share of the time, or of the operations where no time is known, from which on a scope is opened by itself. */
const MOST = 0.8;

const isStack = ({ children }: Scope): boolean =>
  children.length >= ALIKE && children.every(({ shape }) => shape === children[0]!.shape);

/** Between which two layers gradients break. */
export interface Break {
  /** The parts next to the break, where their paths part. */
  last: Scope;
  next: Scope;
  /** Layers of which a gradient fell, of how many before the break, and how many are after it. */
  fell: number;
  of: number;
  after: number;
  /** By how much in the middle: before over now. */
  times: number;
}

/** Chance of a break where gradients only wander: that the layers which shrank most are the first ones. */
const CHANCE = 1e-3;

/** Where gradients break: in the order of the model each layer before it shrank by more than any after it.
 *
 * @returns: null where none fell, where others lie among those that fell, or where chance puts so few first.
 */
export function breakOf(model: Model): Break | null {
  const known = model.all.filter((scope) => scope.node && scope.gradient !== null && scope.before !== null);
  const layers = [...new Set(known.map((scope) => (scope.parent === model.root ? scope : scope.parent!)))];
  const shrank = layers.map(({ before, gradient }) => before! / gradient!);
  const cut = layers.findLastIndex(({ fell }) => fell) + 1;
  const orders = layers.slice(cut).reduce((all, _, at) => (all * (cut + at + 1)) / (at + 1), 1);
  if (!cut || orders * CHANCE < 1 || !(Math.min(...shrank.slice(0, cut)) > Math.max(...shrank.slice(cut))))
    return null;
  const [last, next] = [layers[cut - 1]!, layers[cut]!].map((scope) => [...above(scope), scope]);
  const parts = last!.findIndex((scope, at) => scope !== next![at]);
  return {
    last: last![parts]!,
    next: next![parts]!,
    fell: layers.filter(({ fell }) => fell).length,
    of: cut,
    after: layers.length - cut,
    times: middle(shrank.slice(0, cut))![1],
  };
}

/** The scope that is shown first: as deep as nearly all is spent in one scope. */
export function startOf(model: Model): Scope {
  const cost = (scope: Scope): number => scope.micros ?? 0;
  const size = model.root.micros ? cost : (scope: Scope): number => scope.operations;
  let here = model.root;
  for (;;) {
    const inside = here.children.filter((child) => child.children.length);
    const next = inside.find((child) => size(child) >= MOST * size(model.root));
    // A stack of blocks is one box, which shows nothing of the model around it.
    if (!next || isStack(next)) return here;
    here = next;
  }
}

export const fetchGraph = (run: string, tag: string | null): Promise<GraphAnswer> =>
  told("graph", { run, tag });

export const fetchGradientNorms = (run: string, step: number | null): Promise<GradientNorms> =>
  told("gradient_norms", { run, step });

export function modelOf(
  answer: Pick<GraphAnswer, "nodes" | "costs">,
  norms: readonly GradientNorm[] = [],
): Model {
  const tree = treeOfNodes(answer.nodes);
  const links = linksOf(answer.nodes, tree.ofNode);
  const strangers = addCosts(answer, tree.ofNode);
  addFlops(answer.nodes, tree.ofNode);
  addParameters(answer.nodes, tree.ofNode, links.outOf);
  addGradients(tree.ofNode, norms);
  sumUp(tree.root);
  const all: Scope[] = [];
  listed(tree.root, all);
  return {
    root: tree.root,
    all,
    at: new Map(all.map((scope) => [scope.path, scope])),
    ...links,
    ...strangers,
  };
}

function scopeOf(path: string, name: string, parent: Scope | null): Scope {
  return {
    path,
    name,
    parent,
    depth: parent ? parent.depth + 1 : 0,
    children: [],
    node: null,
    operations: 0,
    micros: null,
    memory: null,
    flops: null,
    parameters: null,
    gradient: null,
    before: null,
    fell: false,
    op: "",
    shape: 0,
    at: 0,
  };
}

function treeOfNodes(nodes: readonly GraphNode[]): { root: Scope; ofNode: Map<string, Scope> } {
  const root = scopeOf("", "", null);
  const scopes = new Map([["", root]]);
  const open = (path: string): Scope => {
    const known = scopes.get(path);
    if (known) return known;
    const cut = path.lastIndexOf("/");
    const parent = open(cut < 0 ? "" : path.slice(0, cut));
    const made = scopeOf(path, path.slice(cut + 1), parent);
    parent.children.push(made);
    scopes.set(path, made);
    return made;
  };
  const ofNode = new Map<string, Scope>();
  for (const node of nodes) {
    if (ofNode.has(node.name)) continue;
    const scope = open(node.name);
    ofNode.set(node.name, scope);
    scope.node = node;
  }
  // A name can be an operation's and a scope's at once: then the operation stands in the scope, in parentheses.
  for (const [name, scope] of ofNode) {
    if (!scope.children.length) continue;
    const inner = scopeOf(`${scope.path}/(${scope.name})`, `(${scope.name})`, scope);
    inner.node = scope.node;
    scope.node = null;
    scope.children.unshift(inner);
    ofNode.set(name, inner);
  }
  inModelOrder(root, nodes, ofNode);
  return { root, ofNode };
}

/** Puts scopes in the order in which their operations run: some frameworks list all parameters before them. */
function inModelOrder(root: Scope, nodes: readonly GraphNode[], ofNode: ReadonlyMap<string, Scope>): void {
  /** When a scope first works; of one that only holds, such as a parameter, when it is first taken. */
  const works = new Map<Scope, number>();
  const taken = new Map<Scope, number>();
  const note = (times: Map<Scope, number>, scope: Scope | null | undefined, at: number): void => {
    for (let one = scope; one && !times.has(one); one = one.parent) times.set(one, at);
  };
  nodes.forEach((node, at) => {
    if (node.inputs.length) note(works, ofNode.get(node.name), at);
    for (const input of node.inputs) note(taken, ofNode.get(input) ?? ofNode.get(sourceOf(input)), at);
  });
  const time = (scope: Scope): number => works.get(scope) ?? (taken.get(scope) ?? Infinity) - 0.5; // before what takes it
  const sort = (scope: Scope): void => {
    if (scope.children.length)
      scope.children.sort((a, b) => (time(a) > time(b) ? 1 : time(a) < time(b) ? -1 : 0));
    scope.children.forEach(sort);
  };
  sort(root);
}

/** Name of the node of an input: without the mark of control inputs and the number of the output. */
export function sourceOf(input: string): string {
  return input.replace(/^\^/, "").replace(/:\d+$/, "");
}

function linksOf(
  nodes: readonly GraphNode[],
  ofNode: ReadonlyMap<string, Scope>,
): Pick<Model, "into" | "outOf"> {
  const into = new Map<string, Link[]>();
  const outOf = new Map<string, Link[]>();
  for (const node of nodes) {
    const to = ofNode.get(node.name)!;
    if (into.has(to.path)) continue;
    const links: Link[] = [];
    for (const input of node.inputs) {
      const from = ofNode.get(input) ?? ofNode.get(sourceOf(input));
      if (!from || from === to) continue;
      const output = Number(/:(\d+)$/.exec(input)?.[1] ?? 0);
      const link = { from, to, sizes: from.node!.shapes[output] ?? null, control: input.startsWith("^") };
      links.push(link);
      const known = outOf.get(from.path);
      if (known) known.push(link);
      else outOf.set(from.path, [link]);
    }
    into.set(to.path, links);
  }
  return { into, outOf };
}

/** Adds what was measured to the operations; what ran on several devices counts as the longest. */
function addCosts(
  answer: Pick<GraphAnswer, "costs">,
  ofNode: ReadonlyMap<string, Scope>,
): { strangers: number; strangerMicros: number } {
  let [strangers, strangerMicros] = [0, 0];
  for (const cost of answer.costs) {
    const scope = ofNode.get(cost.name) ?? ofNode.get(cost.name.split(":")[0]!);
    if (!scope) {
      strangers += 1;
      strangerMicros += cost.duration_us;
      continue;
    }
    scope.micros = Math.max(scope.micros ?? 0, cost.duration_us);
    if (cost.memory_bytes !== null) scope.memory = Math.max(scope.memory ?? 0, cost.memory_bytes);
    const { device, shapes } = scope.node!;
    // What was measured has sizes where the graph has none.
    const measured =
      cost.shapes.length > 0 && (!shapes.length || shapes.some((sizes) => sizes.some((size) => size < 0)));
    if (!device || measured)
      scope.node = { ...scope.node!, device: device || cost.device, shapes: measured ? cost.shapes : shapes };
  }
  return { strangers, strangerMicros };
}

const VARIABLE = /^(Parameter|Variable|VariableV2)$/;

/** Counts elements of parameters: of torch's, of inputs of JAX under `params`, and of TensorFlow's variables. */
function addParameters(
  nodes: readonly GraphNode[],
  ofNode: ReadonlyMap<string, Scope>,
  outOf: Model["outOf"],
): void {
  for (const node of nodes) {
    const scope = ofNode.get(node.name)!;
    const parameters = node.attributes["parameters"];
    if (typeof parameters === "number") scope.parameters = parameters;
    else if (VARIABLE.test(node.op)) scope.parameters = elements(node.shapes[0]);
    else if (node.op === "Input" && /(^|\/)params\//.test(node.name))
      scope.parameters = elements(node.shapes[0]);
    else if (node.op === "VarHandleOp") {
      // A handle has no size of its own; what reads it has.
      const read = outOf.get(scope.path)?.find((link) => link.to.node!.op === "ReadVariableOp");
      scope.parameters = elements(read?.to.node!.shapes[0]);
    }
  }
}

function addFlops(nodes: readonly GraphNode[], ofNode: ReadonlyMap<string, Scope>): void {
  for (const node of nodes) {
    const flops = node.attributes["flops"];
    if (typeof flops === "number") ofNode.get(node.name)!.flops = flops;
  }
}

/** Names as they stand in graphs: between slashes, without the number of an output. */
const slashed = (name: string): string =>
  name
    .replace(/:\d+$/, "")
    .replace(/[.]/g, "/")
    .replace(/[^A-Za-z0-9_\\/>-]/g, "_");

/** Gives each gradient to the parameter of its name; where a graph has more in front of names, or less, by their ends. */
function addGradients(ofNode: ReadonlyMap<string, Scope>, norms: readonly GradientNorm[]): void {
  const byEnd = new Map<string, { name: string; scope: Scope }[]>();
  if (!norms.length) return;
  for (const [given, scope] of ofNode) {
    if (scope.parameters === null) continue;
    const name = slashed(given);
    const end = name.slice(name.lastIndexOf("/") + 1);
    byEnd.set(end, [...(byEnd.get(end) ?? []), { name, scope }]);
  }
  for (const { parameter, norm, before, fell } of norms) {
    const name = slashed(parameter);
    const alike = byEnd.get(name.slice(name.lastIndexOf("/") + 1)) ?? [];
    const exact = alike.find((one) => one.name === name);
    const near = exact ?? alike.find((one) => one.name.endsWith(`/${name}`) || name.endsWith(`/${one.name}`));
    if (!near) continue;
    near.scope.gradient = Number(norm);
    near.scope.before = before === null ? null : Number(before);
    near.scope.fell = fell;
  }
}

function elements(sizes: readonly number[] | undefined): number | null {
  if (!sizes || sizes.some((size) => size < 0)) return null;
  return sizes.reduce((all, size) => all * size, 1);
}

function sumUp(root: Scope): void {
  const shapes = new Map<string, number>();
  const numbered = (text: string): number => {
    const known = shapes.get(text) ?? shapes.size + 1;
    shapes.set(text, known);
    return known;
  };
  const visit = (scope: Scope): Map<string, Kind> => {
    if (!scope.children.length) {
      scope.operations = scope.node ? 1 : 0;
      scope.op = scope.node?.op ?? "";
      scope.shape = numbered(scope.op);
      return new Map([[scope.op, { times: 1, micros: scope.micros ?? 0 }]]);
    }
    const ops = new Map<string, Kind>();
    for (const child of scope.children) {
      for (const [op, { times, micros }] of visit(child)) {
        const known = ops.get(op);
        ops.set(op, { times: times + (known?.times ?? 0), micros: micros + (known?.micros ?? 0) });
      }
      scope.operations += child.operations;
      scope.micros = added(scope.micros, child.micros);
      scope.memory = added(scope.memory, child.memory);
      scope.flops = added(scope.flops, child.flops);
      scope.parameters = added(scope.parameters, child.parameters);
      scope.gradient = joined(scope.gradient, child.gradient);
      scope.before = joined(scope.before, child.before);
      scope.fell ||= child.fell;
    }
    scope.op = foremost(ops);
    scope.shape = numbered(
      scope.children
        .map((child) => `${baseOf(child.name)} ${child.shape}`)
        .sort()
        .join("\n"),
    );
    return ops;
  };
  visit(root);
}

interface Kind {
  times: number;
  micros: number;
}

/** What only holds a value says nothing of what a scope does. */
const PASSIVE =
  /^(Parameter|Input|Output|Const|Placeholder|Identity|NoOp|VarHandleOp|VariableV?2?|ReadVariableOp)$/;

function foremost(ops: ReadonlyMap<string, Kind>): string {
  const rank = ([op, { times, micros }]: [string, Kind]): [number, number, number] => [
    micros,
    PASSIVE.test(op) ? 0 : 1,
    times,
  ];
  const before = (a: number[], b: number[]): number => a[0]! - b[0]! || a[1]! - b[1]! || a[2]! - b[2]!;
  return [...ops].reduce((a, b) => (before(rank(b), rank(a)) > 0 ? b : a))[0];
}

export function added(a: number | null, b: number | null): number | null {
  return a === null ? b : b === null ? a : a + b;
}

/** The norm of two gradients together. */
export function joined(a: number | null, b: number | null): number | null {
  return a === null ? b : b === null ? a : Math.hypot(a, b);
}

/** A name without the number at its end: h.3 and h.4, conv and conv_1 are alike. */
export function baseOf(name: string): string {
  return name.replace(/[._-]?\d+$/, "");
}

function listed(scope: Scope, all: Scope[]): void {
  scope.at = all.length;
  all.push(scope);
  for (const child of scope.children) listed(child, all);
}

/** The scopes above one, the root first. */
export function above(scope: Scope): Scope[] {
  const found: Scope[] = [];
  for (let up = scope.parent; up; up = up.parent) found.unshift(up);
  return found;
}

export function within(scope: Scope, outer: Scope): boolean {
  let up: Scope | null = scope;
  while (up && up.depth > outer.depth) up = up.parent;
  return up === outer;
}

/** Operations of a scope, itself included. */
export function operationsOf(scope: Scope): Scope[] {
  return scope.children.length ? scope.children.flatMap(operationsOf) : scope.node ? [scope] : [];
}

/** Scopes and operations whose path, or kind, holds a text; shorter paths first. */
export function search(model: Model, text: string, most: number): { found: Scope[]; total: number } {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return { found: [], total: 0 };
  const hit = (scope: Scope): boolean =>
    scope.parent !== null &&
    (scope.path.toLowerCase().includes(wanted) || (scope.node?.op.toLowerCase().includes(wanted) ?? false));
  const found = model.all.filter(hit);
  const rank = (scope: Scope): number => (scope.name.toLowerCase().includes(wanted) ? 0 : 1);
  return {
    found: [...found].sort((a, b) => rank(a) - rank(b) || a.depth - b.depth || a.at - b.at).slice(0, most),
    total: found.length,
  };
}

/** Sizes as they are written: 32 × 10; a size that is not known is a question mark. */
export function sizesText(sizes: readonly number[] | null): string {
  if (!sizes) return "";
  return sizes.length ? sizes.map((size) => (size < 0 ? "?" : String(size))).join(" × ") : "scalar";
}

/** What flows into and out of some scopes, once per operation at the other end; edges of mere order apart. */
export function crossings(
  model: Model,
  members: readonly Scope[],
): { inputs: Link[]; outputs: Link[]; ordered: number } {
  const inputs = new Map<string, Link>();
  const outputs = new Map<string, Link>();
  let ordered = 0;
  const inner = new Set(members);
  const outside = (scope: Scope): boolean => {
    for (let up: Scope | null = scope; up; up = up.parent) if (inner.has(up)) return false;
    return true;
  };
  for (const operation of members.flatMap(operationsOf)) {
    for (const link of model.into.get(operation.path) ?? []) {
      if (!outside(link.from)) continue;
      if (link.control) ordered += 1;
      else if (!inputs.has(link.from.path)) inputs.set(link.from.path, link);
    }
    for (const link of model.outOf.get(operation.path) ?? []) {
      if (!link.control && !outputs.has(link.to.path) && outside(link.to)) outputs.set(link.to.path, link);
    }
  }
  return { inputs: [...inputs.values()], outputs: [...outputs.values()], ordered };
}

/** Operations that took most time, the longest first. */
export function slowest(members: readonly Scope[], most: number): Scope[] {
  const timed = members.flatMap(operationsOf).filter((operation) => operation.micros !== null);
  return timed.sort((a, b) => b.micros! - a.micros!).slice(0, most);
}

/** Least, middle and largest of some values; null: none was recorded. */
export function middle(values: readonly (number | null)[]): [number, number, number] | null {
  const known = values.filter((value) => value !== null).sort((a, b) => a - b);
  if (!known.length) return null;
  const half = known.length >> 1;
  return [known[0]!, known.length % 2 ? known[half]! : (known[half - 1]! + known[half]!) / 2, known.at(-1)!];
}
