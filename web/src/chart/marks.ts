/** Marks on the x axis: notes on steps, and which marks are meant by a place on a chart. */
import type { Family } from "../runs/catalog";
import type { Mark } from "./model";

/** A mark is read, and clicked, from so many pixels away. */
export const NEAR_MARK = 8;

/** The notes on steps of some runs.
 *
 * @param titleOf: What a run is called; it is said where there are several.
 */
export function notesOf(families: readonly Family[], titleOf: (name: string) => string): Mark[] {
  return families.flatMap(({ name, main }) =>
    main.step_notes.map(({ step, text }) => ({
      step,
      kind: "note" as const,
      text: families.length > 1 ? `${titleOf(name)}: ${text}` : text,
      path: null,
      run: name,
    })),
  );
}

/** Marks that lie near a pixel, the nearest first.
 *
 * @param left: The pixel of a step.
 */
export function marksNear(marks: readonly Mark[], pixel: number, left: (step: number) => number): Mark[] {
  return marks
    .map((mark) => ({ mark, distance: Math.abs(left(mark.step) - pixel) }))
    .filter(({ distance }) => distance <= NEAR_MARK)
    .sort((a, b) => a.distance - b.distance)
    .map(({ mark }) => mark);
}
