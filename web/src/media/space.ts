/** Points and triangles in space, drawn by the processor: what a browser without a graphics card shows too. */

/** Where they are looked at from. */
export interface Camera {
  /** Radians about the upright axis, and up or down. */
  yaw: number;
  pitch: number;
  /** 1: everything fits. */
  zoom: number;
  /** Pixels by which the middle is moved. */
  x: number;
  y: number;
}

export const FRONT: Camera = { yaw: 0, pitch: 0, zoom: 1, x: 0, y: 0 };
export const ASIDE: Camera = { yaw: 0.6, pitch: 0.4, zoom: 1, x: 0, y: 0 };
const STEEPEST = Math.PI / 2;
const [LEAST_ZOOM, MOST_ZOOM] = [0.1, 60];
/** The eye's distance in radii of what is looked at. */
const DISTANCE = 4;

export interface Bounds {
  centre: [number, number, number];
  radius: number;
}

/** The middle of points, and how far the farthest of them is from it.
 *
 * @param places: x, y, z of each.
 */
export function boundsOf(places: Float32Array): Bounds {
  const low = [Infinity, Infinity, Infinity];
  const high = [-Infinity, -Infinity, -Infinity];
  for (let at = 0; at < places.length; at += 1) {
    const axis = at % 3;
    if (places[at]! < low[axis]!) low[axis] = places[at]!;
    if (places[at]! > high[axis]!) high[axis] = places[at]!;
  }
  if (!places.length) return { centre: [0, 0, 0], radius: 1 };
  const centre = low.map((value, axis) => (value + high[axis]!) / 2) as [number, number, number];
  let most = 0;
  for (let at = 0; at + 2 < places.length; at += 3) {
    most = Math.max(
      most,
      (places[at]! - centre[0]) ** 2 +
        (places[at + 1]! - centre[1]) ** 2 +
        (places[at + 2]! - centre[2]) ** 2,
    );
  }
  return { centre, radius: Math.sqrt(most) || 1 };
}

export function turned(camera: Camera, right: number, up: number): Camera {
  return {
    ...camera,
    yaw: camera.yaw + right,
    pitch: Math.max(-STEEPEST, Math.min(STEEPEST, camera.pitch + up)),
  };
}

/** Closer or farther; what is at a place of the picture stays there.
 *
 * @param x: Pixels from the middle.
 */
export function zoomed(camera: Camera, factor: number, x = 0, y = 0): Camera {
  const zoom = Math.max(LEAST_ZOOM, Math.min(MOST_ZOOM, camera.zoom * factor));
  const by = zoom / camera.zoom;
  return { ...camera, zoom, x: x + (camera.x - x) * by, y: y + (camera.y - y) * by };
}

/** Places in the picture: x and y in pixels, and depth in pixels, more is nearer.
 *
 * @param flat: Without perspective and without turning: the first two axes as they are.
 */
export function project(
  places: Float32Array,
  bounds: Bounds,
  camera: Camera,
  width: number,
  height: number,
  flat = false,
): Float32Array {
  const seen = new Float32Array(places.length);
  const scale = ((Math.min(width, height) / 2) * 0.92 * camera.zoom) / bounds.radius;
  const [cosYaw, sinYaw, cosPitch, sinPitch] = flat
    ? [1, 0, 1, 0]
    : [Math.cos(camera.yaw), Math.sin(camera.yaw), Math.cos(camera.pitch), Math.sin(camera.pitch)];
  const [cx, cy, cz] = bounds.centre;
  const eye = DISTANCE * bounds.radius;
  for (let at = 0; at + 2 < places.length; at += 3) {
    const [x, y, z] = [places[at]! - cx, places[at + 1]! - cy, places[at + 2]! - cz];
    const across = x * cosYaw + z * sinYaw;
    const back = z * cosYaw - x * sinYaw;
    const up = y * cosPitch - back * sinPitch;
    const near = y * sinPitch + back * cosPitch;
    const size = flat ? scale : (scale * eye) / (eye - near);
    seen[at] = width / 2 + camera.x + across * size;
    seen[at + 1] = height / 2 + camera.y - up * size;
    seen[at + 2] = flat ? 0 : near * scale;
  }
  return seen;
}

