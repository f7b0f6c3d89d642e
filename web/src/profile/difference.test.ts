import { describe, expect, it } from "vitest";
import type { DiffRow } from "../server/api";
import { explainedBy, leadOf, pText } from "./difference";

const row = (name: string, difference_ns: number, verdict: string): DiffRow => ({
  name,
  a: null,
  b: null,
  difference_ns,
  ratio: null,
  verdict,
  p_value: null,
  effect: null,
  shift_ns: null,
  low_ns: null,
  high_ns: null,
  explains_ratio: null,
});

describe("what leads a difference", () => {
  it("is the largest that the steps can tell, not the largest", () =>
    expect(
      leadOf([row("noise", 900, "unclear"), row("less", -300, "faster"), row("more", 200, "slower")])?.name,
    ).toBe("less"));
  it("is nothing where the steps can tell none", () =>
    expect(leadOf([row("noise", 900, "unclear"), row("equal", 1, "same")])).toBeNull());
  it("is explained only by rows that chance does not explain", () => {
    const explained = (verdict: string): number | null =>
      explainedBy({ ...row("aten::mm", 107, verdict), explains_ratio: 0.754 });
    expect(["slower", "added", "unclear", "same"].map(explained)).toEqual([0.754, 0.754, null, null]);
  });
  it("has a probability that is never 0", () =>
    expect([pText(0.0000001), pText(0.0286)]).toEqual(["<\u00a00.001", "0.0286"]));
});
