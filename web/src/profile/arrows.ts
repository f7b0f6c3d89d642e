/** Arrows from what led to the selected event, and to what it led to. */
import type { ProfileEvent, Related } from "../server/api";
import { ROW, type Layout } from "./layout";
import type { Look } from "./paint";

export interface Arrow {
  from: Related;
  to: Related;
}

export function arrowsOf(event: ProfileEvent): Arrow[] {
  return [
    ...event.predecessors.map((link) => ({ from: link.event, to: event })),
    ...event.successors.map((link) => ({ from: event, to: link.event })),
  ];
}

/** Leaves a span where it ends, or where it begins if the other has begun by then. */
export function leaves(arrow: Arrow): number {
  const end = arrow.from.start_ns + arrow.from.duration_ns;
  return end <= arrow.to.start_ns
    ? end
    : Math.min(arrow.from.start_ns, arrow.to.start_ns + arrow.to.duration_ns);
}

/** The middle of a span's row; of a closed lane, or one that is deeper than what is drawn, its last row. */
function middle(layout: Layout, event: Related, scrolled: number): number | null {
  const box = layout.byLane.get(event.lane);
  return box ? box.top - scrolled + Math.min(event.depth, box.depth - 1) * ROW + 8 : null;
}

export function paintArrows(
  context: CanvasRenderingContext2D,
  arrows: readonly Arrow[],
  layout: Layout,
  scrolled: number,
  look: Look,
  x: (time: number) => number,
): void {
  context.lineWidth = 1.5;
  for (const arrow of arrows) {
    const [y0, y1] = [middle(layout, arrow.from, scrolled), middle(layout, arrow.to, scrolled)];
    if (y0 === null || y1 === null) continue;
    const [x0, x1] = [clamp(x(leaves(arrow))), clamp(x(arrow.to.start_ns))];
    const bend = Math.min(120, Math.max(16, Math.abs(x1 - x0) / 2));
    // A rim of paper keeps the line apart from the spans below it.
    for (const [colour, wide] of [
      [look.surface, 4],
      [look.accent, 1.5],
    ] as const) {
      context.strokeStyle = colour;
      context.lineWidth = wide;
      context.beginPath();
      context.moveTo(x0, y0);
      context.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1 - 5, y1);
      context.stroke();
    }
    context.fillStyle = look.accent;
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x1 - 7, y1 - 4);
    context.lineTo(x1 - 7, y1 + 4);
    context.fill();
  }
}

/** Far outside is as good as outside, and canvases lose their way in numbers that are too large. */
const clamp = (x: number): number => Math.max(-5_000, Math.min(20_000, x));
