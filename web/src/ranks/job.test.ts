import { describe, expect, it } from "vitest";
import type { JobAnswer } from "../server/api";
import { blamedRanks, clocksText, listed, verdictOf } from "./job";

const job = (more: Partial<JobAnswer>): JobAnswer => ({
  path: "job",
  source: "profiles",
  ranks: [0, 1, 2],
  missing: [],
  clock: null,
  wait: {
    total_ns: 4_000_000,
    transfer_ns: 1_000_000,
    share_of_communication: 0.8,
    collectives: 3,
    needed: null,
  },
  bandwidth: [],
  blame: [],
  costs: [],
  critical_path: null,
  shared: null,
  slow_groups: [],
  stragglers: [],
  what_if: [],
  suspects: [],
  tasks: [],
  notes: [],
  ...more,
});
const blame = (rank: number, wait_caused_ns: number): JobAnswer["blame"][number] => ({
  rank,
  wait_caused_ns,
  share: wait_caused_ns / 4_000_000,
  cause: "host code",
  name: "",
  line: "",
  scope: "",
});

describe("the verdict on a job", () => {
  it("names who comes last beyond chance", () => {
    const straggler = { rank: 2, score: 0.76, confidence: 0.99, since: 3, last: 6, of: 8 };
    expect(verdictOf(job({ stragglers: [straggler] })).title).toBe("Rank 2 makes the others wait");
  });

  it("says that there are too few collectives before it says that none comes last", () => {
    const wait = { ...job({}).wait!, collectives: 3, needed: 4 };
    const found = verdictOf(job({ wait, blame: [blame(1, 1_000_000)] }));
    expect(found.title).toBe("Too few collectives to tell a slow rank from chance");
    expect(found.evidence).toContain("3 collectives in what was captured, 4 are needed to tell");
  });

  it("speaks of offsets from collectives only where clocks were aligned by them", () => {
    const clock = { reference: 0, clocks: {}, middle_ns: 0, refused: null, one_host: true };
    expect(clocksText(clock)).not.toContain("collectives");
    expect(clocksText({ ...clock, one_host: false })).toBe("offset to rank 0, from joint collectives");
  });

  it("names a group whose transfers are slower than its likes', and what changing ranks share", () => {
    const slow = {
      operation: "all_reduce",
      group: "3",
      ranks: [6, 7],
      transfer_ns: 300_000,
      usual_ns: 100_000,
      others: 3,
    };
    expect(verdictOf(job({ slow_groups: [slow] })).title).toBe(
      "Transfers are slower in group 3 (ranks 6 and 7)",
    );
    const shared = { cause: "data loading", share: 0.7, cost: 0.1, ranks: 3 };
    expect(verdictOf(job({ shared })).title).toBe("Changing ranks make the others wait: data loading");
    const straggler = { rank: 2, score: 0.76, confidence: 0.99, since: 3, last: 6, of: 8 };
    expect(verdictOf(job({ shared, stragglers: [straggler] })).title).toBe("Rank 2 makes the others wait");
  });

  it("says which parameter server makes the workers wait, or that none stands out", () => {
    const task = {
      task: "worker:0",
      server: false,
      steps: 3,
      receive_ratio: 0.2,
      exposed_ratio: 0.1,
      compute_ratio: 0.25,
      waiting_ratio: 0.5,
      transfer_ratio: 0.25,
      holds_ratio: null,
      bottleneck: false,
    };
    const server = { ...task, task: "ps:1", server: true, compute_ratio: null, holds_ratio: 0.4 };
    const tasks = [task, { ...server, bottleneck: true }];
    const found = verdictOf(job({ wait: null, tasks }));
    expect(found.title).toMatch(/^ps:1 makes the workers wait for 40\s% of their steps$/);
    expect(found.evidence).toMatch(/^worker:0 computes for 25\s% of its steps/);
    expect(verdictOf(job({ wait: null, tasks: [task, server] })).title).toBe(
      "No parameter server stands out",
    );
  });

  it("names nobody where none does, and says for whom was waited most", () => {
    const found = verdictOf(job({ blame: [blame(1, 1_000_000), blame(2, 1_500_000), blame(1, 1_500_000)] }));
    expect(found.title).toBe("No rank comes last more often than by chance");
    expect(found.evidence).toMatch(/most of it for rank 1, 63\s%$/);
  });

  it("names the suspects of a hang, and says where there is none", () => {
    const suspect = (rank: number): JobAnswer["suspects"][number] => ({
      rank,
      reason: "did not join all_reduce 7",
      confidence: 0.9,
      evidence: [],
    });
    const hang = verdictOf(job({ source: "dumps", suspects: [suspect(12), suspect(14)] }));
    expect(hang).toEqual({
      title: "Ranks 12 and 14 are what the job waits for",
      evidence: "did not join all_reduce 7",
    });
    expect(verdictOf(job({ source: "dumps", notes: ["all ranks joined"] }))).toEqual({
      title: "No rank can be named that the others wait for",
      evidence: "all ranks joined",
    });
  });

  it("abstains where waiting is not known", () =>
    expect(verdictOf(job({ wait: null, notes: ["the clocks cannot be aligned"] })).title).toBe(
      "Not known who waits for whom",
    ));
});

it("sums blame by rank", () =>
  expect(blamedRanks([blame(1, 5), blame(0, 7), blame(1, 4)]).map((one) => [one.rank, one.ns])).toEqual([
    [1, 9],
    [0, 7],
  ]));

it.each([
  [[], ""],
  [[1], "1"],
  [[1, 2], "1 and 2"],
  [[1, 2, 3], "1, 2 and 3"],
])("lists %o", (ranks, text) => expect(listed(ranks)).toBe(text));
