import { describe, expect, it } from "vitest";
import type { RunSummary } from "../server/api";
import { runOf } from "./fixtures";
import { parseQuery, runQuery } from "./query";
import cases from "../../../tests/data/run_queries.json";

const run = runOf("gpt/lr1e-3-b256", { config: { lr: 1e-3 } });

describe("query", () => {
  it.each(
    cases as {
      query: string;
      run: Partial<RunSummary>;
      metrics?: Record<string, number | string>;
      matches: boolean;
    }[],
  )("$query is read as by the server", ({ query, run: facts, metrics = {}, matches }) => {
    const name = facts.name ?? "r";
    const metric = (key: string): Map<string, number> =>
      new Map(key in metrics ? [[name, Number(metrics[key])]] : []);
    expect(parseQuery(query, metric).matches(runOf(name, facts))).toBe(matches);
  });
  it("leaves no run out for a metric whose values are not known yet", () => {
    expect(parseQuery("loss<1", () => null).matches(run)).toBe(true);
    expect(parseQuery("-loss<1", () => null).matches(run)).toBe(true);
    expect(parseQuery("lr>1 loss<1", () => null).matches(run)).toBe(false);
  });
  it("names the config keys that are asked for", () =>
    expect(parseQuery("lr>1 state:running foo:2").keys).toEqual(["lr", "foo"]));
  it("is never an error, however strange", () => {
    for (const text of ['"', "-", ":", "a:", ">", "lr>", '-"', "((", "[", "\\"])
      expect(() => parseQuery(text).matches(run)).not.toThrow();
  });
  it("finds a run by the name that people gave it", () => {
    expect(parseQuery("good").matches(runOf("r", { title: "The good one" }))).toBe(true);
    expect(parseQuery('name:"The good one"').matches(runOf("r", { title: "The good one" }))).toBe(true);
    expect(parseQuery("archived:true").matches(runOf("r", { archived: true }))).toBe(true);
  });
  it.each([
    ["", false],
    ["loss", false],
    ["-archived:true", false],
    ["archived:true,false", true],
    ["run:a", true],
    ["run_id:3", false],
  ])("%s leaves archived runs in: %s", (text, archived) => expect(parseQuery(text).archived).toBe(archived));
  it.each([
    "a",
    "a/b",
    "with space",
    'quo"te',
    "back\\slash",
    "comma,comma",
    "star*",
    "<img src=x>",
    "-minus",
  ])("finds exactly %s", (name) => {
    const { matches } = parseQuery(runQuery(name));
    expect(matches(runOf(name))).toBe(true);
    expect(matches(runOf(`${name}x`))).toBe(false);
  });
});
