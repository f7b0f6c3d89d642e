import { describe, expect, it } from "vitest";
import type { Capture } from "../server/api";
import { PATIENCE_S, standing } from "./capturing";

const capture = (facts: Partial<Capture>): Capture =>
  ({ request: "ab", path: null, failure: null, format: "kineto", steps: [], ...facts }) as Capture;

describe("a request for a profile", () => {
  it("is asked, taken, waits for its step, and is done", () => {
    expect(standing("ab", [], null, 0)).toEqual({ stage: "asked", text: "Asked", path: null });
    expect(standing("ab", [], null, PATIENCE_S + 1).text).toContain("No answer yet");
    const taken = { request: "ab", at_step: null, replies: [{ rank: 0, status: "taken" }] };
    expect(standing("ab", [], taken, 1)).toMatchObject({
      stage: "waiting",
      text: "Recording the next steps",
    });
    expect(standing("ab", [], { ...taken, at_step: 12, replies: [] }, 1)).toMatchObject({
      stage: "waiting",
      text: "Waiting for step 12",
    });
    const made = [
      capture({ request: "other", path: "x" }),
      capture({ path: "a/p.json.gz", steps: [12, 14, 13] }),
    ];
    expect(standing("ab", made, taken, 1)).toEqual({
      stage: "done",
      text: "Captured steps 12–14",
      path: "a/p.json.gz",
    });
  });

  it("opens the profile rather than the memory snapshot made with it", () => {
    const both = [
      capture({ path: "m.pickle", format: "memory_snapshot" }),
      capture({ path: "p.json.gz", steps: [3] }),
    ];
    expect(standing("ab", both, null, 0)).toMatchObject({ path: "p.json.gz", text: "Captured step 3" });
  });

  it("says why there is none", () => {
    const refused = {
      request: "ab",
      at_step: null,
      replies: [
        { rank: 0, status: "refused" },
        { rank: 1, status: "refused" },
      ],
    };
    expect(standing("ab", [], refused, 1)).toMatchObject({
      stage: "failed",
      text: "Another capture is under way",
    });
    expect(standing("ab", [], { ...refused, replies: [{ rank: 0, status: "missed" }] }, 1).text).toContain(
      "over",
    );
    expect(standing("ab", [capture({ failure: "disk full" })], null, 1)).toMatchObject({
      stage: "failed",
      text: "disk full",
    });
    expect(
      standing("ab", [], { ...refused, replies: [...refused.replies, { rank: 2, status: "taken" }] }, 1)
        .stage,
    ).toBe("waiting");
  });
});
