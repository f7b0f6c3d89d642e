import { beforeEach, describe, expect, it, vi } from "vitest";
import { noteBlamed, wasBlamed } from "./blamed";

describe("runs that had something wrong", () => {
  let kept: Map<string, string>;
  beforeEach(() => {
    kept = new Map();
    vi.stubGlobal("localStorage", {
      getItem: (key: string) => kept.get(key) ?? null,
      setItem: (key: string, value: string) => kept.set(key, value),
      removeItem: (key: string) => kept.delete(key),
    });
  });

  it("are known until they are sound, each by its log directory", () => {
    expect(wasBlamed("logs", "a")).toBe(false);
    noteBlamed("logs", "a", true);
    expect([wasBlamed("logs", "a"), wasBlamed("others", "a"), wasBlamed("logs", "b")]).toEqual([
      true,
      false,
      false,
    ]);
    noteBlamed("logs", "a", false);
    expect(wasBlamed("logs", "a")).toBe(false);
  });

  it("are the newest of them", () => {
    for (let run = 0; run < 300; run += 1) noteBlamed("logs", `${run}`, true);
    expect([wasBlamed("logs", "0"), wasBlamed("logs", "299")]).toEqual([false, true]);
  });

  it("are none where what was kept is no list, or nothing may be kept", () => {
    for (const text of ["{", "7", "[1, null]"]) {
      kept.set("stepscope-blamed", text);
      expect(wasBlamed("logs", "a")).toBe(false);
    }
    vi.stubGlobal("localStorage", undefined);
    noteBlamed("logs", "a", true);
    expect(wasBlamed("logs", "a")).toBe(false);
  });
});
