/** Zoom without dragging. */
import { app } from "./app.svelte";
import { cursor } from "./cursor.svelte";
import { feed } from "./feed.svelte";

/** Whether any axis is zoomed into. */
export const isZoomed = (): boolean => app.view.charts.zoom !== null || app.view.charts.yZooms.length > 0;

/** Back to the whole of all axes. */
export function resetZoom(): void {
  app.set({ charts: { zoom: null, yZooms: [] } });
}

/** Multiplies the width of the x range around the cursor, else around its middle; the whole range resets. */
export function zoomBy(factor: number): void {
  const whole = feed.extent;
  const now = app.view.charts.zoom ?? (whole ? [whole.min, whole.max] : null);
  if (!now || !whole) return;
  const middle = cursor.state.x ?? (now[0]! + now[1]!) / 2;
  const half = ((now[1]! - now[0]!) * factor) / 2;
  const whole_steps = app.view.charts.x === "step" ? Math.round : (value: number): number => value;
  const zoom: [number, number] = [whole_steps(middle - half), whole_steps(middle + half)];
  app.set({
    charts: {
      zoom:
        factor > 1 && zoom[1] - zoom[0] > 4 * (now[1]! - now[0]!) ? null : zoom[1] > zoom[0] ? zoom : null,
    },
  });
}
