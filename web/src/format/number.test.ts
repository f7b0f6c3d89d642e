import { describe, expect, it } from "vitest";
import { bytesText, nsText } from "./units";
import {
  alike,
  changeOf,
  compact,
  count,
  counted,
  decimalsFor,
  decimalsOrNone,
  exactly,
  figure,
  fixed,
  inColumn,
  measured,
  partOf,
  percent,
  power,
  prefixed,
  signed,
  spread,
  logLabels,
  tickLabels,
  typed,
} from "./number";

const G = "\u00a0";

describe("figures", () => {
  it.each([
    [2.33812, "2.34"],
    [0, "0"],
    [-0, "0"],
    [-1.5, "−1.50"],
    [1073.4, "1,073"],
    [999_999, "999,999"],
    [1234567, `1.23${G}M`],
    [11_150_373, `11.2${G}M`],
    [-999_999.6, `−1${G}M`],
    [26_200_000_000, `26.2${G}B`],
    [NaN, "NaN"],
    [Infinity, "∞"],
    [-Infinity, "−∞"],
    [1.2e-5, "1.20×10⁻⁵"],
    [9.999e-6, "1.00×10⁻⁵"],
    [3e20, "3.00×10²⁰"],
    [0.5, "0.500"],
    [12, "12"],
  ])("%f reads %s", (value, text) => expect(figure(value)).toBe(text));

  it("says that nothing is recorded, which is not 0", () => {
    expect(figure(null)).toBe("–");
    expect(count(undefined)).toBe("–");
    expect(percent(null)).toBe("–");
  });

  it("gives the ends of several lines", () => {
    expect(spread([2.424, 3.93])).toBe("2.42 – 3.93");
    expect(spread([-0.5, -0.25])).toBe("−0.500 to −0.250");
    expect(spread([1e-12, 0.0015])).toBe("1.00×10⁻¹² – 0.00150");
    expect(spread([0.0003, 0.503])).toBe("0.000300 – 0.503");
    expect(spread([0.609, 1])).toBe("0.609 – 1.00");
    expect(spread([4.75e13])).toBe(`47.5${G}T`);
    expect(spread([1e-8, 1.6e-7])).toBe("1.00×10⁻⁸ – 1.60×10⁻⁷");
  });
  it("gives whole numbers no decimals, and a float32 its power", () => {
    expect(spread([0, 64])).toBe("0 – 64");
    expect(decimalsOrNone([64, 0, NaN])).toBe(0);
    expect(decimalsOrNone([64, 0.5])).toBe(1);
  });
  it("says of several lines that some end at no number", () => {
    expect(spread([NaN])).toBe("NaN");
    expect(spread([0.25, NaN, 0.5, Infinity])).toBe("0.250 – 0.500, NaN, ∞");
    expect(spread([])).toBe("");
  });
  it("has one unit and one power of ten at a time", () => {
    expect(compact(2.97e30)).toBe("2.97×10³⁰");
    expect(prefixed(40.2e9, "FLOP/s")).toBe(`40.2${G}GFLOP/s`);
    expect(prefixed(999.99e9, "FLOP")).toBe(`1${G}TFLOP`);
    expect(prefixed(12, "B/s")).toBe(`12${G}B/s`);
    expect(prefixed(null, "B/s")).toBe("–");
  });
  it("counts one and several", () => {
    expect([0, 1, 2, 1234].map((value) => counted(value, "run"))).toEqual([
      "0 runs",
      "1 run",
      "2 runs",
      "1,234 runs",
    ]);
  });
  it("gives differences a sign", () =>
    expect([0.5, -0.5, 0.0001, NaN].map((value) => signed(value, 2))).toEqual([
      "+0.50",
      "−0.50",
      "0.00",
      "NaN",
    ]));
  it("keeps the size of what a column cannot hold", () => {
    expect(inColumn(1e-9, 4)).toBe("1.00×10⁻⁹");
    expect(inColumn(2.6e-5, 5)).toBe("2.60×10⁻⁵");
    expect(inColumn(0.12345, 4)).toBe("0.1235");
    expect(inColumn(0.00247, 2)).toBe("0.00247");
    expect(inColumn(11_150_373, 0)).toBe(`11.2${G}M`);
  });
  it("never writes minus zero", () => expect(fixed(-0.0004, 2)).toBe("0.00"));
  it("groups thousands and keeps decimals", () => expect(fixed(-1234567.891, 2)).toBe("−1,234,567.89"));
  it("gives a column the decimals of its largest value", () =>
    expect(decimalsFor([2.3, 44.91, NaN])).toBe(1));
  it("shortens counts", () => {
    expect(compact(999_950)).toBe(`1${G}M`);
    expect(compact(25_000)).toBe(`25${G}k`);
    expect(count(500_000)).toBe("500,000");
    expect(count(1_234_567)).toBe("1,234,567");
    expect(count(11_150_373)).toBe(`11.2${G}M`);
  });
  it("has all digits of what was recorded, in the unit in which it was", () =>
    expect([
      exactly(Math.fround(0.0345), "ms"),
      exactly(123456789, "bytes"),
      exactly(1e-4, "ratio"),
      exactly(NaN, "ms"),
      exactly(null, null),
    ]).toEqual(["0.0344999991\u00a0ms", "123456789\u00a0bytes", "0.0001", undefined, undefined]));
  it("takes single precision's 0.0001 for what it is", () =>
    expect([figure(Math.fround(1e-4)), figure(Math.fround(9.99e-5))]).toEqual(["0.000100", "9.99×10⁻⁵"]));
  it("writes powers with a true minus", () => expect(power(-0.00012, 2)).toBe("−1.2×10⁻⁴"));
});

