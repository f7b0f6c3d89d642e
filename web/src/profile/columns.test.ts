import { describe, expect, it } from "vitest";
import { frameName, inOrder, kernelName, named, type Column } from "./columns";

interface Row {
  name: string;
  time: number | null;
}
const rows: Row[] = [
  { name: "b2", time: 5 },
  { name: "a", time: null },
  { name: "b10", time: 7 },
];
const columns: Column<Row>[] = [
  { key: "time", head: "Time", value: (row) => row.time, text: String },
  { key: "name", head: "Name", value: (row) => row.name, text: String },
];
const names = (found: Row[]): string[] => found.map((row) => row.name);

describe("rows", () => {
  it("are sorted by a column, what is not recorded last either way", () => {
    expect(names(inOrder(rows, columns, { key: "time", up: false }))).toEqual(["b10", "b2", "a"]);
    expect(names(inOrder(rows, columns, { key: "time", up: true }))).toEqual(["b2", "b10", "a"]);
    expect(names(inOrder(rows, columns, { key: "name", up: true }))).toEqual(["a", "b2", "b10"]);
    expect(names(inOrder(rows, columns, { key: "nosuch", up: true }))).toEqual(["b2", "a", "b10"]);
  });

  it("are found by name whatever the case", () => {
    expect(names(named(rows, " B1 "))).toEqual(["b10"]);
    expect(named(rows, "")).toHaveLength(3);
  });
});

describe("names", () => {
  it("of kernels lose what says nothing of them", () => {
    expect(kernelName("void cudnn::engine<float, 512>(int, float const*)")).toBe("cudnn::engine<float, 512>");
    expect(kernelName("void at::native::(anonymous namespace)::k<at::f(int)>(int)")).toBe(
      "at::native::k<at::f(int)>",
    );
    expect(kernelName("Memcpy HtoD (Pageable -> Device)")).toBe("Memcpy HtoD (Pageable -> Device)");
    expect(kernelName("volta_sgemm_64x64_nt")).toBe("volta_sgemm_64x64_nt");
  });

  it("of frames lose the folders of packages", () => {
    expect(frameName("/home/u/env/lib/python3.7/site-packages/torch/nn/conv.py(440): forward")).toBe(
      "torch/nn/conv.py(440): forward",
    );
    expect(frameName("/a/b/c/d/train.py(3): main")).toBe("c/d/train.py(3): main");
    expect(frameName("train.py(3): main")).toBe("train.py(3): main");
  });
});
