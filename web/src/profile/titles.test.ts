import { describe, expect, it } from "vitest";
import type { ProfileEntry } from "../server/api";
import { setOf, titleOf, titlesOf } from "./titles";

const entry = (path: string, run: string | null = null, files = 1, steps: number[] = []): ProfileEntry => ({
  path,
  run,
  files,
  steps,
  format: "chrome",
  size_bytes: 1,
  modified: 0,
  rank: null,
});

describe("titles of profiles", () => {
  it.each([
    [entry("slow-disk/profiles/chief_rank0_step00001200.json", "slow-disk"), "slow-disk, step 1,200"],
    [entry("job/profiles/worker_rank3_step00000500.json", "job"), "job, step 500, rank 3"],
    [entry("job/profiles/rank*_step00000500.json", "job", 4), "job, step 500, 4 ranks"],
    [entry("chief_rank0_step00000010.json", "."), "step 10"],
    [entry("a/chief_rank0_step00001200.json", "a", 1, [1200, 1201, 1202]), "a, steps 1,200–1,202"],
    [entry("a/chief_rank0_step00000010.json", "a", 1, [10, 20, 30]), "a, steps 10–30, 3 of them"],
    [entry("a/profiles/mine.json", "a", 1, [7]), "a, step 7"],
    [entry("traces/resnet.json.gz"), "traces/resnet.json.gz"],
    [entry("dlrm", null, 8), "dlrm, 8 ranks"],
  ])("%o", (one, title) => expect(titleOf(one)).toBe(title));

  it("that read the same are told apart by their paths", () => {
    const paths = ["a/profiles/chief_rank0_step00000010.json", "a/profiles/chief_rank0_step00000010_1.json"];
    const titles = titlesOf(paths.map((path) => entry(path, "a")));
    expect([...titles.values()]).toEqual(paths.map((path) => `step 10, ${path}`));
  });
  it("name the run where there are several", () => {
    const path = (run: string): string => `${run}/profiles/chief_rank0_step00000010.json`;
    const titles = titlesOf(["a", "b"].map((run) => entry(path(run), run)));
    expect([...titles.values()]).toEqual(["a, step 10", "b, step 10"]);
  });
});

describe("the set of ranks", () => {
  it("of a capture is named by its step", () =>
    expect(setOf("job/profiles/worker_rank3_step00000500.json")).toBe(
      "job/profiles/rank*_step00000500.json",
    ));
  it("of another profile is none", () => expect(setOf("rank3.json.gz")).toBeNull());
});
