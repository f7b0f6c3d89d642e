import { expect, test } from "vitest";
import { MAGIC } from "./api";
import { Report, type Answers } from "./answers";

const CHANGES = { cursor: "1", runs: [{ name: "a" }], removed: [], dirty: {}, charts: [], reset: true };

/** A frame of one chart with one raw line of two points. */
function frame(value: number): string {
  const header = {
    charts: [
      {
        id: "0", x: "step", x0: 0, x1: 1, mode: "raw", buckets: 2, total_points: 2, shown_points: 2,
        x_column: null, missing: [],
        lines: [{ run: "a", tag: `t${value}`, columns: { value: { dtype: "f8", offset: 0, count: 2 } } }],
      },
    ],
  }; // prettier-ignore
  const text = new TextEncoder().encode(JSON.stringify(header));
  const start = Math.ceil((8 + text.length) / 8) * 8;
  const bytes = new Uint8Array(start + 16);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, MAGIC, true);
  view.setUint32(4, text.length, true);
  bytes.set(text, 8);
  view.setFloat64(start, value, true);
  view.setFloat64(start + 8, value, true);
  return btoa(String.fromCharCode(...bytes));
}

const chart = (tag: string, smoothing: number, value: number): Answers["charts"][number] => ({
  request: { id: "0", lines: [{ run: "a", tag }], smoothing },
  frame: frame(value),
});

const report = (): Report =>
  new Report({
    pages: ["overview"],
    opens: "overview",
    answers: [
      { path: "changes", query: {}, json: CHANGES },
      { path: "findings", query: { run: "a" }, json: { findings: [1] } },
      { path: "record", query: { run: "a", tag: "w/b", limit: "120" }, json: { series: [] } },
      { path: "profile/memory", query: { path: "p" }, status: 422, json: { error: "no", hint: "" } },
      { path: "profile/path", query: { path: "p", pieces: "9" }, json: { steps: [] } },
      { path: "blob", query: { run: "a", at: "1" }, bytes: btoa("hi"), type: "image/png" },
    ],
    charts: [chart("x", 0, 1), chart("x", 0.6, 2), chart("y", 0, 3)],
  });

test("a question is answered by what was asked, whatever its order and fineness", async () => {
  const held = report();
  expect(await held.answer("findings?run=a")!.json()).toEqual({ findings: [1] });
  expect(await held.answer("record?limit=400&tag=w%2Fb&run=a")!.json()).toEqual({ series: [] });
  expect(held.answer("findings?run=b")).toBeNull();
  expect(held.answer("profile/path?path=p&steps=3&pieces=9")).toBeNull();
  expect(await held.answer("profile/path?path=p&steps=&pieces=0")!.json()).toEqual({ steps: [] });
  expect(held.missed).toEqual(["findings?run=b", "profile/path?path=p&steps=3&pieces=9"]);
});

test("a refusal is held as one", () => {
  expect(report().answer("profile/memory?path=p&points=10")!.status).toBe(422);
});

test("the log is answered whole once, and then nothing is new", async () => {
  const held = report();
  expect(await held.answer("changes")!.json()).toEqual(CHANGES);
  expect(await held.answer("changes?cursor=1")!.json()).toMatchObject({
    runs: [],
    charts: null,
    reset: false,
  });
});

test("a chart comes with the nearest smoothing, and with lines that are held one by one", () => {
  const held = report();
  const ask = (tags: string[], smoothing: number): number[] =>
    held
      .series([{ id: "mine", lines: tags.map((tag) => ({ run: "a", tag })), smoothing }])
      .flatMap(
        ({ id, lines }) => (expect(id).toBe("mine"), lines.map(({ columns }) => columns["value"]![0]!)),
      );
  expect(ask(["x"], 0.9)).toEqual([2]);
  expect(ask(["x"], 0.1)).toEqual([1]);
  expect(ask(["y", "x"], 0)).toEqual([3, 1]);
  expect(held.missed).toEqual([]);
  expect(ask(["x", "gone"], 0)).toEqual([]);
  expect(held.missed).toHaveLength(2);
});

test("bytes have an address of their own", () => {
  const held = report();
  expect(held.address("blob?at=1&run=a")).toMatch(/^blob:/);
  expect(held.address("blob?at=1&run=a")).toBe(held.address("blob?run=a&at=1"));
  expect(held.address("blob?at=2&run=a")).toBeNull();
});
