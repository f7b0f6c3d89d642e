import { describe, expect, it } from "vitest";
import { frameName, kernelName, named } from "./names";

const rows = [{ name: "b2" }, { name: "a" }, { name: "b10" }];

describe("rows", () => {
  it("are found by name whatever the case", () => {
    expect(named(rows, " B1 ")).toEqual([{ name: "b10" }]);
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
