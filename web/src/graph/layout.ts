/** Where boxes stand: layers from top to bottom, by dagre. What nothing flows to or from stands in rows beneath. */
import { px } from "../format/path";
import { Graph, layout } from "@dagrejs/dagre";
import type { Box, Picture } from "./boxes";
import { layersOf, ordered, passed } from "./layers";

export const BOX = { width: 168, height: 42 };
const OUTSIDE = { width: 168, height: 26 };
const GAP = 16;
const MARGIN = 16;

export interface Placed {
  box: Box;
  /** Its left upper corner. */
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Line {
  key: string;
  from: string;
  to: string;
  path: string;
  count: number;
  sizes: number[] | null;
}

export interface Drawing {
  placed: Placed[];
  lines: Line[];
  width: number;
  height: number;
  /** Top of the rows of what is not connected; null: there is none. */
  rows: number | null;
}

const sizeOf = (box: Box): { width: number; height: number } =>
  box.kind === "before" || box.kind === "after" ? OUTSIDE : BOX;

/** Boxes and bends beyond which dagre takes longer than a blink. */
const CAREFUL = 450;
const CAREFUL_EDGES = 320;

/**
 * @param room: Width in pixels that the rows beneath may fill.
 */
export function drawingOf(picture: Picture, room: number): Drawing {
  // Keys may hold anything, so boxes and edges go by number.
  const numbers = new Map(picture.boxes.map((box, at) => [box.key, at]));
  const edges = picture.edges.map((edge) => [numbers.get(edge.from)!, numbers.get(edge.to)!] as const);
  const layer = layersOf(picture.boxes.length, edges);
  const simple = picture.boxes.length + passed(layer, edges) <= CAREFUL && edges.length <= CAREFUL_EDGES;
  return withRows(simple ? careful(picture, edges) : quick(picture, edges, layer), picture.loose, room);
}

type Pairs = readonly (readonly [number, number])[];

function careful(picture: Picture, edges: Pairs): Drawing {
  if (!picture.boxes.length) return { placed: [], lines: [], width: 0, height: 0, rows: null };
  const graph = new Graph({ multigraph: false });
  graph.setGraph({ rankdir: "TB", nodesep: 24, ranksep: 34, marginx: MARGIN, marginy: MARGIN });
  graph.setDefaultEdgeLabel(() => ({}));
  picture.boxes.forEach((box, at) => graph.setNode(String(at), { ...sizeOf(box) }));
  edges.forEach(([from, to], at) =>
    graph.setEdge(String(from), String(to), { weight: picture.edges[at]!.count > 1 ? 2 : 1 }),
  );
  layout(graph);
  const placed = picture.boxes.map((box, at): Placed => {
    const size = sizeOf(box);
    const { x, y } = graph.node(String(at)) as { x: number; y: number };
    return { box, x: x - size.width / 2, y: y - size.height / 2, ...size };
  });
  const lines = picture.edges.map((edge, at): Line => {
    const { points } = graph.edge(String(edges[at]![0]), String(edges[at]![1])) as { points: Point[] };
    return { key: `${edge.from}\n${edge.to}`, ...edge, path: curve(points) };
  });
  const { width, height } = graph.graph() as { width: number; height: number };
  return { placed, lines, width, height, rows: null };
}

/** Layers without room for the edges that pass them: these run behind the boxes. */
function quick(picture: Picture, edges: Pairs, layer: readonly number[]): Drawing {
  const rows = ordered(layer, edges);
  const step = { x: BOX.width + 24, y: BOX.height + 48 };
  const width = 2 * MARGIN + Math.max(...rows.map((row) => row.length)) * step.x - 24;
  const placed: Placed[] = [];
  rows.forEach((row, down) =>
    row.forEach((at, across) => {
      const size = sizeOf(picture.boxes[at]!);
      placed[at] = {
        box: picture.boxes[at]!,
        x: (width - row.length * step.x + 24) / 2 + across * step.x,
        y: MARGIN + down * step.y + (BOX.height - size.height) / 2,
        ...size,
      };
    }),
  );
  const lines = picture.edges.map((edge, at): Line => {
    const [from, to] = [placed[edges[at]![0]]!, placed[edges[at]![1]]!];
    const [start, end] = [
      { x: from.x + from.width / 2, y: from.y + from.height },
      { x: to.x + to.width / 2, y: to.y },
    ];
    const bend = Math.max(24, Math.abs(end.y - start.y) / 3);
    return {
      key: `${edge.from}\n${edge.to}`,
      ...edge,
      path: `M${start.x} ${start.y}C${start.x} ${start.y + bend} ${end.x} ${end.y - bend} ${end.x} ${end.y}`,
    };
  });
  return { placed, lines, width, height: MARGIN + rows.length * step.y, rows: null };
}

function withRows(drawing: Drawing, loose: readonly Box[], room: number): Drawing {
  if (!loose.length) return drawing;
  const across = Math.max(
    1,
    Math.floor((Math.max(drawing.width, room) - 2 * MARGIN + GAP) / (BOX.width + GAP)),
  );
  const top = drawing.height + (drawing.height ? 24 : MARGIN);
  const placed = loose.map((box, at): Placed => ({
    box,
    x: MARGIN + (at % across) * (BOX.width + GAP),
    y: top + Math.floor(at / across) * (BOX.height + GAP),
    ...BOX,
  }));
  return {
    ...drawing,
    placed: [...drawing.placed, ...placed],
    width: Math.max(drawing.width, 2 * MARGIN + Math.min(across, loose.length) * (BOX.width + GAP) - GAP),
    height: top + Math.ceil(loose.length / across) * (BOX.height + GAP),
    rows: top,
  };
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
