import { describe, expect, it } from "vitest";
import type { Node as GraphNode, NodeCost } from "../server/api";
import { boxesOf, neighbour, pictureOf } from "./boxes";
import { tintOf } from "./colours";
import { layersOf, ordered, passed } from "./layers";
import {
  above,
  baseOf,
  breakOf,
  crossings,
  middle,
  modelOf,
  search,
  sizesText,
  slowest,
  startOf,
} from "./model";

const node = (name: string, op: string, inputs: string[] = [], shapes: number[][] = []): GraphNode => ({
  name,
  op,
  inputs,
  device: "",
  shapes,
  attributes: {},
});
const cost = (name: string, duration_us: number, memory_bytes: number | null = null): NodeCost => ({
  name,
  device: "/device:CPU:0",
  start_us: 0,
  duration_us,
  memory_bytes,
  shapes: [],
});

/** Four blocks alike between an input and a head. */
function stacked(): GraphNode[] {
  const nodes = [node("x", "Input", [], [[2, 8]])];
  let last = "x";
  for (let at = 0; at < 4; at += 1) {
    nodes.push(
      node(`h/${at}/weight`, "Parameter", [], [[8, 8]]),
      node(`h/${at}/linear_${at}`, "linear", [last, `h/${at}/weight`], [[2, 8]]),
      node(`h/${at}/relu_${at}`, "relu", [`h/${at}/linear_${at}`], [[2, 8]]),
    );
    last = `h/${at}/relu_${at}`;
  }
  return [...nodes, node("head/linear_4", "linear", [last, "^h/1/relu_1"], [[2, 3]])];
}
const COSTS = [
  cost("h/0/linear_0", 5, 64),
  cost("h/0/relu_0", 2),
  cost("h/1/linear_1", 4, 64),
  cost("gone", 3),
];
const NONE: ReadonlySet<string> = new Set();

describe("scopes", () => {
  const model = modelOf({ nodes: stacked(), costs: COSTS });
  const at = (path: string) => model.at.get(path)!;

  it("sum up what lies within, and keep nothing recorded apart from nothing", () => {
    expect([at("h/0").micros, at("h/0").memory, at("h/0").parameters, at("h/0").operations]).toEqual([
      7, 64, 64, 3,
    ]);
    expect([at("h").micros, at("").parameters, at("").operations]).toEqual([11, 256, 14]);
    expect([at("h/2").micros, at("head").memory, at("head").parameters]).toEqual([null, null, null]);
  });
  it("counts what was measured of operations that are not there", () =>
    expect([model.strangers, model.strangerMicros]).toEqual([1, 3]));
  it("are of the kind that takes most time, else of the most frequent that does something", () =>
    expect([at("h").op, at("h/2").op, at("h/0/weight").op]).toEqual(["linear", "linear", "Parameter"]));
  it("come from top to bottom", () =>
    expect(model.all.slice(0, 4).map((scope) => scope.path)).toEqual(["", "x", "h", "h/0"]));
  it("know what stands above", () =>
    expect(above(at("h/0/relu_0")).map((scope) => scope.path)).toEqual(["", "h", "h/0"]));
  it("are in the order in which they work, though parameters are listed first", () => {
    const listed = [
      node("1/weight", "Parameter"),
      node("2/weight", "Parameter"),
      node("x", "Input"),
      node("1/mul", "mul", ["x", "1/weight"]),
      node("0/relu", "relu", ["1/mul"]),
      node("2/mul", "mul", ["0/relu", "2/weight"]),
      node("unused", "Parameter"),
    ];
    const names = modelOf({ nodes: listed, costs: [] }).root.children.map(({ name }) => name);
    expect(names).toEqual(["x", "1", "0", "2", "unused"]);
  });
  it("puts an operation that bears a scope's name into the scope", () => {
    const both = modelOf({
      nodes: [node("w", "VarHandleOp"), node("w/Read", "ReadVariableOp", ["w"], [[5, 2]])],
      costs: [cost("w", 1)],
    });
    expect(both.root.children[0]!.children.map((scope) => scope.path)).toEqual(["w/(w)", "w/Read"]);
    expect(both.into.get("w/Read")!.map((link) => link.from.path)).toEqual(["w/(w)"]);
    expect([both.root.micros, both.root.parameters]).toEqual([1, 10]);
  });
  it("reads numbered outputs, and takes the longest of several devices", () => {
    const split = modelOf({
      nodes: [node("s", "Split", [], [[1], [2, 3]]), node("y", "Neg", ["s:1", "nowhere"])],
      costs: [cost("y", 2), { ...cost("y", 9), device: "/device:GPU:0" }, cost("s:Split", 4)],
    });
    expect(split.into.get("y")!.map((link) => [link.from.path, link.sizes])).toEqual([["s", [2, 3]]]);
    expect(split.root.micros).toBe(13);
  });
  it("are found by path and by kind, own names first", () => {
    expect(search(model, "LINEAR", 2)).toMatchObject({
      total: 5,
      found: [{ path: "head/linear_4" }, { path: "h/0/linear_0" }],
    });
    expect(search(model, "relu", 9).found.map((scope) => scope.path)).toEqual(
      [0, 1, 2, 3].map((one) => `h/${one}/relu_${one}`),
    );
    expect(search(model, " ", 9).total).toBe(0);
  });
  it("of an empty graph are one", () => expect(modelOf({ nodes: [], costs: [] }).all.length).toBe(1));
});

