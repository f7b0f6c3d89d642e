import { describe, expect, it } from "vitest";
import type { Changes, Chart, RunSummary } from "../server/api";
import { EMPTY, applyChanges, byName, linesOf } from "./catalog";
import { configBrief, configText, countOf, differenceText, differences, flatten } from "./config";
import { facts } from "./facts";
import { chartOf, runOf } from "./fixtures";
import { order } from "./order";
import { repeated } from "./configurations";
import { firstCharts, keyCharts, rankingChart } from "../series/pick";
import { parseFilter, sectionsOf } from "../scalars/sections";
import { matchScore } from "../parts/search";
import { evidence, headline, losses } from "../overview/verdict";

const chart = (id: string, ...tags: string[]): Chart =>
  chartOf(id, {
    section: id.split("/")[0]!,
    own_cost: id.startsWith("stepscope/"),
    lines: (tags.length ? tags : [id]).map((tag) => ({ tag, split: tag.startsWith("eval") ? "eval" : null })),
  });
const changes = (extra: Partial<Changes>): Changes => ({
  cursor: "1",
  time: 0,
  reset: false,
  runs: [],
  removed: [],
  dirty: {},
  charts: null,
  log: { name: "l", path_display: "l", version: "0", exists: true, problems: [] },
  loading: null,
  ...extra,
});

describe("catalog", () => {
  const first = applyChanges(
    EMPTY,
    changes({
      reset: true,
      charts: [chart("loss")],
      runs: [
        runOf("run10"),
        runOf("run2"),
        runOf("run2/eval", { base: "run2", split: "eval", points: 5, state: "running" }),
      ],
    }),
  );

  it("makes one family of a run and its evaluation", () => {
    expect(first.families.map(({ name }) => name)).toEqual(["run2", "run10"]);
    expect(first.families[0]!.main).toMatchObject({ name: "run2", points: 15, state: "running" });
  });
  it("knows the split of a line by its run where the tag does not tell", () =>
    expect(linesOf(first.charts[0]!, first.families).map(({ run, split }) => [run, split])).toEqual([
      ["run2", null],
      ["run2/eval", "eval"],
      ["run10", null],
    ]));
  it("keeps what did not change", () => {
    const next = applyChanges(first, changes({ removed: ["run10"] }));
    expect(next.families.map(({ name }) => name)).toEqual(["run2"]);
    expect(next.charts).toBe(first.charts);
  });
  it("forgets all at a reset", () =>
    expect(applyChanges(first, changes({ reset: true, charts: [] })).families).toEqual([]));
  it("finds no line for a tag that a run lacks", () =>
    expect(linesOf(chart("other"), first.families)).toEqual([]));
  it("orders names as people do", () => expect(["b10", "b9", "a"].sort(byName)).toEqual(["a", "b9", "b10"]));
});

