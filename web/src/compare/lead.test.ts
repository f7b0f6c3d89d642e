import { describe, expect, it } from "vitest";
import type { Chart } from "../server/api";
import { chartOf, lineOf } from "../runs/fixtures";
import { sideLine, type SideLine, type Track } from "../runs/sidelines";
import {
  byChance,
  judge,
  judgedAs,
  leadOf as leadOfVerdict,
  lostOf,
  ordered,
  sharedOf,
  windowOf,
  withoutLead,
} from "./lead";
import { verdictOf } from "./words";

const chart = (title: string, more: Partial<Chart> = {}): Chart =>
  chartOf(title, { kind: "latency", lower_is_better: true, unit: "ms", lines: [], ...more });
const track = (title: string, more: Partial<Chart> = {}): Track => ({
  id: title,
  chart: chart(title, more),
  split: null,
  title,
  a: [],
  b: [],
});
const leadOf = (of: Track, a: SideLine | null, b: SideLine | null): ReturnType<typeof leadOfVerdict> =>
  leadOfVerdict(of, judge(of, a, b));
const STEPS = Array.from({ length: 32 }, (_, at) => at * 10);
const side = (...runs: ((step: number) => number)[]): SideLine =>
  sideLine(
    runs.map((value, at) =>
      lineOf(`run ${at}`, STEPS, STEPS.map(value), {
        nonfinite: STEPS.filter((step) => !Number.isFinite(value(step))),
      }),
    ),
    (run) => run,
  )!;
const noisy = (mean: number, by: number) => (step: number) => mean + (step % 20 ? by : -by);

describe("a value that is lost", () => {
  const falls = side((step) => 1 / (step + 1));
  const diverges = side((step) => (step < 100 ? 1 : NaN));
  const recovers = side((step) => (step === 100 ? NaN : 1));
  it("names the side that ends without a finite value", () => {
    expect(lostOf(track("loss"), falls, diverges)).toMatchObject({ side: "B" });
    expect(lostOf(track("loss"), diverges, falls)).toMatchObject({ side: "A" });
  });
  it("is none where both end so, where one recovered, of settings, and of groups", () => {
    const group = side(
      (step) => (step < 100 ? 1 : NaN),
      () => 1,
    );
    for (const [a, b] of [
      [diverges, diverges],
      [falls, recovers],
      [falls, group],
      [falls, null],
    ] as const)
      expect(lostOf(track("loss"), a, b)).toBeNull();
    expect(lostOf(track("lr", { kind: "schedule" }), falls, diverges)).toBeNull();
  });
});

describe("what two sides share", () => {
  it("is asked for by itself where one is far behind, and seldom anew while it goes on", () =>
    expect(
      [
        [1234, 9000],
        [1239, 9000],
        [99, 9000],
        [12, 9000],
      ].map(sharedOf),
    ).toEqual([1200, 1200, 99, 12]));
  it("is in what is there where both have come as far, and is nothing where a side has hardly begun", () =>
    expect(
      [
        [1000, 1000],
        [600, 1000],
        [0, 1000],
        [7, 1000],
      ].map(sharedOf),
    ).toEqual([null, null, null, null]));
});

describe("the difference that leads", () => {
  it("is beyond the spread of the steps, and says how that is known", () => {
    const lead = leadOf(
      track("step time"),
      side(noisy(12, 1)),
      side((step) => 36 + (step % 20 ? -2 : 2)),
    )!;
    expect(lead.delta.verdict).toBe("worse");
    expect(lead.b / lead.a).toBeCloseTo(3, 1);
    expect(lead.steps).toEqual([160, 310]);
    expect(lead.how).toBe("B above A at all 16 places compared; one run per side, so other seeds may differ");
  });
  it("compares at the same steps: a loss that falls on both is not a spread", () => {
    const loss = track("loss", { kind: "loss", unit: null });
    const lead = leadOf(
      loss,
      side((step) => 2 / (1 + step)),
      side((step) => 1 / (1 + step)),
    )!;
    expect(lead.delta.verdict).toBe("better");
    expect(lead.how).toContain("B below A at all");
  });
  it("is none within the spread, where both are equal, or where there is too little", () => {
    const time = track("step time");
    const alternating = side((step) => (step % 20 ? 14 : 10));
    expect(
      leadOf(
        time,
        alternating,
        side((step) => (step % 20 ? 10 : 15)),
      ),
    ).toBeNull();
    expect(leadOf(time, side(noisy(12, 1)), side(noisy(12, 1)))).toBeNull();
    expect(
      leadOf(
        time,
        side(() => 100),
        side(() => 100.5),
      ),
    ).toBeNull();
    const few = sideLine([lineOf("x", [0, 10], [1, 1])], (run) => run);
    expect(
      leadOf(
        time,
        few,
        side(() => 9),
      ),
    ).toBeNull();
    expect(
      leadOf(
        time,
        null,
        side(() => 9),
      ),
    ).toBeNull();
  });
  it("is never what is set, or only counts", () => {
    for (const kind of ["schedule", "counter", "bytes"] as const)
      expect(
        leadOf(
          track(kind, { kind, lower_is_better: null }),
          side(() => 1),
          side(() => 9),
        ),
      ).toBeNull();
  });
  it("of groups must exceed chance between their runs", () => {
    const time = track("step time");
    const lead = leadOf(
      time,
      side(
        () => 10,
        () => 11,
      ),
      side(
        () => 20,
        () => 21,
      ),
    );
    expect(lead!.how).toBe("more than chance between 2 and 2 runs (Welch's test at 5 %)");
    expect(
      leadOf(
        time,
        side(
          () => 10,
          () => 20,
        ),
        side(
          () => 16,
          () => 22,
        ),
      ),
    ).toBeNull();
  });
  it("is the largest by factor, either way, of those with a better end first", () => {
    const of = (title: string, a: number, b: number, more: Partial<Chart> = {}) =>
      leadOf(
        track(title, more),
        side(() => a),
        side(() => b),
      )!;
    const rate = of("rate", 90, 30, { lower_is_better: false, kind: "rate", unit: null });
    const time = of("time", 10, 20);
    const norm = of("norm", 1, 500, { lower_is_better: null, kind: "norm", unit: null });
    expect(ordered([norm, time, rate]).map((one) => one.track.title)).toEqual(["rate", "time", "norm"]);
  });
});

