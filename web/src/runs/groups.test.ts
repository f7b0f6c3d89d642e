import { beforeAll, describe, expect, it } from "vitest";
import { loadEngine } from "../regex/regex.svelte";
import type { Family } from "./catalog";
import { runOf } from "./fixtures";
import { grouped, parseGrouping } from "./groups";

const family = (name: string, config: Record<string, unknown>): Family => ({
  name,
  main: runOf(name, { config }),
  runs: [],
});
const families = [
  family("lr1-seed0", { lr: 0.1, opt: { name: "adam" } }),
  family("lr1-seed1", { lr: 0.1, opt: { name: "sgd" } }),
  family("lr2-seed0", { lr: 0.01 }),
];
const names = (text: string): [string, string[]][] =>
  grouped(families, parseGrouping(text)!).map(([name, members]) => [name, members.map((one) => one.name)]);

describe("groups", () => {
  beforeAll(() => loadEngine());

  it("are by one config key", () =>
    expect(names("lr")).toEqual([
      ["0.01", ["lr2-seed0"]],
      ["0.1", ["lr1-seed0", "lr1-seed1"]],
    ]));
  it("are by several", () =>
    expect(names("lr, opt.name").map(([name]) => name)).toEqual([
      "lr=0.01, opt.name=–",
      "lr=0.1, opt.name=adam",
      "lr=0.1, opt.name=sgd",
    ]));
  it("are by a regex over names", () => {
    expect(names("~^lr\\d")).toEqual([
      ["lr1", ["lr1-seed0", "lr1-seed1"]],
      ["lr2", ["lr2-seed0"]],
    ]);
    expect(names("~(lr1)-(seed\\d)").map(([name]) => name)).toEqual(["lr1 seed0", "lr1 seed1", "–"]);
  });
  it("say when a regex is none", () => expect(parseGrouping("~(")!.error).toMatch(/^Not a regex: /));
  it("are none without keys", () =>
    expect([parseGrouping(null), parseGrouping(""), parseGrouping(" ,")]).toEqual([null, null, null]));
});
