import { expect, test } from "vitest";
import type { RunFinding, RunFindings } from "../server/api";
import { countsOf, detailsOf, lowered, placeOf, rowsOf, sentence, summaryOf, whenOf } from "./findings";
import { findingOf as finding, findingsOf } from "./fixtures";

const found = (findings: RunFinding[], more: Record<string, number> = {}): RunFindings =>
  findingsOf("a", findings, { verdict: "healthy", short: "healthy", passed: ["plateau"], more });

test("findings of one rule are one row", () => {
  const rows = rowsOf(
    found([finding({ rule: "dead-relu" }), finding({}), finding({ rule: "dead-relu" })], { "dead-relu": 4 }),
  );
  expect(rows.map((row) => [row.first.rule, row.others])).toEqual([
    ["dead-relu", 5],
    ["loss-spike", 0],
  ]);
});

test("a finding says when it was and where", () => {
  expect(whenOf(finding({}))).toBe("Since step 1,200");
  expect(whenOf(finding({ closed_step: 1264 }))).toBe("From step 1,200, over by 1,264");
  expect(whenOf(finding({ closed_step: 1200 }))).toBe("Step 1,200");
  expect(placeOf({ first: finding({ rank: 3, part: "a/eval" }), others: 2 })).toBe(
    "a/eval: train/loss, rank 3, and 2 more",
  );
});

test("percent is written as everywhere on the page", () => {
  expect(sentence("in 12% of 5% steps")).toBe("In 12\u00a0% of 5\u00a0% steps");
  expect(summaryOf(finding({ summary: "71% of the step" }))).toBe("71\u00a0% of the step");
});

test("when it was is said once", () => {
  const said = (summary: string, extra: object = {}): string =>
    summaryOf(finding({ summary, since_step: 1200, ...extra }));
  expect(said("rank 2 makes the 3 other ranks wait in data since step 1,200: 5 ms of each step")).toBe(
    "rank 2 makes the 3 other ranks wait in data: 5 ms of each step",
  );
  expect(said("since step 1,200 a step takes 9 ms")).toBe("a step takes 9 ms");
  expect(said("the loss is NaN at step 1200, first on rank 1")).toBe("the loss is NaN, first on rank 1");
  expect(said("the loss rose from 0.5 at step 1,100 to 2")).toBe("the loss rose from 0.5 at step 1,100 to 2");
  expect(said("slow from step 1,200 to 1,264: 5 ms", { closed_step: 1264 })).toBe("slow: 5 ms");
  for (const other of ["since step 1,200,000", "since step 12,001", "since step 1,2001", "since 1,200 steps"])
    expect(said(other)).toBe(other);
});

test("checks are counted", () => {
  expect(countsOf(found([]))).toBe("1 check passes, 0 lacked data");
});

test("a title within a sentence keeps its acronyms", () => {
  expect(["Loss spike", "GPU under-used", "I/O bottleneck", "A rank diverges"].map(lowered)).toEqual([
    "loss spike",
    "GPU under-used",
    "I/O bottleneck",
    "a rank diverges",
  ]);
});

test("a finding says where it began, and in which layers it also is", () => {
  expect(detailsOf(finding({}))).toEqual([]);
  const told = finding({
    also: ["a", "b", "c", "d", "e"],
    causes: ["the first activation"],
    batches: ["batch of step 3: indices 1, 2"],
  });
  expect(detailsOf(told)).toEqual([
    "Also in a, b, c, d, and 1 more",
    "The first activation",
    "Batch of step 3: indices 1, 2",
  ]);
});

test("a sentence begins with a capital letter, unless it begins with a name", () => {
  expect(sentence("the loss is NaN")).toBe("The loss is NaN");
  expect(sentence("high")).toBe("High");
  expect(sentence("not aligned: no step")).toBe("Not aligned: no step");
  for (const name of ["aten::mm takes 26 ms", "train/loss is NaN", "data_wait is long", "x.py raised"])
    expect(sentence(name)).toBe(name);
});
