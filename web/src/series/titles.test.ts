import { expect, it } from "vitest";
import type { Chart, Split } from "../server/api";
import { addsEval } from "./titles";

it("tells a line of the evaluation from the title", () => {
  const of = (split: Split | null): Pick<Chart, "split"> => ({ split });
  expect(addsEval(of(null), { split: "eval" })).toBe(true);
  expect(addsEval(of("eval"), { split: "eval" })).toBe(false);
  expect(addsEval(of(null), { split: "train" })).toBe(false);
  expect(addsEval(of(null), undefined)).toBe(false);
});
