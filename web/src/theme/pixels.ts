/** Colours as the pixels of pictures: little-endian RGBA. */
import { cividisAt } from "./colour";

/** Where of cividis a cell of a density map is drawn, of 0 to 1: one value (share 0) is told from the page in either theme. */
export const densityPlace = (share: number, dark: boolean): number =>
  dark ? 0.42 + 0.58 * share : 0.58 * (1 - share);

/** All of cividis in 256 steps, for pictures that cover their whole area. */
export const cividisPixels = (): Uint32Array =>
  Uint32Array.from({ length: 256 }, (_, at) => rgba(cividisAt(at / 255)));

/** Red, green and blue of a colour written as `#rgb` or `#rrggbb`. */
export function parseColour(text: string): [number, number, number] {
  const digits = text.trim().replace("#", "");
  const value = Number.parseInt(
    digits.length === 3 ? [...digits].map((one) => one + one).join("") : digits,
    16,
  );
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}

export function rgba([red, green, blue]: readonly [number, number, number]): number {
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}
