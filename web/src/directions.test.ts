/** Imports go one way (docs/design/page-source.md): what many parts use never imports what is drawn. */
import { readFileSync, readdirSync } from "node:fs";
import { describe, expect, it } from "vitest";

const SOURCE = new URL(".", import.meta.url);

const MAY_IMPORT: Record<string, readonly string[]> = {
  format: [],
  theme: [],
  regex: [],
  server: ["regex"],
  series: ["format", "regex", "server"],
  runs: ["format", "regex", "series", "server"],
  view: ["series", "server"],
};

/** What a folder imports of other folders, as `file imports path`. */
function importsOf(folder: string): { file: string; path: string; home: string }[] {
  return readdirSync(new URL(`${folder}/`, SOURCE))
    .filter((file) => file.endsWith(".ts"))
    .flatMap((file) => {
      const text = readFileSync(new URL(`${folder}/${file}`, SOURCE), "utf8");
      const found = [...text.matchAll(/(?:from|import)\s*\(?\s*"\.\.\/([^"]+)"/g)].map((match) => match[1]!);
      return found.map((path) => ({ file: `${folder}/${file}`, path, home: path.split("/")[0]! }));
    });
}

describe("directions", () => {
  it.each(Object.entries(MAY_IMPORT))("%s imports only what is below it", (folder, allowed) => {
    const wrong = importsOf(folder)
      .filter(({ home, file }) => !allowed.includes(home) && !file.endsWith(".test.ts"))
      .map(({ file, path }) => `${file} imports ${path}`);
    expect(wrong).toEqual([]);
  });

  it("are read from the sources", () => {
    expect(importsOf("view").map(({ home }) => home)).toContain("series");
    expect(importsOf("state").map(({ home }) => home)).toContain("view");
  });
});