/** A picture with a depth for each pixel. */
export class Frame {
  readonly pixels: Uint32Array<ArrayBuffer>;
  readonly #depth: Float32Array;

  constructor(
    readonly width: number,
    readonly height: number,
  ) {
    this.pixels = new Uint32Array(width * height);
    this.#depth = new Float32Array(width * height).fill(-Infinity);
  }

  /** Discs, or squares, of one size around places.
   *
   * @param colours: Little-endian RGBA of each; 0: not drawn.
   * @param square: Which of them are squares.
   */
  points(seen: Float32Array, colours: Uint32Array, radius: number, square: Uint8Array | null = null): void {
    const { width, height, pixels } = this;
    const depth = this.#depth;
    for (let point = 0; point < colours.length; point += 1) {
      const colour = colours[point]!;
      if (!colour) continue;
      const [x, y, near] = [seen[3 * point]!, seen[3 * point + 1]!, seen[3 * point + 2]!];
      if (!(x > -radius && y > -radius && x < width + radius && y < height + radius)) continue;
      const reach = square?.[point] ? radius * 0.88 : radius;
      const limit = square?.[point] ? Infinity : radius * radius;
      const [left, right] = [Math.max(0, Math.ceil(x - reach)), Math.min(width - 1, Math.floor(x + reach))];
      const [top, bottom] = [Math.max(0, Math.ceil(y - reach)), Math.min(height - 1, Math.floor(y + reach))];
      for (let row = top; row <= bottom; row += 1) {
        for (let column = left; column <= right; column += 1) {
          if ((column - x) ** 2 + (row - y) ** 2 > limit) continue;
          const at = row * width + column;
          if (near < depth[at]!) continue;
          depth[at] = near;
          pixels[at] = colour;
        }
      }
    }
  }

  /** Triangles, lit from where they are looked at, both of their sides.
   *
   * @param faces: Three numbers of points for each; those that do not exist are left out.
   * @param colours: Little-endian RGBA of each point, blended between them.
   */
  triangles(seen: Float32Array, faces: ArrayLike<number>, colours: Uint32Array): void {
    const points = seen.length / 3;
    for (let face = 0; face + 2 < faces.length; face += 3) {
      const [a, b, c] = [faces[face]!, faces[face + 1]!, faces[face + 2]!];
      if (a < points && b < points && c < points && a >= 0 && b >= 0 && c >= 0)
        this.#triangle(seen, a, b, c, colours);
    }
  }

  #triangle(seen: Float32Array, a: number, b: number, c: number, colours: Uint32Array): void {
    const [ax, ay, az] = [seen[3 * a]!, seen[3 * a + 1]!, seen[3 * a + 2]!];
    const [bx, by, bz] = [seen[3 * b]!, seen[3 * b + 1]!, seen[3 * b + 2]!];
    const [cx, cy, cz] = [seen[3 * c]!, seen[3 * c + 1]!, seen[3 * c + 2]!];
    const { width, height, pixels } = this;
    const area = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax);
    if (!(Math.abs(area) > 1e-6)) return;
    const nx = (by - ay) * (cz - az) - (bz - az) * (cy - ay);
    const ny = (bz - az) * (cx - ax) - (bx - ax) * (cz - az);
    const light = 0.35 + 0.65 * (Math.abs(area) / Math.hypot(nx, ny, area));
    const [left, right] = [
      Math.max(0, Math.ceil(Math.min(ax, bx, cx))),
      Math.min(width - 1, Math.floor(Math.max(ax, bx, cx))),
    ];
    const [top, bottom] = [
      Math.max(0, Math.ceil(Math.min(ay, by, cy))),
      Math.min(height - 1, Math.floor(Math.max(ay, by, cy))),
    ];
    const [ca, cb, cc] = [colours[a]!, colours[b]!, colours[c]!];
    const one = ca === cb && cb === cc;
    const plain = one ? lit(ca, ca, ca, light, 0, 0) : 0;
    const depth = this.#depth;
    for (let row = top; row <= bottom; row += 1) {
      for (let column = left; column <= right; column += 1) {
        const u = ((bx - column) * (cy - row) - (by - row) * (cx - column)) / area;
        const v = ((cx - column) * (ay - row) - (cy - row) * (ax - column)) / area;
        if (u < 0 || v < 0 || u + v > 1) continue;
        const near = u * az + v * bz + (1 - u - v) * cz;
        const at = row * width + column;
        if (near < depth[at]!) continue;
        depth[at] = near;
        pixels[at] = one ? plain : lit(ca, cb, cc, light, u, v);
      }
    }
  }
}

