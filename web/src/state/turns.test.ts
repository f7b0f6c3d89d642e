import { afterEach, expect, test, vi } from "vitest";
import { Turns } from "./turns";

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
  const [turns, done] = [new Turns(), [] as number[]];
  turns.ask("one", () => done.push(1));
  turns.ask("one", () => done.push(2));
  next();
  next();
  turns.ask("one", () => done.push(3));
  next();
  expect(done).toEqual([2, 3]);
});

test("asking in every frame before it runs does not put it off", () => {
  const { next } = frames();
  const [turns, done] = [new Turns(), [] as number[]];
  for (let at = 0; at < 3; at += 1) {
    requestAnimationFrame(() => turns.ask("one", () => done.push(at)));
    turns.ask("one", () => done.push(-1));
    next();
  }
  expect(done.length).toBe(3);
});

test("nothing runs after it was stopped", () => {
  const { next } = frames();
  const [turns, done] = [new Turns(), [] as number[]];
  turns.ask("one", () => done.push(1));
  turns.drop("one");
  next();
  expect(done).toEqual([]);
});

test("work that takes long is spread over frames, the rest shares one", () => {
  const { next } = frames();
  let now = 0;
  vi.stubGlobal("performance", { now: () => now });
  const [turns, done] = [new Turns(), [] as string[]];
  const work = (name: string, ms: number): void => turns.ask(name, () => void (done.push(name), (now += ms)));
  work("a", 1);
  work("b", 20);
  work("c", 20);
  work("c", 1);
  work("d", 1);
  work("e", 1);
  turns.drop("d");
  next();
  expect(done).toEqual(["a", "b"]);
  expect(turns.idle).toBe(false);
  next();
  expect(done).toEqual(["a", "b", "c", "e"]);
  expect(turns.idle).toBe(true);
  next();
  work("f", 1);
  next();
  expect(done.at(-1)).toBe("f");
});

test("charts of hundreds of lines are drawn one in a frame, small ones together, and none is left waiting", () => {
  const { next } = frames();
  const [turns, done] = [new Turns(), [] as string[]];
  const draw = (name: string, lines: number): void => turns.ask(name, () => void done.push(name), lines);
  draw("large", 500);
  draw("second", 208);
  draw("a", 10);
  draw("b", 10);
  next();
  expect(done).toEqual(["large"]);
  next();
  expect(done).toEqual(["large", "second", "a"]);
  next();
  expect(done).toEqual(["large", "second", "a", "b"]);
  expect(turns.idle).toBe(true);
});
