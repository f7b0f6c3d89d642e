import { describe, expect, it } from "vitest";
import type { RunFinding, RunFindings, Severity } from "../server/api";
import { findingOf, findingsOf } from "../runs/fixtures";
import { byRule } from "./findingsdiff";

const finding = (rule: string, severity: Severity, layer = ""): RunFinding =>
  findingOf({ rule, severity, title: rule, layer });
const answer = (run: string, ...findings: RunFinding[]): RunFindings => findingsOf(run, findings);

describe("findings of two sides", () => {
  it("what one side alone has comes first, then the severest", () => {
    const rows = byRule(
      [answer("a", finding("both", "high"), finding("low", "low"))],
      [answer("b", finding("both", "high"), finding("high", "high"))],
    );
    expect(rows.map(({ rule, a, b }) => [rule, a.length, b.length])).toEqual([
      ["high", 0, 1],
      ["low", 1, 0],
      ["both", 1, 1],
    ]);
  });
  it("a run counts once, however many layers it has", () => {
    const [row] = byRule(
      [answer("a", finding("x", "low", "1"), finding("x", "high", "2")), answer("c", finding("x", "low"))],
      [],
    );
    expect(row!.a.map(({ run }) => run)).toEqual(["a", "c"]);
    expect(row!.severity).toBe("high");
  });
});