describe("boxes", () => {
  const model = modelOf({ nodes: stacked(), costs: COSTS });
  const at = (path: string) => model.at.get(path)!;

  it("fold blocks that are alike, and unfold them", () => {
    const [fold] = boxesOf(at("h"), NONE);
    expect(fold).toMatchObject({
      title: "0 … 3 ×4",
      kind: "fold",
      fold: "alike",
      micros: 11,
      operations: 12,
      key: "h/0…",
    });
    expect(boxesOf(at("h"), new Set(["h/0…"])).map((box) => box.title)).toEqual(["0", "1", "2", "3"]);
  });
  it("do not fold what is alike here and there, unless there is much", () => {
    const layers = (count: number) =>
      Array.from({ length: count }, (_, at) =>
        node(`net/${at}/${at % 2 ? "relu" : "linear"}`, at % 2 ? "relu" : "linear"),
      );
    const titles = (count: number) =>
      boxesOf(modelOf({ nodes: layers(count), costs: [] }).at.get("net")!, NONE)
        .map((box) => box.title)
        .sort();
    expect(titles(7)).toEqual(["0", "1", "2", "3", "4", "5", "6"]);
    expect(titles(30)).toEqual(["0 … 28 ×15", "1 … 29 ×15"]);
  });
  it("do not fold a block that differs", () => {
    const odd = modelOf({ nodes: [...stacked(), node("h/3/extra", "add")], costs: [] });
    expect(boxesOf(odd.at.get("h")!, NONE).map((box) => box.title)).toEqual(["0 … 2 ×3", "3"]);
  });
  it("have edges of data between them, counted, and count those of order apart", () => {
    const picture = pictureOf(model, model.root, NONE);
    expect(picture.edges).toEqual([
      { from: "x", to: "h", count: 1, sizes: [2, 8] },
      { from: "h", to: "head", count: 1, sizes: [2, 8] },
    ]);
    expect([picture.ordered, picture.loose.length]).toEqual([1, 0]);
  });
  it("say where data comes from and goes to outside", () => {
    const picture = pictureOf(model, at("h/1"), NONE);
    expect(picture.edges.map((edge) => `${edge.from} > ${edge.to}`)).toEqual([
      "before:h/0 > h/1/linear_1",
      "h/1/weight > h/1/linear_1",
      "h/1/linear_1 > h/1/relu_1",
      "h/1/relu_1 > after:h/2",
    ]);
    expect(pictureOf(model, at("h"), NONE).edges.map((edge) => edge.from)).toEqual(["before:x", "h/0…"]);
  });
  it("are never more than there is room for, and hide nothing", () => {
    const nodes = Array.from({ length: 900 }, (_, one) => node(`n${one}x`, `Op${one % 300}`));
    const wide = modelOf({
      nodes: [...nodes, ...Array.from({ length: 50 }, (_, one) => node(`s${one}x/op${one}`, `T${one}`))],
      costs: [cost("s7x/op7", 1)],
    });
    const boxes = boxesOf(wide.root, NONE, 100);
    expect(boxes.length).toBe(100);
    expect(boxes.reduce((sum, box) => sum + box.operations, 0)).toBe(950);
    expect(boxes.some((box) => box.key === "s7x")).toBe(true);
  });
  it("have no more edges than can be told apart, the weightiest kept, and count the rest", () => {
    const nodes = Array.from({ length: 40 }, (_, one) =>
      node(
        `n${one}x`,
        "Op",
        Array.from({ length: one }, (_, before) => `n${before}x:${before}`),
      ),
    );
    const dense = modelOf({ nodes: [...nodes, node("twice", "Op", ["n0x", "n0x:1"])], costs: [] });
    const drawn = pictureOf(dense, dense.root, NONE);
    expect([drawn.edges.length, drawn.left, drawn.edges[0]]).toEqual([
      500,
      281,
      { from: "n0x", to: "twice", count: 2, sizes: null },
    ]);
  });
  it("stand for a single operation that is opened", () =>
    expect(boxesOf(at("x"), NONE).map((box) => box.key)).toEqual(["x"]));
});

