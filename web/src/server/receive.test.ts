import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { receive } from "./receive";

const hidden = { hidden: false };
beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("document", Object.assign(hidden, { hidden: false }));
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test("an answer is handed on, and so is why there is none", async () => {
  const [take, refuse] = [vi.fn(), vi.fn()];
  receive(() => Promise.resolve(1), take, refuse);
  receive(() => Promise.reject(new Error("no")), take, refuse);
  await vi.advanceTimersByTimeAsync(0);
  expect(take.mock.calls).toEqual([[1]]);
  expect(refuse.mock.calls).toEqual([[new Error("no")]]);
});

test("who has left is told nothing", async () => {
  const [take, refuse] = [vi.fn(), vi.fn()];
  receive(() => Promise.resolve(1), take, refuse)();
  receive(() => Promise.reject(new Error("no")), take, refuse)();
  await vi.advanceTimersByTimeAsync(0);
  expect(take).not.toHaveBeenCalled();
  expect(refuse).not.toHaveBeenCalled();
});

test("after a rest it asks once, and never if it ended before", async () => {
  const ask = vi.fn(() => Promise.resolve(1));
  receive(ask, vi.fn(), vi.fn(), { after: 50 })();
  receive(ask, vi.fn(), vi.fn(), { after: 50 });
  await vi.advanceTimersByTimeAsync(49);
  expect(ask).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(500);
  expect(ask).toHaveBeenCalledTimes(1);
});

test("it asks again after each answer, not while the page is hidden, and no more once it has ended", async () => {
  const ask = vi.fn(() => Promise.resolve(1));
  const end = receive(ask, vi.fn(), vi.fn(), { every: 100 });
  await vi.advanceTimersByTimeAsync(250);
  expect(ask).toHaveBeenCalledTimes(3);
  hidden.hidden = true;
  await vi.advanceTimersByTimeAsync(1000);
  expect(ask).toHaveBeenCalledTimes(3);
  hidden.hidden = false;
  await vi.advanceTimersByTimeAsync(100);
  expect(ask).toHaveBeenCalledTimes(4);
  end();
  await vi.advanceTimersByTimeAsync(1000);
  expect(ask).toHaveBeenCalledTimes(4);
});
