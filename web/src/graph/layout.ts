/** Where boxes stand: layers from top to bottom, by dagre in a worker. What nothing flows to or from stands in rows beneath. */
import type { Box, Picture } from "./boxes";
import type { Places, Shape } from "./places";
import { BOX, GAP, MARGIN } from "./sizes";

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

/** What of a picture decides where its boxes stand. Keys may hold anything, so boxes and edges go by number. */
export function shapeOf(picture: Picture): Shape {
  const numbers = new Map(picture.boxes.map((box, at) => [box.key, at]));
  return {
    outside: picture.boxes.map((box) => box.kind === "before" || box.kind === "after"),
    edges: picture.edges.map((edge) => [numbers.get(edge.from)!, numbers.get(edge.to)!]),
    strong: picture.edges.map((edge) => edge.count > 1),
  };
}

/**
 * @param places: Where the boxes of the picture stand.
 * @param room: Width in pixels that the rows beneath may fill.
 */
export function drawingOf(picture: Picture, places: Places, room: number): Drawing {
  const placed = picture.boxes.map((box, at): Placed => ({ box, ...places.boxes[at]! }));
  const lines = picture.edges.map((edge, at): Line => ({
    key: `${edge.from}\n${edge.to}`,
    ...edge,
    path: places.paths[at]!,
  }));
  const { width, height } = places;
  return withRows({ placed, lines, width, height, rows: null }, picture.loose, room);
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
