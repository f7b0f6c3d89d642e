import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Asking } from "./asking";

const REST = 1000;

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("several who want the same ask once, also one who comes later", async () => {
  const look = vi.fn(() => Promise.resolve());
  const asking = new Asking(REST, look);
  asking.want("a", 1);
  asking.want("a", 1);
  await vi.advanceTimersByTimeAsync(1);
  asking.want("a", 1);
  await vi.advanceTimersByTimeAsync(10 * REST);
  expect(look.mock.calls).toEqual([["a"]]);
});

test("what has grown is asked for again, after a rest and once", async () => {
  const look = vi.fn(() => Promise.resolve());
  const asking = new Asking(REST, look);
  asking.want("a", 1);
  await vi.advanceTimersByTimeAsync(1);
  for (const version of [2, 3, 4]) asking.want("a", version);
  await vi.advanceTimersByTimeAsync(REST / 2);
  expect(look).toHaveBeenCalledTimes(1);
  await vi.advanceTimersByTimeAsync(REST);
  expect(look).toHaveBeenCalledTimes(2);
});

test("what grows while it is asked for is asked for again", async () => {
  let answer = (): void => undefined;
  const look = vi.fn(() => new Promise<void>((resolve) => (answer = resolve)));
  const asking = new Asking(REST, look);
  asking.want("a", 1);
  await vi.advanceTimersByTimeAsync(1);
  asking.want("a", 2);
  answer();
  await vi.advanceTimersByTimeAsync(2 * REST);
  expect(look).toHaveBeenCalledTimes(2);
});

test("nobody asks for what nobody wants any more, and a failure is not an answer", async () => {
  const look = vi.fn(() => Promise.reject(new Error("gone")));
  const asking = new Asking(REST, look);
  asking.want("a", 1)();
  await vi.advanceTimersByTimeAsync(REST);
  expect(look).not.toHaveBeenCalled();
  asking.want("a", 1);
  await vi.advanceTimersByTimeAsync(1);
  asking.want("a", 1);
  await vi.advanceTimersByTimeAsync(2 * REST);
  expect(look).toHaveBeenCalledTimes(2);
});
