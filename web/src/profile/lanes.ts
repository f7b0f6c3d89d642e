/** Lanes by names that hold for the next profile of a run too, and what a person made of them. */
import type { ProfileLane } from "../server/api";
import type { View } from "../view/view";
import type { Arrangement } from "./layout";

type Arranged = Pick<View["profile"], "pinned" | "hidden" | "collapsed" | "folded" | "moved">;

/** A name for each lane; of lanes that are called alike the second is `…#2`. */
export function namesOf(lanes: readonly ProfileLane[]): string[] {
  const seen = new Map<string, number>();
  return lanes.map(({ rank, process, thread }) => {
    const name = `${rank}/${process}/${thread}`.replaceAll("\t", " ");
    const times = (seen.get(name) ?? 0) + 1;
    seen.set(name, times);
    return times > 1 ? `${name}#${times}` : name;
  });
}

/** What the address says of lanes, by their numbers; names that no lane has are left out. */
export function arrangementOf(names: readonly string[], arranged: Arranged): Arrangement {
  const numbers = new Map(names.map((name, number) => [name, number]));
  const found = (texts: readonly string[]): number[] =>
    texts.map((text) => numbers.get(text)).filter((number) => number !== undefined);
  return {
    pinned: [...new Set(found(arranged.pinned))],
    hidden: new Set(found(arranged.hidden)),
    collapsed: new Set(found(arranged.collapsed)),
    folded: new Set(arranged.folded),
    moved: arranged.moved.flatMap((text): [number, number | null][] => {
      const [name = "", before = ""] = text.split("\t");
      const [lane, other] = [numbers.get(name), before === "" ? null : numbers.get(before)];
      return lane === undefined || other === undefined ? [] : [[lane, other]];
    }),
  };
}

/** The address after a lane was moved before another one, or behind all of its group. */
export function movedTo(
  names: readonly string[],
  moved: readonly string[],
  lane: number,
  before: number | null,
): string[] {
  const text = `${names[lane]!}\t${before === null ? "" : names[before]!}`;
  // Twice the same lane in a row: the place between is of no use.
  const kept = moved.at(-1)?.startsWith(`${names[lane]!}\t`) ? moved.slice(0, -1) : moved;
  return [...kept, text];
}

/** Numbers with those that were moved in their new places; a move among others than these does nothing. */
export function inOrder(lanes: readonly number[], moved: Arrangement["moved"]): number[] {
  const order = [...lanes];
  for (const [lane, before] of moved) {
    const from = order.indexOf(lane);
    if (from < 0 || lane === before || (before !== null && !order.includes(before))) continue;
    order.splice(from, 1);
    order.splice(before === null ? order.length : order.indexOf(before), 0, lane);
  }
  return order;
}