describe("where no difference leads", () => {
  it("says it of the series that share steps enough, and of no others", () => {
    expect(withoutLead(36, 0)).toBe("No difference exceeds the spread in 36 series");
    expect(withoutLead(1, 35)).toBe(
      "No difference exceeds the spread in 1 series; 35 series share too few steps to tell",
    );
    expect(withoutLead(0, 36)).not.toContain("spread");
    expect(withoutLead(0, 1)).toContain("1 series shares too few steps to tell");
  });
});

describe("the verdict on a metric", () => {
  const loss = track("loss", { kind: "loss", unit: null });
  const low = side(() => 1);
  it.each<[string, Track, SideLine | null, SideLine | null, string | undefined]>([
    ["beyond the spread", loss, side(() => 2), low, "better"],
    ["within the noise of the steps", loss, side(noisy(1.02, 0.1)), side(noisy(1, 0.2)), "noise"],
    ["equal", loss, low, low, "same"],
    ["set, and not found", track("lr", { kind: "schedule" }), low, side(() => 2), "changed"],
    [
      "of three runs each",
      loss,
      side(
        () => 1,
        () => 1.1,
        () => 0.9,
      ),
      side(
        () => 3,
        () => 3.1,
        () => 2.9,
      ),
      "worse",
    ],
    ["of one side only", loss, low, null, undefined],
  ])("%s", (_, of, a, b, verdict) => expect(judge(of, a, b)?.delta.verdict).toBe(verdict));
  it("counts wherever a difference is read, and without one nothing is claimed", () => {
    const read = {
      difference: -0.15,
      ratio: -0.15,
      error: 0.01,
      margin: 2 * 0.01,
      of: "steps" as const,
      verdict: "better" as const,
    };
    const noise = judge(loss, side(noisy(1.02, 0.1)), side(noisy(1, 0.2)));
    expect(judgedAs(read, noise).verdict).toBe("noise");
    expect(judgedAs(read, null).verdict).toBe("unknown");
    expect(judgedAs({ ...read, verdict: "same" }, null).verdict).toBe("same");
  });
});

describe("one configuration with other seeds", () => {
  const [a, b] = [side(() => 2), side(() => 1)];
  const said = (of: Track): string => verdictOf(byChance(of, judge(of, a, b)!).delta).word;
  it("has no winner in how it learns, however clear the difference is", () => {
    const loss = track("loss", { tier: "learning" });
    expect(verdictOf(judge(loss, a, b)!.delta).word).toBe("better");
    expect(said(loss)).toBe("may be chance between seeds");
    expect(leadOfVerdict(loss, byChance(loss, judge(loss, a, b)!))).toBeNull();
  });
  it("may run faster, which seeds do not change", () =>
    expect(said(track("step_time", { tier: "running" }))).toBe("better"));
  it("is the same where it is the same", () => {
    const loss = track("loss", { tier: "learning" });
    expect(byChance(loss, judge(loss, a, a)!).delta.verdict).toBe("same");
  });
});

describe("the steps that a verdict is about", () => {
  const [low, high] = [() => 1, () => 2];
  it("are those of means of two runs; a bucket's middle may lie half a step beyond the last", () => {
    const judged = judge(track("loss"), side(low), side(high))!;
    expect([windowOf(judged), judged.ends]).toEqual(["mean of steps 160–310", [1, 1]]);
    expect(windowOf({ ...judged, steps: [348, 659.5] })).toBe("mean of steps 348–659");
  });
  it("are the last that groups share: their means are read there", () =>
    expect(windowOf(judge(track("loss"), side(low, low), side(high, high))!)).toBe("step 310"));
});
