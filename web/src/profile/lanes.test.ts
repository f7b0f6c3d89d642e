import { describe, expect, it } from "vitest";
import type { ProfileLane } from "../server/api";
import { defaultView } from "../view/view";
import { arrangementOf, inOrder, movedTo, namesOf } from "./lanes";

const lane = (thread: string, rank = 0): ProfileLane => ({
  rank,
  process: "python",
  thread,
  device: -1,
  depth: 1,
  events: 1,
  busy_ratio: 1,
  stepping: false,
  working: true,
});

describe("lanes", () => {
  const names = namesOf([lane("main"), lane("loader"), lane("loader"), lane("main", 1)]);

  it("have names of their own", () => {
    expect(names).toEqual(["0/python/main", "0/python/loader", "0/python/loader#2", "1/python/main"]);
  });

  it("are found again by name, as far as they are there", () => {
    const found = arrangementOf(names, {
      ...defaultView().profile,
      pinned: ["1/python/main", "gone", "1/python/main"],
      hidden: ["0/python/loader#2"],
      moved: ["0/python/main\t", "0/python/main\tgone", "gone\t", "0/python/loader\t0/python/main"],
    });
    expect(found.pinned).toEqual([3]);
    expect([...found.hidden]).toEqual([2]);
    expect(found.moved).toEqual([
      [0, null],
      [1, 0],
    ]);
  });

  it("stand where they were put last", () => {
    expect(inOrder([4, 5, 6], [[6, 4]])).toEqual([6, 4, 5]);
    expect(inOrder([4, 5, 6], [[4, null], [9, 4], [5, 9]])).toEqual([5, 6, 4]); // prettier-ignore
    const moved = movedTo(names, [], 0, 1);
    expect(moved).toEqual(["0/python/main\t0/python/loader"]);
    expect(movedTo(names, moved, 0, null)).toEqual(["0/python/main\t"]);
    expect(movedTo(names, moved, 1, 2)).toHaveLength(2);
  });
});
