import { beforeEach, describe, expect, it, vi } from "vitest";
import { history, keep, REMEMBERED } from "./queries";

describe("history of queries", () => {
  const items = new Map<string, string>();
  beforeEach(() => {
    items.clear();
    vi.stubGlobal("localStorage", {
      getItem: (name: string) => items.get(name) ?? null,
      setItem: (name: string, value: string) => void items.set(name, value),
    });
    return () => vi.unstubAllGlobals();
  });

  it("has a query once, the newest first", () => {
    for (const query of ["a", "b", "a"]) keep(query);
    expect(history()).toEqual(["a", "b"]);
  });

  it("drops the oldest", () => {
    for (let at = 0; at <= REMEMBERED; at++) keep(String(at));
    expect(history()).toHaveLength(REMEMBERED);
    expect(history()).not.toContain("0");
  });

  it.each(["", "{", "null", '{"a": 1}', "[1, null]"])("takes %j for none", (stored) => {
    items.set("stepscope-sql", stored);
    expect(history()).toEqual([]);
  });

  it("is empty where the browser keeps nothing", () => {
    vi.stubGlobal("localStorage", undefined);
    expect(keep("a")).toEqual(["a"]);
    expect(history()).toEqual([]);
  });
});
