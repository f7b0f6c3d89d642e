import { afterEach, expect, test, vi } from "vitest";
import { publicPath, rememberPlace } from "./place";

const PLACE = "~0123456789abcdefghij-_";

afterEach(() => void vi.unstubAllGlobals());

test("a link leaves the place of this browser out", () => {
  expect(publicPath(`/${PLACE}/`)).toBe("/");
  expect(publicPath(`/lab/x/${PLACE}/`)).toBe("/lab/x/");
  expect(publicPath("/lab/~ada/")).toBe("/lab/~ada/");
});

test("the place is remembered by the address that lies above it", () => {
  const items = new Map<string, string>();
  vi.stubGlobal("localStorage", { setItem: (name: string, value: string) => void items.set(name, value) });
  rememberPlace(`/lab/${PLACE}/`);
  rememberPlace("/other/");
  expect([...items]).toEqual([["stepscope-place:/lab/", PLACE]]);
});
