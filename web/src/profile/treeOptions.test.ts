import { describe, expect, it } from "vitest";
import { ORDERS, PRESETS, changed, optionsOf, orderOfColumn, presetOf, problemOf } from "./treeOptions";

describe("options of trees", () => {
  it("are read from the address and changed one by one", () => {
    const list = ["min_micros:5", "show_name_regexes:a:b.*"];
    expect(optionsOf(list).get("show_name_regexes")).toBe("a:b.*");
    expect(changed(list, "min_micros", "7")).toEqual(["show_name_regexes:a:b.*", "min_micros:7"]);
    expect(changed(list, "min_micros", "")).toEqual(["show_name_regexes:a:b.*"]);
  });

  it("know which preset they are", () => {
    for (const preset of PRESETS) expect(presetOf(optionsOf(preset.options))).toBe(preset);
    expect(presetOf(optionsOf([]))).toBeNull();
    expect(presetOf(optionsOf(["min_micros:999"]))).toBeNull();
  });

  it("say what is not a number", () => {
    expect(problemOf("min_micros", "5x")).toContain("min_micros");
    expect(problemOf("min_micros", "")).toBe("");
    expect(problemOf("show_name_regexes", "(")).toBe("");
  });

  it("sort by columns under tfprof's names", () => {
    const keys = [
      "device_total_ns",
      "host_self_ns",
      "host_ns",
      "total_ns",
      "accelerator_ns",
      "cpu_ns_self",
      "calls",
      "flops",
      "bytes",
      "peak_bytes_all",
      "params",
      "moved_bytes",
    ];
    expect(keys.map(orderOfColumn)).toEqual([
      "accelerator_micros",
      "cpu_micros",
      "cpu_micros",
      "micros",
      "accelerator_micros",
      "cpu_micros",
      "occurrence",
      "float_ops",
      "bytes",
      "peak_bytes",
      "params",
      "bytes",
    ]);
    expect(orderOfColumn("device_min_ns")).toBeNull();
    expect(orderOfColumn("flops_per_second")).toBeNull();
    for (const key of keys) expect(ORDERS).toContain(orderOfColumn(key));
  });
});
