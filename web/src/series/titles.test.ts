import { expect, it } from "vitest";
import { shortTitles } from "./titles";

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
