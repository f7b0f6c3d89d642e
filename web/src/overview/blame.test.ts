import { describe, expect, it } from "vitest";
import type { Capture, RunFindings } from "../server/api";
import { findingOf, findingsOf, runOf } from "../runs/fixtures";
import { blameOf, marksOf } from "./blame";

const family = { name: "a", main: runOf("a"), runs: [runOf("a", { tags: ["speed/data_wait_ms"] })] };
const wait = findingOf({
  rule: "data-wait",
  severity: "high",
  title: "Waiting for data",
  summary: "72 % of the step time is waiting for data",
  tag: "speed/data_wait_ms",
  first_step: 640,
  step: 700,
  since_step: 660,
  in_profile: ["input-bound"],
});
const found = (extra: object = {}, ...more: object[]): RunFindings =>
  findingsOf("a", [{ ...wait, ...extra }, ...more.map((one) => ({ ...wait, ...one }))]);
const capture = (step: number, advice: object[] = [], recorded: string[] = []): Capture =>
  ({
    path: `a/${step}`,
    steps: [step],
    rank: 0,
    format: "kineto",
    summary: { advice, recorded },
  }) as unknown as Capture;
const input = {
  rule: "input-bound",
  severity: "high",
  summary: "",
  action: "",
  place: { file: "/x/digits.py", line: 92, function: "read_from_a_busy_disk" },
  events: [{ row: 7, start_ns: 100, duration_ns: 50 }],
};

describe("the blame", () => {
  it("names the line, and leads to the span of a captured step", () => {
    const blame = blameOf(found(), [capture(779, [input])], family, [])!;
    expect(`${blame.since}: ${blame.sentence}`).toBe(
      "Since step 660: 72 % of the step time is waiting for data",
    );
    expect(blame.line).toBe("digits.py:92 read_from_a_busy_disk");
    expect(blame.lacking).toBe(false);
    expect(blame.look!.name).toBe("Show step 779");
    expect(blame.look!.change.profile).toMatchObject({ path: "a/779", tab: "timeline", event: 7 });
  });
  it("takes a capture that tells the line before a nearer one that does not", () => {
    const blame = blameOf(found(), [capture(779, [input]), capture(701)], family, [])!;
    expect([blame.line, blame.look!.name]).toEqual(["digits.py:92 read_from_a_busy_disk", "Show step 779"]);
  });
  it("takes a capture with stacks before a nearer one without, and then lacks none", () => {
    const blame = blameOf(found(), [capture(779, [], ["stacks"]), capture(701)], family, [])!;
    expect([blame.line, blame.look!.name, blame.lacking]).toEqual(["", "Show step 779", false]);
  });
  it("of a slow rank is found in its own capture, never in that of one that waits for it", () => {
    const slow = {
      rule: "slow-rank",
      tag: "ranks/stages",
      fact: "step_time_s" as const,
      rank: 2,
      summary: "rank 2 on a makes the 3 other ranks wait in data since step 660: 400 ms of each step",
    };
    const own = { ...capture(779, [input]), rank: 2 };
    const blame = blameOf(found(slow), [capture(700, [input]), own], family, [])!;
    expect(blame.line).toBe("digits.py:92 read_from_a_busy_disk");
    expect(blame.look!.name).toBe("Show step 779");
    const without = blameOf(found(slow), [capture(700, [input])], family, [])!;
    expect([without.line, without.lacking]).toEqual(["", true]);
    expect(without.look!.change).toMatchObject({ page: "ranks", ranks: { rank: "rank 2", step: 660 } });
    const compute = {
      ...slow,
      in_profile: ["host-bound"],
      summary: "rank 2 makes the 3 other ranks wait in forward since step 660: 4 ms",
    };
    expect(blameOf(found(compute), [own], family, [])!.line).toBe("");
  });
  it("takes no capture from before it began, and then lacks stacks", () => {
    const blame = blameOf(found(), [capture(300, [input])], family, [])!;
    expect(blame.line).toBe("");
    expect(blame.lacking).toBe(true);
    expect(blame.look).toBeNull();
  });
  it("counts other rules once each, and passes over what is over", () => {
    const more = [{ rule: "overfitting" }, { rule: "overfitting" }, { rule: "x", closed_step: 3 }];
    expect(blameOf(found({}, ...more), [], family, [])!.others).toBe(1);
    expect(blameOf(found({ closed_step: 700 }), [], family, [])).toBeNull();
    expect(blameOf(null, [], family, [])).toBeNull();
  });
  it("of a loss asks for no stacks", () => {
    expect(blameOf(found({ rule: "nonfinite-loss" }), [], family, [])!.lacking).toBe(false);
  });
});

describe("marks", () => {
  it("are where it began, and captured steps", () => {
    const captures = [capture(779)];
    const marks = marksOf(blameOf(found(), captures, family, []), captures);
    expect(marks.map(({ kind, step }) => [kind, step])).toEqual([
      ["capture", 779],
      ["onset", 660],
    ]);
  });
});
