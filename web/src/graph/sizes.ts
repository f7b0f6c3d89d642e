/** Sizes of what a graph is drawn of, in pixels. */
export const BOX = { width: 168, height: 42 };
/** A box of what lies outside of the scope. */
export const OUTSIDE = { width: 168, height: 26 };
export const GAP = 16;
export const MARGIN = 16;
