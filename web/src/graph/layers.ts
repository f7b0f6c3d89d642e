/** Layers of a graph in linear time: for graphs of so many long edges that a careful layout would take minutes. */

/** Layer of each node: one below the lowest of those before it. Edges that close a circle do not count.
 *
 * @param edges: Pairs of nodes, from and to.
 */
export function layersOf(nodes: number, edges: readonly (readonly [number, number])[]): number[] {
  const after: number[][] = Array.from({ length: nodes }, () => []);
  for (const [from, to] of edges) after[from]!.push(to);
  const order: number[] = [];
  const state = new Uint8Array(nodes);
  const forward: [number, number][] = [];
  const visit = (at: number): void => {
    state[at] = 1;
    for (const next of after[at]!) {
      if (state[next] !== 1) forward.push([at, next]);
      if (state[next] === 0) visit(next);
    }
    state[at] = 2;
    order.push(at);
  };
  for (let at = 0; at < nodes; at += 1) if (state[at] === 0) visit(at);
  const kept: number[][] = Array.from({ length: nodes }, () => []);
  for (const [from, to] of forward) kept[from]!.push(to);
  const layer = new Array<number>(nodes).fill(0);
  for (const at of order.reverse())
    for (const next of kept[at]!) layer[next] = Math.max(layer[next]!, layer[at]! + 1);
  return layer;
}

/** Nodes of each layer from left to right: each as near as can be to the middle of those it is joined to. */
export function ordered(
  layer: readonly number[],
  edges: readonly (readonly [number, number])[],
  sweeps = 6,
): number[][] {
  const rows: number[][] = [];
  layer.forEach((row, at) => (rows[row] ??= []).push(at));
  const joined: number[][] = layer.map(() => []);
  for (const [from, to] of edges) {
    joined[from]!.push(to);
    joined[to]!.push(from);
  }
  const place = layer.map(() => 0);
  const settle = (row: readonly number[]): void =>
    row.forEach((at, column) => (place[at] = (column + 0.5) / row.length));
  rows.forEach(settle);
  for (let sweep = 0; sweep < sweeps; sweep += 1) {
    for (const row of rows) {
      const wanted = new Map(
        row.map((at) => [
          at,
          joined[at]!.length
            ? joined[at]!.reduce((sum, one) => sum + place[one]!, 0) / joined[at]!.length
            : place[at]!,
        ]),
      );
      row.sort((a, b) => wanted.get(a)! - wanted.get(b)!);
      settle(row);
    }
  }
  return rows;
}

/** How many layers edges pass through without ending there: what a careful layout's time grows with. */
export function passed(layer: readonly number[], edges: readonly (readonly [number, number])[]): number {
  return edges.reduce((sum, [from, to]) => sum + Math.max(0, Math.abs(layer[to]! - layer[from]!) - 1), 0);
}