/** A colour between three, and darker. */
function lit(a: number, b: number, c: number, light: number, u: number, v: number): number {
  let mixed = 0xff;
  for (const shift of [16, 8, 0]) {
    const part = ((a >>> shift) & 255) * u + ((b >>> shift) & 255) * v + ((c >>> shift) & 255) * (1 - u - v);
    mixed = (mixed << 8) | Math.min(255, Math.round(part * light));
  }
  return mixed >>> 0;
}

/** Colours of points, those far away faded into the page.
 *
 * @param paper: Little-endian RGBA of the page.
 */
export function faded(colours: Uint32Array, seen: Float32Array, paper: number, reach: number): Uint32Array {
  return colours.map((colour, point) => {
    if (!colour) return 0;
    const far = Math.max(0, Math.min(1, 0.5 - seen[3 * point + 2]! / (2 * reach)));
    return mixed(colour, paper, 0.62 * far);
  });
}

export function mixed(colour: number, other: number, part: number): number {
  let found = 0xff;
  for (const shift of [16, 8, 0]) {
    const [from, to] = [(colour >>> shift) & 255, (other >>> shift) & 255];
    found = (found << 8) | Math.round(from + (to - from) * part);
  }
  return found >>> 0;
}

/** The point nearest to a place of the picture, of several the one in front; -1: none within reach. */
export function pointAt(
  seen: Float32Array,
  x: number,
  y: number,
  reach: number,
  drawn: (point: number) => boolean = () => true,
): number {
  let [best, least] = [-1, reach * reach];
  for (let point = 0; 3 * point + 2 < seen.length; point += 1) {
    const far = (seen[3 * point]! - x) ** 2 + (seen[3 * point + 1]! - y) ** 2;
    if (far > least || !drawn(point)) continue;
    if (best >= 0 && far > least - 2 && seen[3 * point + 2]! < seen[3 * best + 2]!) continue;
    [best, least] = [point, far];
  }
  return best;
}

/** What arrow keys, + and − do to a camera; null: nothing. */
export function cameraKey(camera: Camera, key: string, flat = false, start: Camera = ASIDE): Camera | null {
  const [turn, move] = [Math.PI / 24, 24];
  const arrows: Record<string, [number, number]> = {
    ArrowLeft: [-1, 0],
    ArrowRight: [1, 0],
    ArrowUp: [0, 1],
    ArrowDown: [0, -1],
  };
  const arrow = arrows[key];
  if (arrow)
    return flat
      ? { ...camera, x: camera.x - arrow[0] * move, y: camera.y + arrow[1] * move }
      : turned(camera, arrow[0] * turn, arrow[1] * turn);
  if (key === "+" || key === "=") return zoomed(camera, 1.25);
  if (key === "-") return zoomed(camera, 1 / 1.25);
  if (key === "f" || key === "0") return { ...start };
  return null;
}
