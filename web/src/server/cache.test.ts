import { describe, expect, it } from "vitest";
import type { ChartRequest } from "./api";
import { BATCH_LINES, FIRST_LINES, SeriesCache } from "./cache";
import type { DecodedChart } from "./wire";

const request = (id: string, lines = 1, extra: Partial<ChartRequest> = {}): ChartRequest => ({
  id,
  lines: Array.from({ length: lines }, (_, at) => ({ run: `r${at}`, tag: id })),
  smoothing: 0,
  ...extra,
});
const answerTo = (requests: ChartRequest[]): DecodedChart[] =>
  requests.map(({ id }) => ({ id }) as DecodedChart);
/** A cache that wants one chart; asked, it waits for the answer. */
function wanting(lines = 1): SeriesCache {
  const cache = new SeriesCache();
  cache.want("a", request("a", lines));
  return cache;
}
function asking(lines = 1): { cache: SeriesCache; asked: ChartRequest[] } {
  const cache = wanting(lines);
  return { cache, asked: cache.next() };
}

describe("series cache", () => {
  it("asks for what is on the screen, once", () => {
    const { cache, asked } = asking();
    expect(asked.map(({ id }) => id)).toEqual(["a"]);
    expect(cache.next()).toEqual([]);
    expect(cache.accept(asked, answerTo(asked))).toEqual(["a"]);
    expect(cache.next()).toEqual([]);
    expect(cache.complete).toBe(true);
  });
  it("asks in order of place, little first", () => {
    const cache = new SeriesCache();
    for (let at = 9; at >= 0; at -= 1) cache.want(`c${at}`, request(`c${at}`, 50), at);
    const first = cache.next();
    expect(first.map(({ id }) => id)).toEqual(["c0", "c1"]);
    expect(first.length * 50).toBeLessThanOrEqual(FIRST_LINES);
    cache.accept(first, answerTo(first));
    expect(cache.next().reduce((sum, { lines }) => sum + lines.length, 0)).toBeLessThanOrEqual(BATCH_LINES);
  });
  it("asks again when points came, and draws the old ones until then", () => {
    const { cache, asked } = asking();
    cache.accept(asked, answerTo(asked));
    expect(cache.dirty({ r0: ["other"] })).toEqual([]);
    expect(cache.next()).toEqual([]);
    expect(cache.dirty({ r0: ["a"] })).toEqual(["a"]);
    expect(cache.get("a")).toBeDefined();
    expect(cache.complete).toBe(false);
    expect(cache.next().length).toBe(1);
  });
  it("does not take an answer for new that left before the points came", () => {
    const { cache, asked } = asking();
    cache.dirty({ r0: ["a"] });
    cache.accept(asked, answerTo(asked));
    expect(cache.complete).toBe(false);
    expect(cache.next().length).toBe(1);
  });
  it("takes an answer for new when points of other series came", () => {
    const { cache, asked } = asking();
    cache.dirty({});
    cache.dirty({ r0: ["other"] });
    cache.accept(asked, answerTo(asked));
    expect(cache.complete).toBe(true);
  });
  it("can be asked for what is not drawn at all yet", () => {
    const cache = wanting();
    const asked = cache.next(true);
    cache.accept(asked, answerTo(asked));
    cache.want("a", request("a", 2));
    cache.want("b", request("b"));
    expect(cache.next(true).map(({ id }) => id)).toEqual(["b"]);
    expect(cache.next().map(({ id }) => id)).toEqual(["a"]);
  });
  it("asks anew when the question changes while an answer is on its way", () => {
    const { cache, asked } = asking();
    cache.want("a", request("a", 1, { smoothing: 0.9 }));
    const again = cache.next();
    expect(again[0]!.smoothing).toBe(0.9);
    cache.accept(asked, answerTo(asked));
    expect(cache.complete).toBe(false);
    cache.accept(again, answerTo(again));
    expect(cache.complete).toBe(true);
  });
  it("asks again after a failure", () => {
    const cache = wanting();
    cache.reject(cache.next());
    expect(cache.next().length).toBe(1);
  });
  it("does not ask for what left the screen, and has it when it returns", () => {
    const { cache, asked } = asking();
    cache.accept(asked, answerTo(asked));
    cache.want("a", null);
    cache.dirty({ r0: ["a"] });
    expect(cache.next()).toEqual([]);
    cache.want("a", request("a"));
    expect(cache.next().length).toBe(1);
  });
  it("cuts what is over the server's limit instead of asking for ever", () => {
    const { cache, asked } = asking(2500);
    expect(asked[0]!.lines.length).toBe(2000);
    cache.accept(asked, answerTo(asked));
    expect(cache.next()).toEqual([]);
  });
});
