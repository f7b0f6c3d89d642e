import { describe, expect, it } from "vitest";
import { tableDiff } from "./tablediff";

describe("tables", () => {
  const a = {
    columns: ["id", "p"],
    rows: [
      ["x", 0.1],
      ["y", 0.2],
      ["z", 0.3],
    ],
  };
  it("rows are put beside each other by the column that names them", () => {
    const diff = tableDiff(a, {
      columns: ["id", "p"],
      rows: [
        ["z", 0.3],
        ["x", 0.5],
        ["w", 1],
      ],
    });
    expect(diff.key).toBe("id");
    expect(diff.rows.map(({ a, b, same }) => [a, b, same])).toEqual([
      [0, 1, false],
      [1, null, false],
      [2, 0, true],
      [null, 2, false],
    ]);
    expect([diff.compared, diff.changed]).toEqual([4, 1]);
    expect(diff.rows[0]!.cells[1]).toEqual({ a: 0.1, b: 0.5, same: false });
  });
  it("rows that nothing names are taken in their order", () => {
    const diff = tableDiff(
      { columns: ["p"], rows: [[0.5], [0.5]] },
      { columns: ["p"], rows: [[0.5], [0.7], [1.5]] },
    );
    expect(diff.key).toBeNull();
    expect(diff.rows.map(({ a, b, same }) => [a, b, same])).toEqual([
      [0, 0, true],
      [1, 1, false],
      [null, 2, false],
    ]);
  });
  it("a column of one table alone is not a value in the other", () => {
    const diff = tableDiff(a, { columns: ["id", "q"], rows: [["x", null]] });
    expect(diff.columns).toEqual(["id", "p", "q"]);
    expect(diff.rows[0]!.cells).toEqual([
      { a: "x", b: "x", same: true },
      { a: 0.1, b: undefined, same: false },
      { a: undefined, b: null, same: false },
    ]);
  });
  it("empty tables are alike", () =>
    expect(tableDiff({ columns: [], rows: [] }, { columns: [], rows: [] }).rows).toEqual([]));
});
