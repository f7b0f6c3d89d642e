/** Meshes: a tag for the points, one for the faces, one for the colours. */
import type { RecordTag } from "../server/api";
import { blobAddress, type Kept } from "../server/records";
import { Refused } from "../server/client";

export interface Parts<T> {
  tag: string;
  vertices: T;
  faces: T | null;
  colours: T | null;
}

/** The meshes among tags, each with its parts. */
export function meshesOf<T extends RecordTag>(tags: readonly T[]): Parts<T>[] {
  const parts = new Map<string, Partial<Record<NonNullable<RecordTag["mesh"]>["part"], T>>>();
  for (const tag of tags) {
    if (tag.mesh) parts.set(tag.mesh.mesh, { ...parts.get(tag.mesh.mesh), [tag.mesh.part]: tag });
  }
  return [...parts].flatMap(([tag, { vertices, faces = null, colors: colours = null }]) =>
    vertices ? [{ tag, vertices, faces, colours }] : [],
  );
}

/** Numbers of one value: of the first of a batch.
 *
 * @throws Refused: The server has none.
 */
export async function fetchNumbers(run: string, tag: string, value: Kept): Promise<Float32Array> {
  const answer = await fetch(blobAddress(run, tag, value, 0), { signal: AbortSignal.timeout(60_000) });
  if (!answer.ok) throw new Refused(answer.status, `the numbers of ${tag} cannot be read`, "");
  return new Float32Array(await answer.arrayBuffer());
}

/** One mesh of a batch, of which all have the same number of rows.
 *
 * @param shape: [batch, rows, 3].
 */
export function oneOf(numbers: Float32Array, shape: readonly number[], index: number): Float32Array {
  const size = (shape[1] ?? 0) * 3;
  const at = Math.min(index, Math.max(0, (shape[0] ?? 1) - 1)) * size;
  return numbers.subarray(at, at + size);
}

/** Little-endian RGBA of colours of 0 to 255; all alike where there are none. */
export function pixelsOf(colours: Float32Array | null, points: number, otherwise: number): Uint32Array {
  if (!colours || colours.length < 3 * points) return new Uint32Array(points).fill(otherwise);
  return Uint32Array.from({ length: points }, (_, at) => {
    const [red, green, blue] = [0, 1, 2].map((part) =>
      Math.max(0, Math.min(255, Math.round(colours[3 * at + part]!))),
    );
    return ((255 << 24) | (blue! << 16) | (green! << 8) | red!) >>> 0;
  });
}
