import { expect, test } from "vitest";
import type { RunFindings } from "../server/api";
import { findingOf, runOf } from "../runs/fixtures";
import { checks, evidence, headline, losses, verdictOf, type Recorded } from "./verdict";

function judged(changes: Partial<RunFindings> = {}): RunFindings {
  return {
    run: "a",
    attempt: 1,
    findings: [],
    abstained: [{ rule: "dead-relu", title: "Dead units", missing: "not recorded" }],
    verdict: "healthy",
    short: "healthy",
    coverage: [],
    passed: ["plateau"],
    more: {},
    forecast: [],
    batch_size: null,
    ...changes,
  };
}

function recorded(found: RunFindings | null): Recorded {
  return {
    run: runOf("a", { state: "running" }),
    now: 0,
    metric: { title: "loss", value: "0.1" },
    broken: [],
    judged: found,
  };
}

const said = (found: RunFindings | null): string =>
  headline(recorded(found))
    .map((phrase) => phrase.text)
    .join(" · ");

test("the worst finding that is not over stands in the headline, with the step it began at", () => {
  const over = findingOf({ severity: "high", title: "Loss is not finite", closed_step: 30 });
  expect(said(judged({ findings: [over, findingOf({})] }))).toBe("Running · loss spike since step 1,200");
  expect(headline(recorded(judged({ findings: [findingOf({ severity: "high" })] }))).at(-1)!.tone).toBe(
    "bad",
  );
  expect(evidence(recorded(judged({ findings: [findingOf({ summary: "the loss rose to 9" })] })))).toBe(
    "The loss rose to 9",
  );
});

test("a run that failed is not called healthy, and what is wrong with it is still said", () => {
  const failed = { ...recorded(judged()), run: runOf("a", { state: "failed" }) };
  expect(headline(failed).map(({ text }) => text)).toEqual(["Failed", "loss 0.1"]);
  const found = { ...failed, judged: judged({ findings: [findingOf({})] }) };
  expect(headline(found)[1]!.text).toBe("loss spike since step 1,200");
});

test("a callback that failed stands beside the state, whatever the rules say, and other problems do not", () => {
  const problem = { count: 36, file: null };
  const failed = { ...problem, kind: "failed", text: "a callback failed 36 times" };
  const torn = { ...problem, kind: "torn", text: "the last record is incomplete" };
  const run = runOf("a", { state: "finished", problems: [failed, torn] });
  const found = { ...recorded(judged()), run };
  expect(headline(found).map(({ text }) => text)).toEqual([
    "Finished",
    "a callback failed 36 times",
    "healthy",
    "loss 0.1",
  ]);
  expect(headline(found)[1]!.tone).toBe("warn");
  expect(losses(found).map(({ text }) => text)).toContain("1 file problem");
  expect(headline({ ...found, run: { ...run, problems: [torn] } })[1]!.text).toBe("healthy");
});

test("what a run does not measure any more stands beside the state, and a series that ended does not", () => {
  const problem = { count: 1, file: null };
  const lacking = {
    ...problem,
    kind: "unmeasured",
    text: "gradients of encoder are not measured since step 100",
  };
  const ended = { ...problem, kind: "ended", text: "series ended while the training went on: a at step 9" };
  const run = runOf("a", { state: "running", problems: [lacking, ended] });
  const found = { ...recorded(judged()), run };
  const phrases = headline(found).map(({ text }) => text);
  expect(phrases).toContain(lacking.text);
  expect(phrases).not.toContain(ended.text);
  expect(losses(found).map(({ text }) => text)).not.toContain("2 file problems");
});

test("that it waits for data is said where the wait is a part of the step that counts", () => {
  const waits = (wait: number | null): string =>
    evidence({
      ...recorded(null),
      run: { ...recorded(null).run, step_time: { seconds: 0.0356, wait_s: wait } },
    });
  expect(waits(0.0258)).toBe("Waits 25.8 of 35.6\u00a0ms per step for data (72.5\u00a0%)");
  for (const wait of [0.0001, 0, null]) expect(waits(wait)).toMatch(/^\d+ points? of \d+ metrics? recorded$/);
});

test("what a run is called is what the server says of it", () => {
  expect(said(judged())).toBe("Running · healthy · loss 0.1");
  expect(said(judged({ verdict: "not judged" }))).toBe("Running · not judged · loss 0.1");
  expect(said(null)).toBe("Running · loss 0.1");
  expect(said(judged({ findings: [findingOf({ closed_step: 1264 })] }))).toBe(
    "Running · healthy since step 1,264 · loss 0.1",
  );
});

test("checks that pass, findings and what was not judged are counted", () => {
  const twice = [findingOf({}), findingOf({ step: 1500 })];
  expect(checks(judged({ findings: twice })).map((phrase) => phrase.text)).toEqual([
    "1 of 3 checks passes",
    "1 finding",
    "1 check lacked data",
  ]);
  expect(checks(null)).toEqual([]);
  expect(losses(recorded(judged())).map((phrase) => phrase.text)).toEqual([
    "1 of 2 checks passes",
    "1 check lacked data",
  ]);
  expect(losses(recorded(null)).map((phrase) => phrase.text)).toEqual(["no file problems"]);
});

test("a list says the worst that is not over, else that a run is healthy, and only where rules looked", () => {
  const bad = verdictOf(
    judged({ findings: [findingOf({ severity: "high", summary: "the loss rose to 9" })] }),
  );
  expect([bad.text, bad.tone]).toEqual(["loss spike", "bad"]);
  expect(bad.title).toBe(
    "Since step 1,200: the loss rose to 9; 1 of 3 checks passes, 1 finding, 1 check lacked data",
  );
  expect(verdictOf(judged({ findings: [findingOf({ closed_step: 1264 })] })).text).toBe("healthy");
  const some = verdictOf(
    judged({ short: "nothing wrong found", verdict: "nothing wrong found; not judged: generalisation" }),
  );
  expect(some.text).toBe("nothing wrong found");
  expect(some.title).toContain("not judged: generalisation");
});

test.each([
  ["yes", "not judged", true],
  ["yes", "no", false],
  ["not judged", "not judged", false],
] as const)("of a run with the answers %s and %s nothing is wrong: %s", (learns, finite, isSound) => {
  const coverage = [
    { question: "learns", answer: learns, why: "" },
    { question: "finite", answer: finite, why: "" },
  ] as const;
  expect(verdictOf(judged({ coverage: [...coverage] })).isSound).toBe(isSound);
  expect(verdictOf(judged({ coverage: [...coverage], findings: [findingOf({})] })).isSound).toBeFalsy();
});
