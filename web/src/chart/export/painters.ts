/** How canvases are painted, so that their files hold lines instead of pixels; apart, for every chart needs it. */

export type Paint = (c: CanvasRenderingContext2D, width: number, height: number) => void;

const painters = new WeakMap<HTMLCanvasElement, Paint>();

/** Says how a canvas is painted at its size in pixels of the page. */
export function paintedBy(canvas: HTMLCanvasElement, paint: Paint): void {
  painters.set(canvas, paint);
}

export function painterOf(canvas: HTMLCanvasElement): Paint | undefined {
  return painters.get(canvas);
}