describe("config", () => {
  it("is flat", () =>
    expect(flatten({ a: { b: 1, c: { d: [1, 2] } }, e: {} })).toEqual({ "a.b": 1, "a.c.d": [1, 2], e: {} }));
  it("numbers the objects of a list", () =>
    expect(flatten({ groups: [{ lr: 0.1 }, { lr: 1 }], mixed: [{ a: 1 }, 2], none: [] })).toEqual({
      "groups.0.lr": 0.1,
      "groups.1.lr": 1,
      mixed: [{ a: 1 }, 2],
      none: [],
    }));
  it("shows what differs, fewest values first", () => {
    const found = differences([
      { lr: 3e-4, bs: 8, same: 1 },
      { lr: 1e-3, bs: 8, same: 1 },
      { lr: 1e-4, bs: 16, same: 1 },
    ]);
    expect(found.map(({ key, values }) => [key, values])).toEqual([
      ["bs", [8, 16]],
      ["lr", [1e-4, 3e-4, 1e-3]],
    ]);
    expect(differenceText(found[1]!)).toBe("1e-4, 3e-4, 0.001");
  });
  it("are repeated where most differ in seeds alone", () => {
    const run = (config: Record<string, unknown>): RunSummary => runOf("r", { config, seeds: ["opt.seed"] });
    const seeded = (lr: number, seed: number): RunSummary => run({ opt: { seed }, lr });
    expect(repeated([seeded(1, 0), seeded(1, 1), seeded(2, 0), seeded(2, 1)])).toBe(true);
    expect(repeated([seeded(1, 0), run({ lr: 1, opt: { seed: 1 } }), seeded(2, 0)])).toBe(true);
    expect(repeated([seeded(1, 0), seeded(1, 1)])).toBe(false); // one configuration is no sweep
    expect(repeated([seeded(1, 0), seeded(1, 1), seeded(2, 0), seeded(3, 0)])).toBe(false);
    expect(repeated([run({}), run({}), run({})])).toBe(false);
  });
  it("counts runs without the key, and ignores runs without any config", () => {
    const [only] = differences([{ a: 1 }, { a: 2 }, { b: 1 }, {}]).filter(({ key }) => key === "a");
    expect(only!.missing).toBe(1);
    expect(differenceText(only!)).toBe("1, 2, not set");
  });
  it("lists what some runs do not set at all, after what all set", () => {
    const found = differences([
      { kept: true, lr: 1, same: 0 },
      { lr: 2, same: 0 },
    ]);
    expect(found.map((one) => [one.key, differenceText(one), countOf(one)])).toEqual([
      ["lr", "1, 2", 2],
      ["kept", "True, not set", 2],
    ]);
    expect(differences([{ kept: true }, {}])).toEqual([]);
  });
  it("gives many numbers as a range, with as many digits as tell what it is", () => {
    const rates = [1.0204437e-5, 0.0012345678, 0.05, 0.09238891];
    const [found] = differences(rates.map((lr) => ({ lr })));
    expect(differenceText(found!)).toBe("1.02e-5 … 0.0924");
  });
  it("shows the first digits of what was sampled, and others whole", () =>
    expect(
      [0.0812330284380135, 2.4599999999999998e-5, 0.1, 123456, 3e-4, "0.123456789"].map((value) =>
        configBrief(value),
      ),
    ).toEqual(["0.081233", "2.46e-5", "0.1", "123,456", "3e-4", "0.123456789"]));
  it("writes values as Python does", () =>
    expect([true, null, "x", [1, "a"], 100000].map(configText)).toEqual([
      "True",
      "None",
      "x",
      '[1,"a"]',
      "100,000",
    ]));
});

describe("order", () => {
  const families = applyChanges(
    EMPTY,
    changes({
      reset: true,
      runs: [
        runOf("a", { step: 5, config: { lr: 2 } }),
        runOf("b", { step: null, config: { lr: 1 } }),
        runOf("c", { step: 9 }),
      ],
    }),
  ).families;
  const by = (sort: string, kept: string[] = []): string[] =>
    order(families, sort, (_, { name }) => ({ a: 3, b: NaN, c: 1 })[name] ?? null, kept).map(
      ({ name }) => name,
    );

  it("puts what has no value last, either way", () => {
    expect(by("step")).toEqual(["a", "c", "b"]);
    expect(by("-step")).toEqual(["c", "a", "b"]);
    expect(by("metric:m")).toEqual(["c", "a", "b"]);
    expect(by("config:lr")).toEqual(["b", "a", "c"]);
  });
  it("keeps pinned runs on top", () => expect(by("name", ["c"])).toEqual(["c", "a", "b"]));
});

