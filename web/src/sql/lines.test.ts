import { describe, expect, it } from "vitest";
import type { Table } from "../server/api";
import { linesOf, numbersOf } from "./lines";

const table = (columns: string[], rows: Table["rows"]): Table => ({
  name: "rows",
  columns,
  rows,
  total: -1,
  more: "",
  names: [],
});

describe("lines of an answer", () => {
  it.each([
    [
      "one column of numbers",
      table(
        ["run", "best"],
        [
          ["a", 1],
          ["b", 2],
        ],
      ),
      [],
    ],
    ["no numbers", table(["run"], [["a"]]), []],
    [
      "a single place",
      table(
        ["step", "value"],
        [
          [1, 2],
          [1, 3],
        ],
      ),
      [],
    ],
    [
      "a mixed column",
      table(
        ["step", "value"],
        [
          [1, "x"],
          [2, 3],
        ],
      ),
      [],
    ],
    [
      "two columns",
      table(
        ["step", "value"],
        [
          [2, 20],
          [1, 10],
          [3, null],
        ],
      ),
      [["value", [1, 2], [10, 20]]],
    ],
    [
      "a text beside",
      table(
        ["run", "step", "value"],
        [
          ["a", 1, 1],
          ["b", 1, 5],
          ["a", 2, 2],
          ["b", 2, 6],
        ],
      ),
      [
        ["a", [1, 2], [1, 2]],
        ["b", [1, 2], [5, 6]],
      ],
    ],
    [
      "several values",
      table(
        ["step", "low", "high"],
        [
          [1, 1, 5],
          [2, 2, 6],
        ],
      ),
      [
        ["low", [1, 2], [1, 2]],
        ["high", [1, 2], [5, 6]],
      ],
    ],
  ])("%s", (_, answer, expected) => {
    expect(linesOf(answer).map(({ label, x, y }) => [label, [...x], [...y]])).toEqual(expected);
  });

  it("takes a column without a value for no number", () => {
    expect(
      numbersOf(
        table(
          ["a", "b"],
          [
            [null, 1],
            [null, null],
          ],
        ),
      ),
    ).toEqual([1]);
  });
});