it("goes to the nearest box", () => {
  const places = [
    { key: "a", x: 0, y: 0 },
    { key: "b", x: 0, y: 60 },
    { key: "c", x: 200, y: 60 },
  ];
  expect([
    neighbour(places, "a", "down"),
    neighbour(places, "b", "right"),
    neighbour(places, "c", "up"),
    neighbour(places, "a", "left"),
    neighbour(places, null, "up"),
  ]).toEqual(["b", "c", "a", null, "a"]);
});
it("names what is alike", () =>
  expect(["h.3", "conv_1", "12", "layer", "conv2d"].map(baseOf)).toEqual([
    "h",
    "conv",
    "",
    "layer",
    "conv2d",
  ]));
it("writes sizes", () => expect([[32, -1], [], null].map(sizesText)).toEqual(["32 × ?", "scalar", ""]));

describe("a selection", () => {
  const model = modelOf({ nodes: stacked(), costs: COSTS });
  const at = (path: string) => model.at.get(path)!;

  it("has the inputs and outputs that cross its border", () => {
    const { inputs, outputs, ordered } = crossings(model, [at("h/1"), at("h/2")]);
    expect([inputs.map((link) => link.from.path), outputs.map((link) => link.to.path), ordered]).toEqual([
      ["h/0/relu_0"],
      ["h/3/linear_3"],
      0,
    ]);
    expect(crossings(model, [at("head")]).ordered).toBe(1);
  });
  it("knows its slowest operations", () =>
    expect(slowest([at("h")], 2).map((one) => one.path)).toEqual(["h/0/linear_0", "h/1/linear_1"]));
  it("knows the middle of its members", () =>
    expect([middle([4, null, 1]), middle([3, 1, 2]), middle([null])]).toEqual([
      [1, 2.5, 4],
      [1, 2, 3],
      null,
    ]));
});

