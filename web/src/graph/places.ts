/** Places of boxes and paths of edges: a task of its own, for it may take some tenths of a second. */
import { Graph, layout } from "@dagrejs/dagre";
import { px } from "../format/path";
import { layersOf, ordered, passed } from "./layers";
import { BOX, MARGIN, OUTSIDE } from "./sizes";

/** What decides where boxes stand. */
export interface Shape {
  /** Of each box, whether it stands for what lies outside. */
  outside: boolean[];
  /** Numbers of the boxes that each edge leads from and to. */
  edges: (readonly [number, number])[];
  /** Of each edge, whether it stands for several. */
  strong: boolean[];
}

/** A box, by its left upper corner. */
export interface Place {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Places {
  boxes: Place[];
  /** Of each edge, for an SVG. */
  paths: string[];
  width: number;
  height: number;
}

/** Boxes and bends beyond which dagre takes longer than a blink. */
const CAREFUL = 450;
const CAREFUL_EDGES = 320;

const sizeOf = (outside: boolean): { width: number; height: number } => (outside ? OUTSIDE : BOX);

export function placesOf(shape: Shape): Places {
  if (!shape.outside.length) return { boxes: [], paths: [], width: 0, height: 0 };
  const layer = layersOf(shape.outside.length, shape.edges);
  const simple =
    shape.outside.length + passed(layer, shape.edges) <= CAREFUL && shape.edges.length <= CAREFUL_EDGES;
  return simple ? careful(shape) : quick(shape, layer);
}

function careful({ outside, edges, strong }: Shape): Places {
  const graph = new Graph({ multigraph: false });
  graph.setGraph({ rankdir: "TB", nodesep: 24, ranksep: 34, marginx: MARGIN, marginy: MARGIN });
  graph.setDefaultEdgeLabel(() => ({}));
  outside.forEach((one, at) => graph.setNode(String(at), { ...sizeOf(one) }));
  edges.forEach(([from, to], at) => graph.setEdge(String(from), String(to), { weight: strong[at] ? 2 : 1 }));
  layout(graph);
  const boxes = outside.map((one, at) => {
    const size = sizeOf(one);
    const { x, y } = graph.node(String(at)) as Point;
    return { x: x - size.width / 2, y: y - size.height / 2, ...size };
  });
  const paths = edges.map(([from, to]) =>
    curve((graph.edge(String(from), String(to)) as { points: Point[] }).points),
  );
  const { width, height } = graph.graph() as { width: number; height: number };
  return { boxes, paths, width, height };
}

/** Layers without room for the edges that pass them: these run behind the boxes. */
function quick({ outside, edges }: Shape, layer: readonly number[]): Places {
  const rows = ordered(layer, edges);
  const step = { x: BOX.width + 24, y: BOX.height + 48 };
  const width = 2 * MARGIN + Math.max(...rows.map((row) => row.length)) * step.x - 24;
  const boxes: Place[] = [];
  rows.forEach((row, down) =>
    row.forEach((at, across) => {
      const size = sizeOf(outside[at]!);
      boxes[at] = {
        x: (width - row.length * step.x + 24) / 2 + across * step.x,
        y: MARGIN + down * step.y + (BOX.height - size.height) / 2,
        ...size,
      };
    }),
  );
  const paths = edges.map(([first, second]) => {
    const [from, to] = [boxes[first]!, boxes[second]!];
    const [start, end] = [
      { x: from.x + from.width / 2, y: from.y + from.height },
      { x: to.x + to.width / 2, y: to.y },
    ];
    const bend = Math.max(24, Math.abs(end.y - start.y) / 3);
    return `M${start.x} ${start.y}C${start.x} ${start.y + bend} ${end.x} ${end.y - bend} ${end.x} ${end.y}`;
  });
  return { boxes, paths, width, height: MARGIN + rows.length * step.y };
}

interface Point {
  x: number;
  y: number;
}

/** A curve along the points: through the middles between them, towards each of them. */
function curve(points: readonly Point[]): string {
  const at = ({ x, y }: Point): string => `${px(x)} ${px(y)}`;
  const [first, ...rest] = points;
  if (!first) return "";
  const inner = rest.slice(0, -1).map((point, one) => {
    const next = rest[one + 1]!;
    const end = one === rest.length - 2 ? next : { x: (point.x + next.x) / 2, y: (point.y + next.y) / 2 };
    return `Q${at(point)} ${at(end)}`;
  });
  return `M${at(first)}${inner.length ? inner.join("") : rest.map((point) => `L${at(point)}`).join("")}`;
}
