import { expect, test } from "vitest";
import { linkOf, windowOf } from "./evidence";
import { chartOf, familyOf, findingOf, runOf } from "../runs/fixtures";

const family = familyOf("a", [runOf("a", { tags: ["train/loss", "gradients/0.weight/norm"] })]);
const charts = ["train/loss", "gradients/0.weight/norm", "eval/loss"].map((tag) => chartOf(tag));

test("a finding leads to its series at its steps", () => {
  const found = findingOf({ tag: "gradients/0.weight/norm", first_step: 300, step: 400 });
  expect(linkOf(found, family, charts)).toEqual({
    page: "scalars",
    charts: { x: "step", filter: "^gradients/0\\.weight/norm$", zoom: [200, 500] },
  });
});

test("the window holds steps before and after, none below 0", () => {
  expect(windowOf(findingOf({ first_step: 5, step: 5 }))).toEqual([0, 25]);
  expect(windowOf(findingOf({ first_step: 100, step: 120, closed_step: 200 }))).toEqual([0, 300]);
  // A finding that is dated before what the rule looked at, or after: its button names that step.
  expect(windowOf(findingOf({ first_step: 300, step: 320, since_step: 220 }))).toEqual([120, 420]);
  expect(windowOf(findingOf({ first_step: 300, step: 320, since_step: 340 }))).toEqual([260, 380]);
});

test("what the run has no chart of is not a link, and what sets a rank apart is seen among the ranks", () => {
  expect(linkOf(findingOf({ tag: "eval/loss" }), family, charts)).toBeNull();
  expect(linkOf(findingOf({ tag: "ranks/loss", fact: "loss", rank: 3 }), family, charts)).toMatchObject({
    page: "ranks",
    ranks: { fact: "loss", rank: "rank 3" },
  });
  expect(
    linkOf(findingOf({ tag: "ranks/stages", fact: "step_time_s", rank: 2, since_step: 60 }), family, charts),
  ).toMatchObject({
    page: "ranks",
    ranks: { fact: "step_time_s", rank: "rank 2", step: 60 },
  });
  expect(
    linkOf(findingOf({ tag: "ranks/stages", fact: "step_time_s", rank: null }), family, charts),
  ).toMatchObject({
    ranks: { rank: null, step: null },
  });
});
