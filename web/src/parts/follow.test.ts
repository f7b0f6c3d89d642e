import { expect, test, vi } from "vitest";
import { follow } from "./follow";

const click = (more: Partial<MouseEvent> = {}) => {
  const [act, preventDefault] = [vi.fn(), vi.fn()];
  const event = { metaKey: false, ctrlKey: false, shiftKey: false, button: 0, ...more, preventDefault };
  follow(event as unknown as MouseEvent, act);
  return [act.mock.calls.length, preventDefault.mock.calls.length];
};

test("a plain click acts on the page, and any other is the browser's", () => {
  expect(click()).toEqual([1, 1]);
  for (const other of [{ metaKey: true }, { ctrlKey: true }, { shiftKey: true }, { button: 1 }])
    expect(click(other)).toEqual([0, 0]);
});