describe("charts", () => {
  const telling = (id: string, tier: Chart["tier"], role: Chart["role"], place: number): Chart => ({
    ...chart(id),
    tier,
    role,
    place,
  });
  const ids = (charts: readonly Chart[]): string[] => charts.map(({ id }) => id);
  const learning = [
    telling("b_loss", "learning", "part_loss", 2),
    telling("a_loss", "learning", "part_loss", 1),
    telling("accuracy", "learning", "score", 4),
    telling("f1", "learning", "score", 5),
    telling("c_loss", "learning", "part_loss", 3),
  ];
  const others = [
    telling("zebra", "recorded", null, 10),
    telling("gpu1", "running", "memory", 9),
    telling("gpu0", "running", "memory", 8),
    telling("step_time", "running", "step_time", 7),
    telling("count", "detail", null, 12),
    telling("layer", "detail", null, 11),
    telling("stepscope/overhead_ratio", "detail", null, 13),
  ];
  it("are picked one of each role, four of how it learns before how it runs", () => {
    expect(ids(keyCharts([...others, ...learning]))).toEqual(
      "a_loss accuracy b_loss c_loss step_time gpu0 f1 zebra gpu1 layer count".split(" "),
    );
    expect(ids(keyCharts([...others, ...learning], 2))).toEqual(["a_loss", "accuracy"]);
    expect(rankingChart([...others, ...learning])!.id).toBe("a_loss");
  });
  it("are those that people record where none says how it learns", () => {
    expect(ids(keyCharts(others, 3))).toEqual(["zebra", "step_time", "gpu0"]);
    expect(rankingChart(others)!.id).toBe("zebra");
  });
  it("show details on the first screen only where little else is recorded", () => {
    const first = keyCharts([...others, ...learning], 99);
    expect(ids(firstCharts(first))).toEqual(
      "a_loss accuracy b_loss c_loss step_time gpu0 f1 zebra gpu1".split(" "),
    );
    expect(ids(firstCharts(first, 2))).toEqual(["a_loss", "accuracy"]);
    const few = others.filter(({ tier }) => tier !== "running");
    expect(ids(firstCharts(keyCharts(few, 99)))).toEqual(["zebra", "layer", "count"]);
  });
  it("leave out what says nothing", () =>
    expect(ids(keyCharts(learning, 2, ({ id }) => id === "a_loss"))).toEqual(["b_loss", "accuracy"]));
  it("go into sections, in their places", () => {
    const placed = (id: string, section_place: number): Chart => ({ ...chart(id), section_place });
    const sections = sectionsOf(
      [placed("stepscope/x", 8), placed("speed/y", 6), placed("train/a", 1), placed("train/b", 1)],
      parseFilter("/[xya]$"),
    );
    expect(sections.map(({ name, filtered }) => [name, filtered])).toEqual([
      ["train", 1],
      ["speed", 0],
      ["stepscope", 0],
    ]);
  });
  it("are not filtered by what is not a regex, which is said", () => {
    const filter = parseFilter("loss(");
    expect(filter.error).toMatch(/^Not a regex: /);
    expect(filter.test(chart("anything"))).toBe(true);
  });
});

describe("verdict", () => {
  const given = { now: 3000, metric: null, broken: [], judged: null };
  it("gives the reason of a state, but not of a failure, which stands above with its stack", () => {
    const because = (state: "stopped" | "failed"): string =>
      evidence({ ...given, run: runOf("a", { state, reason: "ValueError: x" }) });
    expect(because("stopped")).toBe("ValueError: x");
    expect(because("failed")).not.toContain("ValueError");
  });
  it("says what waits", () =>
    expect(
      evidence({ ...given, run: runOf("a", { step_time: { seconds: 0.168, wait_s: 0.0526 } }) }),
    ).toContain("52.6 of 168\u00a0ms"));
  it("names a metric that broke", () =>
    expect(
      headline({ ...given, broken: [{ title: "loss", step: 7 }], run: runOf("a", { state: "running" }) }).map(
        ({ tone }) => tone,
      ),
    ).toEqual(["ok", "bad"]));
  it("tells none dropped from not recorded", () => {
    expect(
      losses({ ...given, run: runOf("a", { dropped: 0 }) }).some(({ text }) => text === "none dropped"),
    ).toBe(true);
    expect(losses({ ...given, run: runOf("a") }).some(({ text }) => text.includes("dropped"))).toBe(false);
  });
  it("lists only recorded facts", () => {
    const [family] = applyChanges(EMPTY, changes({ reset: true, runs: [runOf("a")] })).families;
    expect(facts(family!, 3000).map(({ name }) => name)).toEqual(["State", "Started", "Duration", "Points"]);
  });
});

describe("search", () => {
  it("needs every word and likes beginnings", () => {
    expect(matchScore("Chart train/loss", "loss train")).toBeGreaterThan(0);
    expect(matchScore("Chart train/loss", "loss eval")).toBe(0);
    expect(matchScore("Chart loss", "loss")).toBeGreaterThan(matchScore("Chart glossy", "loss"));
  });
});
