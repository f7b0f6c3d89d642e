import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import {
  BUSY_MS,
  IDLE_MS,
  Poller,
  QUIET_MS,
  acted,
  answered,
  failed,
  initialPoll,
  linkOf,
  nextDelay,
  setHidden,
  type Answered,
} from "./poll";

const quiet: Answered = { news: false, loading: false, running: false };

describe("delays", () => {
  const start = answered(initialPoll(0), 0, quiet);
  it("are a second at first and five when nothing happens", () => {
    expect(nextDelay(start, 1000)).toBe(BUSY_MS);
    expect(nextDelay(start, QUIET_MS)).toBe(IDLE_MS);
    expect(nextDelay(acted(start, QUIET_MS), QUIET_MS + 1)).toBe(BUSY_MS);
  });
  it("stay a second while a run is going", () =>
    expect(nextDelay(answered(start, 0, { ...quiet, running: true }), 1e9)).toBe(BUSY_MS));
  it("are short while the log is read", () =>
    expect(nextDelay(answered(start, 0, { ...quiet, loading: true }), 0)).toBeLessThan(BUSY_MS));
  it("end while the tab is hidden", () => expect(nextDelay(setHidden(start, true, 0), 0)).toBeNull());
  it("grow with failures, and not without bound", () => {
    let state = start;
    const delays = Array.from({ length: 8 }, () => nextDelay((state = failed(state, 0)), 0)!);
    expect(delays).toEqual([500, 1000, 2000, 4000, 8000, 8000, 8000, 8000]);
  });
});

describe("badge", () => {
  const live = answered(initialPoll(0), 1000, quiet);
  it("counts since the last answer", () =>
    expect(linkOf(live, 1800)).toEqual({ link: "live", seconds: 0.8 }));
  it("does not cry at one failure", () => expect(linkOf(failed(live, 2000), 2500).link).toBe("live"));
  it("says since when the server is gone", () =>
    expect(linkOf(failed(failed(live, 2000), 3000), 13_000)).toEqual({ link: "disconnected", seconds: 12 }));
  it("says at once when it never answered", () =>
    expect(linkOf(failed(initialPoll(0), 100), 200).link).toBe("disconnected"));
  it("is live again after an answer", () =>
    expect(linkOf(answered(failed(failed(live, 2000), 3000), 4000, quiet), 4000).link).toBe("live"));
});

describe("poller", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());
  const settle = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms);

  it("asks each second, not while hidden, and at once when shown again", async () => {
    const ask = vi.fn(() => Promise.resolve(quiet));
    const poller = new Poller(ask, () => {});
    void poller.poke();
    await settle(2500);
    expect(ask).toHaveBeenCalledTimes(3);
    poller.hide(true);
    await settle(60_000);
    expect(ask).toHaveBeenCalledTimes(3);
    poller.hide(false);
    await settle(0);
    expect(ask).toHaveBeenCalledTimes(4);
    poller.stop();
  });
  it("never asks twice at a time", async () => {
    let resolve: (answer: Answered) => void = () => {};
    const ask = vi.fn(() => new Promise<Answered>((done) => (resolve = done)));
    const poller = new Poller(ask, () => {});
    void poller.poke();
    void poller.poke();
    void poller.poke();
    expect(ask).toHaveBeenCalledTimes(1);
    resolve(quiet);
    await settle(0);
    expect(ask).toHaveBeenCalledTimes(2);
    poller.stop();
  });
  it("resumes by itself after failures", async () => {
    let down = true;
    const links: string[] = [];
    const poller = new Poller(
      () => (down ? Promise.reject(new Error("gone")) : Promise.resolve(quiet)),
      (state) => links.push(linkOf(state, Date.now()).link),
    );
    void poller.poke();
    await settle(4000);
    expect(links.at(-1)).toBe("disconnected");
    down = false;
    await settle(8000);
    expect(links.at(-1)).toBe("live");
    poller.stop();
  });
});
