import { expect, test } from "vitest";
import { runOf } from "./fixtures";
import { progress } from "./state";

test("the last of a thousand steps, which is number 999, is all of them", () => {
  expect(progress(runOf("a", { step: 999, total_steps: 1000 }))).toBe(1);
  expect(progress(runOf("a", { step: 0, total_steps: 1000 }))).toBe(0.001);
  expect(progress(runOf("a", { step: 1500, total_steps: 1000 }))).toBe(1);
});

test("without a total or a step there is no share", () => {
  expect(progress(runOf("a", { step: 5, total_steps: null }))).toBeNull();
  expect(progress(runOf("a", { step: null, total_steps: 10 }))).toBeNull();
});