describe("units", () => {
  it.each([
    ["bytes", 74.7 * 2 ** 30, `74.7${G}GiB`],
    ["ms", 168.04, `168${G}ms`],
    ["ms", 9.999, `10.0${G}ms`],
    ["ms", 12_500, `12.5${G}s`],
    ["us", 310, `310${G}µs`],
    ["s", 0.0021, `2.10${G}ms`],
  ] as const)("%s %f reads %s", (unit, value, text) => expect(measured(value, unit)).toBe(text));

  it("says a part in the unit of its whole", () => {
    expect(partOf(0.0258, 0.0356, "s")).toBe(`25.8 of 35.6${G}ms`);
    expect(partOf(0.0526, 0.168, "s")).toBe(`52.6 of 168${G}ms`);
    expect(partOf(12e-9, 0.0056, "s")).toBe(`1.20×10⁻⁵ of 5.60${G}ms`);
    expect(partOf(0, 0.0056, "s")).toBe(`0 of 5.60${G}ms`);
  });
  it("gives the same text of one time whatever unit it was recorded in", () =>
    expect([measured(0.0356, "s"), measured(35.6, "ms"), measured(35_600, "us"), nsText(35.6e6)]).toEqual(
      Array(4).fill(`35.6${G}ms`),
    ));
  it("and of bytes", () => expect(measured(1.5 * 2 ** 30, "bytes")).toBe(bytesText(1.5 * 2 ** 30)));
  it("says a change in percent with its sign", () =>
    expect([0.125, -0.5, 0, 0.00001, -0.00001].map(changeOf)).toEqual([
      `+12.5${G}%`,
      `−50.0${G}%`,
      `0${G}%`,
      `<${G}0.01${G}%`,
      `<${G}0.01${G}%`,
    ]));
  it("types numbers as a program would", () =>
    expect([typed(3e-4), typed(0.001), typed(128), typed(0.1)]).toEqual(["3e-4", "0.001", "128", "0.1"]));
  it("knows a share below what it shows", () =>
    expect([percent(0.00001), percent(0.0004, 1), percent(0.004, 0), percent(0, 1)]).toEqual([
      `<${G}0.01${G}%`,
      `<${G}0.1${G}%`,
      `<${G}1${G}%`,
      `0.0${G}%`,
    ]));
  it("shows shares with the digits that matter", () => expect(percent(0.313)).toBe(`31.3${G}%`));
});

describe("ticks", () => {
  it("have the decimals of their step", () =>
    expect(tickLabels([0, 0.5, 1], 0.5, false)).toEqual(["0", "0.5", "1.0"]));
  it("are never rounded to another value", () =>
    expect(tickLabels([2.5, 5, 7.5], 2.5, false)).toEqual(["2.5", "5.0", "7.5"]));
  it("are short on the x axis", () =>
    expect(tickLabels([0, 25_000, 50_000], 25_000, true)).toEqual(["0", `25${G}k`, `50${G}k`]));
  it("keep thousands on the y axis", () =>
    expect(tickLabels([800, 1000, 1200], 200, false)).toEqual(["800", "1,000", "1,200"]));
  it("use powers for tiny values", () =>
    expect(tickLabels([0, 2e-5], 2e-5, false)).toEqual(["0", "2.0×10⁻⁵"]));
});

describe("a table of one unit", () => {
  it("has the unit of its largest value in all its cells", () =>
    expect([35.6e6, 12_300, null, 250e6].map((ns) => alike(ns, 250e6, "ns"))).toEqual([
      `35.6${G}ms`,
      `0.0123${G}ms`,
      "–",
      `250${G}ms`,
    ]));
});

describe("labels of a logarithmic axis", () => {
  it("are powers where they are far from 1 and one of them is long", () => {
    expect(logLabels([1, 1e9, 1e18], false)).toEqual(["1", "10⁹", "10¹⁸"]);
    expect(logLabels([3e-5, 1e-3, 1], false)).toEqual(["3×10⁻⁵", "0.001", "1"]);
  });
  it("are plain where all are short", () => {
    expect(logLabels([0.01, 0.1, 1, 10], false)).toEqual(["0.01", "0.1", "1", "10"]);
    expect(logLabels([300, 1000, 3000], false)).toEqual(["300", "1,000", "3,000"]);
  });
});
