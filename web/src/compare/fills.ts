/** What lies below the lines of two sides: the range of each one's runs, and the band between the sides. */
import type { Placing } from "../chart/model";
import type { SideName } from "../runs/sides";
import type { SideLine } from "../runs/sidelines";

interface Band {
  x: ArrayLike<number>;
  low: ArrayLike<number>;
  high: ArrayLike<number>;
}

/** Returns what paints the bands.
 *
 * @param gap: Values of both sides where both have one; null: nowhere.
 * @param floor: On a logarithmic axis, what values of 0 or less are drawn at.
 */
export function fills(
  sides: { a: SideLine | null; b: SideLine | null },
  gap: { x: number[]; a: number[]; b: number[] } | null,
  colours: Record<SideName, string>,
  neutral: string,
  floor: number | null,
): (c: CanvasRenderingContext2D, placing: Placing) => void {
  return (c, placing) => {
    const paint = (band: Band, colour: string, alpha: number): void =>
      fill(c, band, placing, colour, alpha, floor);
    if (gap?.x.length) paint({ x: gap.x, low: gap.a, high: gap.b }, neutral, 0.2);
    for (const [side, colour] of [
      [sides.a, colours.A],
      [sides.b, colours.B],
    ] as const) {
      if (side && side.runs > 1) paint(side, colour, 0.16);
    }
  };
}

/** Fills between two edges, anew after each place where one has no value. */
function fill(
  c: CanvasRenderingContext2D,
  { x, low, high }: Band,
  placing: Placing,
  colour: string,
  alpha: number,
  floor: number | null,
): void {
  c.globalAlpha = alpha;
  c.fillStyle = colour;
  const height = (value: number): number => placing.y(floor === null ? value : Math.max(value, floor));
  let from = 0;
  for (let at = 0; at <= x.length; at += 1) {
    if (at < x.length && Number.isFinite(low[at]!) && Number.isFinite(high[at]!)) continue;
    if (at - from > 1) {
      c.beginPath();
      for (let place = from; place < at; place += 1) c.lineTo(placing.x(x[place]!), height(low[place]!));
      for (let place = at - 1; place >= from; place -= 1)
        c.lineTo(placing.x(x[place]!), height(high[place]!));
      c.fill();
    }
    from = at + 1;
  }
  c.globalAlpha = 1;
}
