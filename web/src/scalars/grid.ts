/** How many cards fit beside each other, and how high they are. */

const LEAST_WIDTH = 270;
const HEIGHT = 165;
const TALLEST = 300;
/** A section shows so many charts until more are asked for. */
export const MOST_PER_SECTION = 60;

export interface Grid {
  columns: number;
  height: number;
}

/** Few charts share the width, so that none of it stays empty; wide cards are higher. */
export function gridOf(width: number, charts: number): Grid {
  const fit = Math.max(1, Math.floor(width / LEAST_WIDTH));
  const columns = Math.max(1, Math.min(fit, charts));
  const each = width / columns;
  return { columns, height: Math.round(Math.min(TALLEST, Math.max(HEIGHT, each * 0.56))) };
}
