import { afterEach, expect, test, vi } from "vitest";
import { EachFrame } from "./frame";

afterEach(() => vi.unstubAllGlobals());

function frames(): { next: () => void } {
  let waiting = new Map<number, () => void>();
  let last = 0;
  vi.stubGlobal("requestAnimationFrame", (work: () => void) => (waiting.set((last += 1), work), last));
  vi.stubGlobal("cancelAnimationFrame", (id: number) => waiting.delete(id));
  return {
    next: () => {
      const now = waiting;
      waiting = new Map();
      for (const work of now.values()) work();
    },
  };
}

test("the newest is run once per frame", () => {
  const { next } = frames();
  const [each, done] = [new EachFrame(), [] as number[]];
  each.ask(() => done.push(1));
  each.ask(() => done.push(2));
  next();
  next();
  each.ask(() => done.push(3));
  next();
  expect(done).toEqual([2, 3]);
});

test("asking in every frame before it runs does not put it off", () => {
  const { next } = frames();
  const [each, done] = [new EachFrame(), [] as number[]];
  for (let at = 0; at < 3; at += 1) {
    requestAnimationFrame(() => each.ask(() => done.push(at)));
    each.ask(() => done.push(-1));
    next();
  }
  expect(done.length).toBe(3);
});

test("nothing runs after it was stopped", () => {
  const { next } = frames();
  const [each, done] = [new EachFrame(), [] as number[]];
  each.ask(() => done.push(1));
  each.stop();
  next();
  expect(done).toEqual([]);
});
