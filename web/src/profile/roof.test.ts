import { expect, it } from "vitest";
import { utilisationText } from "./roof";

const said = (utilisation_ratio: number | null, counted_ratio: number | null): string | null =>
  utilisationText({ utilisation_ratio, counted_ratio })?.replaceAll(/\s/g, " ") ?? null;

it("says utilisation as it is where all work is counted, as a least where not, and else nothing", () => {
  expect(said(0.31, 1)).toBe("31.0 %");
  expect(said(0.001, 0.067)).toBe("at least 0.1 %");
  expect(said(null, 0.5)).toBeNull();
});
