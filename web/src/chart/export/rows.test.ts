import { describe, expect, it } from "vitest";
import { csvOf } from "./csv";
import { cellText, parsedCsv, rowsOf } from "./rows";

describe("a table that a chart saves", () => {
  const head = ["step", 'a "name", with all', "note"];
  const cells = [
    [1, -0.25, "=1+1"],
    [2, null, "two\r\nlines"],
    [3, NaN, 'say "so"'],
    [4, 1e-7, ""],
  ];
  it("is read back as it was written, whatever its texts hold", () => {
    expect(parsedCsv(csvOf(head, cells))).toEqual([
      head,
      ["1", "-0.25", "=1+1"],
      ["2", "", "two\r\nlines"],
      ["3", "NaN", 'say "so"'],
      ["4", "1e-7", ""],
    ]);
    expect(parsedCsv("")).toEqual([]);
    expect(parsedCsv("a\n1,")).toEqual([["a"], ["1", ""]]);
    expect(() => parsedCsv('a\r\n"open')).toThrow("quote");
  });
  it("knows which columns are numbers", async () => {
    const { head: names, rows, columns, cut } = await rowsOf([csvOf(head, cells)]);
    expect([names, rows.length, cut]).toEqual([head, 4, false]);
    expect(columns.map(({ number }) => number)).toEqual([true, true, false]);
    expect((await rowsOf([csvOf(["a", "b"], [[1, null]])])).columns.map((one) => one.number)).toEqual([
      true,
      false,
    ]);
  });
  it("shows numbers without the noise of their sums, and all that tells them apart", () => {
    expect(
      ["0.30000000000000004", "0.10000000149011612", "1700000000.25", "12345678901234567", "1e-7"].map(
        cellText,
      ),
    ).toEqual(["0.3", "0.100000001", "1700000000.25", "12345678901234567", "1e-7"]);
    expect(["NaN", "", "1.2.3", "v1.0e"].map(cellText)).toEqual(["NaN", "", "1.2.3", "v1.0e"]);
  });
});
