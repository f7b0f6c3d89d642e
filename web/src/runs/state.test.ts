import { expect, test } from "vitest";
import { runOf } from "./fixtures";
import { progress, stateText } from "./state";

test("the last of a thousand steps, which is number 999, is all of them", () => {
  expect(progress(runOf("a", { step: 999, total_steps: 1000 }))).toBe(1);
  expect(progress(runOf("a", { step: 0, total_steps: 1000 }))).toBe(0.001);
  expect(progress(runOf("a", { step: 1500, total_steps: 1000 }))).toBe(1);
});

test("without a total or a step there is no share", () => {
  expect(progress(runOf("a", { step: 5, total_steps: null }))).toBeNull();
  expect(progress(runOf("a", { step: null, total_steps: 10 }))).toBeNull();
});

test("a run has lost its process where that is known, and has stalled where it only fell silent", () => {
  const at = (reason: string) => stateText(runOf("a", { state: "stalled", step: 7, reason }));
  expect(at("its process is gone, last write 5 s ago")).toEqual({ text: "Process gone, 7", tone: "bad" });
  expect(at("last write 2 min ago").text).toBe("Stalled, 7");
  expect(stateText(runOf("a", { state: "failed", step: 7, reason: "its process is gone" })).text).toBe(
    "Failed, 7",
  );
});