describe("layers", () => {
  const edges = [
    [0, 1],
    [1, 2],
    [0, 2],
    [2, 0],
    [3, 2],
  ] as const;

  it("come after what they need, and circles end", () => expect(layersOf(4, edges)).toEqual([0, 1, 2, 0]));
  it("count what is passed", () => expect(passed(layersOf(4, edges), edges)).toBe(3));
  it("put neighbours near each other", () => {
    const crossed = [
      [0, 3],
      [1, 2],
    ] as const;
    const rows = ordered(layersOf(4, crossed), crossed);
    expect(rows[0]!.indexOf(0) < rows[0]!.indexOf(1)).toBe(rows[1]!.indexOf(3) < rows[1]!.indexOf(2));
  });
  it("sums FLOPs, and gives gradients to parameters by the ends of their names", () => {
    const nodes = [
      node("h/0/weight", "Parameter", [], [[2, 2]]),
      node("h/0/bias", "Parameter", [], [[2]]),
      { ...node("h/0/linear", "linear", ["h/0/weight"]), attributes: { flops: 100 } },
      { ...node("h/1/linear", "linear", ["h/0/linear"]), attributes: { flops: 20 } },
    ];
    const norms = [
      { parameter: "h.0.weight", step: 3, norm: 3, before: 6, fell: true },
      { parameter: "model.h.0.bias", step: 3, norm: 4, before: 8, fell: false },
      { parameter: "elsewhere.bias", step: 3, norm: 9, before: null, fell: false },
    ];
    const model = modelOf({ nodes, costs: [] }, norms);
    expect(model.at.get("h")!.flops).toBe(120);
    expect(model.at.get("h/0/weight")!.gradient).toBe(3);
    expect(model.at.get("h/0")!.gradient).toBe(5);
    expect(model.at.get("h/1")!.gradient).toBeNull();
    expect(
      modelOf({ nodes, costs: [] }, [
        { parameter: "h.0.weight", step: 3, norm: "NaN", before: null, fell: false },
      ]).root.gradient,
    ).toBeNaN();
    expect(model.at.get("h/0")!.before).toBe(10);
    expect(model.at.get("h/0")!.fell).toBe(true);
  });
  it("finds where gradients break, and abstains where chance or others could do it", () => {
    /** By how much the gradient of each layer shrank; those that the change log names begin with -. */
    const broken = (...shrank: number[]): string | null => {
      const names = shrank.map((_, at) => `h/${Math.floor(at / 2)}/l${at}/weight`);
      const found = breakOf(
        modelOf(
          { nodes: names.map((name) => node(name, "Parameter", [], [[2]])), costs: [] },
          shrank.map((times, at) => ({
            parameter: names[at]!,
            step: 9,
            norm: 1 / Math.abs(times),
            before: 1,
            fell: times < 0,
          })),
        ),
      );
      return found && `${found.last.path} ${found.next.path} ${found.fell}/${found.of}+${found.after}`;
    };
    const after = [1, 0.8, 1.1, 1, 1.2, 1, 0.9, 1, 1, 1];
    expect(broken(-1e6, -2e6, -1e6, -1e6, ...after)).toBe("h/1 h/2 4/4+10");
    expect(broken(-1e6, -2e6, 1e6, -1e6, ...after)).toBe("h/1 h/2 3/4+10"); // one was not found by itself
    expect(broken(-1e6, -2e6, -1e6, ...after)).toBeNull(); // of 13 layers these 3 are first once in 286
    expect(broken(-1e6, -2e6, -1e6, -1e6, 1, 1, -1e6, ...after)).toBeNull(); // others lie between
    expect(broken(-1.1, -1.3, -1.3, -1.3, 1.2, ...after)).toBeNull(); // one after it shrank as much
    expect(broken(-1e6, -1e6, -1e6, -1e6)).toBeNull(); // all of them
    expect(broken(...after)).toBeNull(); // none
  });
  it("takes measured shapes where the graph knows none", () => {
    const nodes = [node("x", "MatMul", [], [[-1, 4]])];
    const measured = { ...cost("x", 1), shapes: [[32, 4]] };
    expect(modelOf({ nodes, costs: [measured] }).at.get("x")!.node!.shapes).toEqual([[32, 4]]);
  });
});

describe("what is shown first", () => {
  it("is the scope in which nearly all is spent", () => {
    const nodes = [node("m/h/0/a", "x"), node("m/h/1/a", "x"), node("m/out/b", "x")];
    const costs = [cost("m/h/0/a", 400), cost("m/h/1/a", 500), cost("m/out/b", 20)];
    expect(startOf(modelOf({ nodes, costs })).path).toBe("m/h");
    expect(startOf(modelOf({ nodes, costs: [cost("m/h/0/a", 10), cost("m/out/b", 10)] })).path).toBe("m");
    expect(startOf(modelOf({ nodes, costs: [] })).path).toBe("m");
    const stack = [0, 1, 2].map((at) => node(`m/h/${at}/a`, "x"));
    expect(startOf(modelOf({ nodes: [...stack, node("m/out/b", "x")], costs: [] })).path).toBe("m");
    expect(startOf(modelOf({ nodes: [node("a", "x"), node("b", "x")], costs: [] })).path).toBe("");
  });
  it("is coloured by the first of which anything was recorded", () => {
    const nodes = [node("a", "x"), node("b", "x")];
    expect(tintOf(modelOf({ nodes, costs: [cost("a", 5)] }).root)).toBe("time");
    expect(tintOf(modelOf({ nodes, costs: [] }).root)).toBe("op");
  });
});
