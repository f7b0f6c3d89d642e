import { expect, it } from "vitest";
import type { Chart, Split } from "../server/api";
import { addsEval, shortTitles } from "./titles";

const short = (...titles: string[]): string[] => [
  ...shortTitles(titles.map((title) => ({ id: title, title }))).values(),
];

it("leaves out what no chart is told by", () => {
  expect(short("speed/step_time", "speed/data_wait")).toEqual(["step_time", "data_wait"]);
});
it("keeps what tells charts apart", () => {
  expect(short("gradients/a/norm", "gradients/b/norm", "loss")).toEqual(["a/norm", "b/norm", "loss"]);
  expect(short("loss", "train/loss")).toEqual(["loss", "train/loss"]);
});
it("tells a line of the evaluation from the title", () => {
  const of = (split: Split | null): Pick<Chart, "split"> => ({ split });
  expect(addsEval(of(null), { split: "eval" })).toBe(true);
  expect(addsEval(of("eval"), { split: "eval" })).toBe(false);
  expect(addsEval(of(null), { split: "train" })).toBe(false);
  expect(addsEval(of(null), undefined)).toBe(false);
});
