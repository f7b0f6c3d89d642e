/** A coordinate of an SVG path: tenths of a pixel are more than can be seen. */
export function px(value: number, decimals = 1): string {
  return value.toFixed(decimals);
}
