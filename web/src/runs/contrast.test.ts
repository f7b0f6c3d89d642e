import { describe, expect, it } from "vitest";
import { contrast, environmentOf } from "./contrast";

describe("contrast", () => {
  it("says what each side says, and where all say the same", () => {
    expect(contrast([{ lr: 1e-3, seed: 1 }], [{ lr: 3e-4, seed: 1 }])).toEqual([
      { key: "lr", a: "0.001", b: "3e-4", same: false },
      { key: "seed", a: "1", b: "1", same: true },
    ]);
  });
  it("several runs: each value with its runs; a missing key differs", () => {
    expect(contrast([{ lr: 1 }, { lr: 2 }, { lr: 1 }], [{}])).toEqual([
      { key: "lr", a: "1 (2), 2 (1)", b: "–", same: false },
    ]);
  });
  it("one side that disagrees with itself differs, though both sides do so alike", () => {
    expect(contrast([{ seed: 1 }, { seed: 2 }], [{ seed: 1 }, { seed: 2 }])[0]!.same).toBe(false);
  });
  it("null is a value", () =>
    expect(contrast([{ x: null }], [{}])[0]).toEqual({ key: "x", a: "None", b: "–", same: false }));
});

describe("environment", () => {
  it("keeps what is recorded", () => {
    expect(
      environmentOf({ host: "n1", python: "3.11", frameworks: { torch: "2.9" }, reason: "x", command: null }),
    ).toEqual({ host: "n1", python: "3.11", torch: "2.9" });
  });
});

it("rounds what was sampled where there is little room, and still tells it apart", () => {
  const row = (a: number, b: number): unknown => contrast([{ lr: a }], [{ lr: b }], 3)[0];
  expect(row(0.123456, 0.234567)).toMatchObject({ a: "0.123", b: "0.235", same: false });
  expect(row(0.123456, 0.123457)).toMatchObject({ a: "0.123456", b: "0.123457", same: false });
});
