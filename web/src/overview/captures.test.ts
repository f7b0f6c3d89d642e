import { describe, expect, it } from "vitest";
import type { Capture } from "../server/api";
import {
  analysed,
  barsPath,
  causeText,
  failures,
  glanceOf,
  levelsOf,
  notAnalysed,
  partColour,
  partName,
  pastOf,
  remarks,
  viewOf,
} from "./captures";

const summary = {
  steps: { numbers: [5, 6], count: 2, mean_ns: 10, min_ns: 9, median_ns: 10, max_ns: 11 },
  parts: [{ part: "forward", mean_ns: 4, min_ns: 3, median_ns: 4, max_ns: 5, ratio: 0.4 }],
  operations: {
    rows: [
      { name: "(all)", host_ns: 10 },
      { name: "aten::mm", host_ns: 6, host_ratio: 0.6, calls: 3 },
    ],
  },
  advice: [
    {
      rule: "input-bound",
      severity: "high",
      summary: "waits for data",
      action: "more workers",
      evidence: {},
    },
  ],
};

function capture(name: string, given: Record<string, unknown> | null): Capture {
  return { name, summary: given } as unknown as Capture;
}

describe("a summary", () => {
  it("is read as far as the overview uses it", () => {
    const glance = glanceOf(summary)!;
    expect(glance.operations).toEqual([{ name: "aten::mm", ns: 6, ratio: 0.6, calls: 3 }]);
    expect(glance.onDevice).toBe(false);
    expect(glance.parts[0]!.part).toBe("forward");
    expect(glance.advice[0]!.rule).toBe("input-bound");
  });

  it("says what held memory at its fullest, by scope where that is known", () => {
    const one = {
      device: 0,
      peak_bytes: 100,
      peak_step: 5,
      capacity_bytes: 400,
      by_operator: [{ name: "aten::mm", bytes: 60 }],
    };
    const two = {
      device: -1,
      peak_bytes: 7,
      by_scope: [{ name: "nn.Module: Net_0/nn.Module: Linear_1", bytes: 3 }],
      by_operator: [{ name: "aten::mm", bytes: 6 }],
    };
    expect(glanceOf({ memory: [one, two, {}] })!.peaks).toEqual([
      { name: "device 0", bytes: 100, step: 5, capacity: 400, holders: [{ name: "aten::mm", bytes: 60 }] },
      { name: "host", bytes: 7, step: null, capacity: null, holders: [{ name: "Net_0/Linear_1", bytes: 3 }] },
    ]);
  });

  it("prefers device time where there is any", () => {
    const rows = [
      { name: "(all)" },
      { name: "mm", host_ns: 1, host_ratio: 0.1, device_ns: 8, device_ratio: 0.8 },
    ];
    const glance = glanceOf({ ...summary, operations: { rows } })!;
    expect(glance.onDevice).toBe(true);
    expect(glance.operations[0]).toEqual({ name: "mm", ns: 8, ratio: 0.8, calls: null });
  });

  it("tells operations by their part of the step, wherever they ran", () => {
    const rows = [
      { name: "(all)", step_ns: 10, step_ratio: 1 },
      {
        name: "mm",
        step_ns: 4,
        step_ratio: 0.4,
        host_ns: 1,
        host_ratio: 0.1,
        device_ns: 8,
        device_ratio: 0.8,
      },
    ];
    const glance = glanceOf({ ...summary, operations: { rows } })!;
    expect(glance.inStep).toBe(true);
    expect(glance.operations[0]).toEqual({ name: "mm", ns: 4, ratio: 0.4, calls: null });
  });

  it("may lack everything", () => {
    expect(glanceOf(null)).toBeNull();
    expect(glanceOf({})).toEqual({
      steps: null,
      parts: [],
      operations: [],
      onDevice: false,
      inStep: false,
      advice: [],
      peaks: [],
      stacks: false,
      notes: [],
    });
    expect(glanceOf({ parts: "no", operations: null, advice: [3, null] })!.advice).toEqual([]);
  });
});

describe("captures", () => {
  it("are shown once they have been analysed", () => {
    const found = analysed([capture("c", null), capture("b", summary), capture("a", summary)]);
    expect(found.map((each) => [each.capture.name, each.glance.parts[0]!.part])).toEqual([
      ["b", "forward"],
      ["a", "forward"],
    ]);
    expect(analysed([capture("c", null)])).toEqual([]);
  });

  it("say once what was lost or could not be recorded", () => {
    const of = {
      notes: ["no work on a device was recorded"],
      dropped: { worker_spans: 3 },
    } as unknown as Capture;
    const glance = glanceOf({
      ...summary,
      notes: ["no work on a device was recorded", "2 events without a thread"],
    })!;
    expect(remarks(of, glance)).toEqual([
      "No work on a device was recorded",
      "3 worker spans not kept",
      "2 events without a thread",
    ]);
    expect(remarks({ notes: [], dropped: {} } as unknown as Capture, glanceOf({})!)).toEqual([]);
  });

  it("are not analysed where that failed or nobody is at it any more", () => {
    const of = (why: string | null, wall: number | null): Capture =>
      ({ not_analysed: why, wall }) as unknown as Capture;
    expect(notAnalysed(of("too large", 100), 101)).toBe("too large");
    expect(notAnalysed(of(null, 100), 700)).toBeNull();
    expect(notAnalysed(of(null, 100), 701)).toBe("");
    expect(notAnalysed(of(null, null), 701)).toBeNull();
  });

  it("have the largest levels of memory at the ends of their steps", () => {
    const of = {
      memory: [
        { step: 1, resident_bytes: 5, peak_allocated_bytes: 9 },
        { step: 2, resident_bytes: 4, peak_allocated_bytes: 10 },
        null,
      ],
    } as unknown as Capture;
    expect(levelsOf(of)).toEqual([
      ["resident", 5],
      ["peak allocated", 10],
    ]);
  });

  it("have the steps before them as bars", () => {
    const of = { before: [[7, 0.5, null], [8, 1, 0.25], "no", [9]] } as unknown as Capture;
    expect(pastOf(of)).toEqual([
      { step: 7, seconds: 0.5, waited: null },
      { step: 8, seconds: 1, waited: 0.25 },
    ]);
    expect(barsPath([0.5, 0, 1], 1, 32)).toBe("M0 32V16.00h1V32M2 32V0.00h1V32");
    expect(barsPath([1], 0, 32)).toBe("");
  });

  it("colour every part but idle", () => {
    expect(partColour("data_loading")).toBe("var(--part-loading)");
    expect(partColour("idle")).toBeNull();
    expect(partName("data_loading")).toBe("Data loading");
  });
});

describe("captures", () => {
  const one = (failure: string | null): Capture => ({ failure }) as unknown as Capture;

  it("that failed are told once for each reason", () => {
    expect(failures([one("disk"), one(null), one("disk"), one("other")]).map((each) => each.failure)).toEqual(
      ["disk", "other"],
    );
  });

  it("say why they were made", () => {
    expect(causeText({ cause: "request", reason: "by the page" } as unknown as Capture)).toBe(
      "on request, by the page",
    );
    expect(causeText({ cause: "schedule", reason: "" } as unknown as Capture)).toBe("schedule");
  });

  it("open from their beginning", () => {
    expect(viewOf("a/p.json.gz")).toMatchObject({
      page: "profile",
      profile: { path: "a/p.json.gz", event: null, window: null },
    });
  });
});
