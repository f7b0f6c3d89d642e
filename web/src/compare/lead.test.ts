import { describe, expect, it } from "vitest";
import type { Judgement, SideValues } from "../server/api";
import { differenceIn, groupOfSide, lostText, loserOf, windowOf, withoutLead } from "./lead";
import { toneOf } from "./words";

const side = (more: Partial<SideValues> = {}): SideValues => ({
  mean: 1,
  spread: null,
  count: 1,
  bad: 0,
  ...more,
});
const judged = (a: SideValues, b: SideValues, window = "mean of steps 5\u20139"): Judgement => ({
  a,
  b,
  difference: 0,
  ratio: 0,
  low: null,
  high: null,
  window,
  verdict: "unknown",
  chance: null,
  word: "",
  why: "",
});

describe("a value that is lost", () => {
  it("names the side that alone ends without a finite value", () => {
    expect(loserOf(judged(side({ bad: 1 }), side()))).toBe("A");
    expect(loserOf(judged(side(), side({ bad: 2 })))).toBe("B");
    expect(loserOf(judged(side(), side()))).toBeNull();
    expect(loserOf(judged(side({ bad: 1 }), side({ bad: 1 })))).toBeNull();
  });
  it("says of how many runs, where there are several", () => {
    expect(lostText(judged(side(), side({ bad: 1 })))).toBe("ends without a finite value");
    expect(lostText(judged(side({ bad: 1, count: 3 }), side()))).toBe("1 run ends without a finite value");
    expect(lostText(judged(side({ bad: 2, count: 0 }), side()))).toBe("2 runs end without a finite value");
  });
});

describe("where no difference leads", () => {
  it("says it of the series that share steps enough, and of no others", () => {
    expect(withoutLead(36, 0)).toBe("No difference exceeds the spread in 36 series");
    expect(withoutLead(1, 35)).toBe(
      "No difference exceeds the spread in 1 series; 35 series share too few steps to tell",
    );
    expect(withoutLead(0, 36)).not.toContain("spread");
    expect(withoutLead(0, 1)).toContain("1 series shares too few steps to tell");
  });
});

it("a mean that is not known is no number, and of no shared steps the newest value stands", () => {
  expect(groupOfSide(side({ mean: null })).mean).toBeNaN();
  expect(windowOf(judged(side(), side(), ""))).toBe("newest");
  expect(differenceIn(judged(side(), side()))).toEqual({ difference: 0, ratio: 0 });
  expect(differenceIn({ ...judged(side(), side()), difference: null })).toBeNull();
});

it("only what is better or worse has a colour", () =>
  expect((["better", "worse", "changed", "noise", undefined] as const).map(toneOf)).toEqual([
    "ok",
    "bad",
    "",
    "",
    "",
  ]));
