import { describe, expect, it } from "vitest";
import type { Chart } from "../server/api";
import type { Section } from "./sections";
import { MOST_PER_SECTION, heightOf, inTurn, rowHeight, rowsOf } from "./grid";

const section = (name: string, size: number): Section => ({
  name,
  filtered: 0,
  charts: Array.from({ length: size }, (_, at) => ({ id: `${name}/${at}` }) as Chart),
});
const open = (): boolean => false;

describe("rows of sections", () => {
  it("puts small sections beside each other and leaves no cell empty", () => {
    const rows = rowsOf([section("a", 2), section("b", 1), section("c", 2), section("d", 3)], 4, open);
    expect(rows.map(({ sections, columns }) => [sections.map(({ name }) => name).join(""), columns])).toEqual(
      [
        ["ab", 3],
        ["c", 2],
        ["d", 3],
      ],
    );
  });
  it("gives a large section a row of its own, with the columns that fill it best", () => {
    expect(rowsOf([section("a", 6)], 4, open)[0]!.columns).toBe(3);
    expect(rowsOf([section("a", 7)], 4, open)[0]!.columns).toBe(4);
  });
  it("gives a closed section a row of its own", () =>
    expect(rowsOf([section("a", 1), section("b", 1)], 4, ({ name }) => name === "a").length).toBe(2));
  it("shares the window between few rows, and scrolls for many", () => {
    const few = rowsOf([section("a", 4), section("b", 4)], 4, open);
    expect(heightOf(few, 900, 1176)).toBe(340);
    const many = rowsOf([section("a", 100)], 4, open);
    expect(heightOf(many, 900, 1176)).toBe(165);
  });
  it("knows the height of a row before it is there", () => {
    const [row] = rowsOf([section("a", 100)], 4, open);
    const folded = rowHeight(row!, 165, open, () => false);
    expect(folded).toBe(28 + Math.ceil(MOST_PER_SECTION / 4) * 165 + 41);
    expect(rowHeight(row!, 165, open, () => true)).toBe(28 + 25 * 165);
    expect(
      rowHeight(
        row!,
        165,
        () => true,
        () => false,
      ),
    ).toBe(28);
  });
});

describe("cards that come", () => {
  const charts = section("a", 6).charts;
  const ids = (places: number[]): string[] => places.map((at) => `a/${at}`);
  it("are few in each frame, those that were there all stay", () => {
    expect([...inTurn(charts, new Set(), 2)]).toEqual(ids([0, 1]));
    expect([...inTurn(charts, new Set(ids([1, 4])), 2)]).toEqual(ids([0, 1, 2, 4]));
  });
  it("all come in the end, and what is gone does not stay", () => {
    let there: ReadonlySet<string> = new Set(["b/0"]);
    const sizes = Array.from({ length: 4 }, () => (there = inTurn(charts, there, 2)).size);
    expect(sizes).toEqual([2, 4, 6, 6]);
    expect(there.has("b/0")).toBe(false);
  });
  it("all come at once where none may be missing", () =>
    expect(inTurn(charts, new Set(), Infinity).size).toBe(6));
});
