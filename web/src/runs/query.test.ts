import { describe, expect, it } from "vitest";
import { runOf } from "./fixtures";
import { parseQuery, runQuery } from "./query";

const run = runOf("gpt/lr1e-3-b256", {
  state: "running",
  labels: ["debug", "sweep 1"],
  host: "gpu-a",
  step: 4812,
  config: {
    lr: 1e-3,
    batch_size: 256,
    optimizer: { name: "AdamW", betas: [0.9, 0.95] },
    name: "x",
    flag: true,
    nothing: null,
  },
});

describe("query", () => {
  it.each([
    "",
    "GPT",
    "gpt b256",
    "state:running",
    "state:failed,running",
    "lr>1e-4",
    "lr>=0.001",
    "lr:1e-3",
    "lr=0.001",
    "batch_size<257",
    "optimizer.name:adamw",
    "name:*b256",
    "betas:0.9",
    "tag:debug",
    'tag:"sweep 1"',
    "-state:finished",
    "-tag:release",
    "flag:true",
    "nothing:none",
    "step>4000",
    "run:gpt/lr1e-3-b256",
    "lr!=2",
    "metric:loss",
    "host:gpu-*",
    'gpt "b256',
    'run:"no, such","gpt/lr1e-3-b256"',
    'run:other,"gpt/lr1e-3-b256"',
    'tag:"sweep 1",x gpt',
  ])("%s matches", (text) => expect(parseQuery(text).matches(run)).toBe(true));
  it.each([
    "adam",
    "-gpt",
    "lr>0.1",
    "lr>x",
    "state:finished",
    "run:gpt",
    "unknown:1",
    "unknown>0",
    "-tag:debug",
    "batch_size:25",
    "gpt nothere",
    "lr!=1e-3",
    'run:"gpt","lr1e-3"',
    'run:"GPT/LR1E-3-B256"',
  ])("%s does not match", (text) => expect(parseQuery(text).matches(run)).toBe(false));
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
    ["run:a*", "a", true],
    ["run:a*a", "a", false],
    ["run:a*a", "aa", true],
    ["run:a*b*c", "aXbYc", true],
    ["run:a*c*b", "aXbYc", false],
    ["run:*B*", "abc", true],
    ["run:ab*bc", "abc", false],
    ["run:**", "", true],
    [`run:${"*a".repeat(40)}*b`, "a".repeat(20_000), false],
  ])("%s says of one named so: %#", (text, name, found) =>
    expect(parseQuery(text).matches(runOf(name))).toBe(found),
  );
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
