import { expect, it } from "vitest";
import { pieces } from "./path";

it("breaks names between their words and never a number", () => {
  expect(pieces("optimizer.lr/group_0 98.16 %")).toEqual(["optimizer.", "lr/", "group_", "0 98.16 %"]);
  expect(pieces("")).toEqual([""]);
});
