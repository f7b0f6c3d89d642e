import { describe, expect, it, vi } from "vitest";
import { Hits } from "./hits.svelte";
import { fetchSearch } from "./questions";

vi.mock("./questions", () => ({ fetchSearch: vi.fn() }));

const answer = (row: number) => ({ total: 1, total_ns: 1, skip: 0, hits: [{ row }] });

describe("a search", () => {
  it("whose text has changed meanwhile chooses nothing", async () => {
    const chosen: number[] = [];
    const hits = new Hits("profile", (row) => chosen.push(row));
    const answers = new Map<string, (found: unknown) => void>();
    vi.mocked(fetchSearch).mockImplementation(
      (_, text) => new Promise((found) => answers.set(text, found as (found: unknown) => void)),
    );
    const first = hits.look("cudnn", 0, null);
    hits.expect("sgemm"); // typed; it is looked for a moment later
    answers.get("cudnn")!(answer(1));
    await first;
    expect(chosen).toEqual([]);
    const second = hits.look("sgemm", 0, null);
    answers.get("sgemm")!(answer(2));
    await second;
    expect([chosen, hits.at, hits.found?.total]).toEqual([[2], 0, 1]);
  });
  it("goes nowhere while something is chosen that it did not find", async () => {
    const chosen: number[] = [];
    const hits = new Hits("profile", (row) => chosen.push(row));
    vi.mocked(fetchSearch).mockResolvedValue(answer(3) as never);
    await hits.look("sgemm", 0, 7);
    expect([chosen, hits.at]).toEqual([[], -1]);
  });
});
