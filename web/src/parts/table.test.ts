import { describe, expect, it } from "vitest";
import { inOrder, type Column } from "./table";

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
});
