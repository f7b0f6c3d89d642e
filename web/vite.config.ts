import { existsSync, readFileSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { svelte } from "@sveltejs/vite-plugin-svelte";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

/** With what they import; what is drawn only when it is saved is fetched then. */
const CHARTS = {
  name: "charts",
  test: /\/src\/(chart\/[A-Za-z]+\.|scalars\/(Card|Pointed)\.svelte|parts\/(Breakable|SplitKey))|\/svelte\/src\/reactivity\/window\//,
};
const JUDGED = {
  name: "judged",
  test: /\/src\/(overview\/(BlameBar\.svelte|judged|captured|near|evidence)|annotations\/RunMenu|chart\/export\/(ExportMenu|csv)|runs\/findings|ranks\/ranks)/,
};

// The page is served under any prefix, so every address in it is relative. The server's content security policy
// forbids inline styles and scripts: nothing here may inject them.
export default defineConfig({
  base: "./",
  plugins: [svelte(), licences(), early(), inline()],
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    cssCodeSplit: true,
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
    // All that the first load needs in one file, what draws charts in a second one, and what judges a run in a third:
    // each further file costs a turn at a server that has just started.
    rollupOptions: {
      output: [
        { codeSplitting: { groups: [{ name: "start", tags: ["$initial"] }, CHARTS, JUDGED] } },
        { codeSplitting: false },
      ],
    },
  },
  test: { include: ["src/**/*.test.ts"], environment: "node" },
});

/** What others have written stands in a report: nothing in it asks another place, or runs what it holds. */
const POLICY = `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; worker-src data:; connect-src blob:; img-src blob: data:; media-src blob:" />`;

/**
 * Makes report.html of the second output: the page in one file, which opens from a disk. There a browser loads no
 * script that a file refers to.
 */
function inline(): Plugin {
  /** Of the first output: each is made once, and the second one has those of what loads at first alone. */
  let styles: string[] = [];
  return {
    name: "inline",
    generateBundle: {
      order: "post", // what loads chunks is put in by then
      handler({ codeSplitting }, bundle) {
        const page = bundle["index.html"];
        if (page?.type !== "asset") return;
        if (codeSplitting !== false) {
          const first = (name: string): boolean => String(page.source).includes(name);
          const sheets = Object.values(bundle).filter(({ fileName }) => fileName.endsWith(".css"));
          styles = sheets
            .sort((a, b) => Number(first(b.fileName)) - Number(first(a.fileName)))
            .map((sheet) => ("source" in sheet ? String(sheet.source) : ""));
          return;
        }
        let html = String(page.source).replace(/<link rel="icon"[^>]*>/, POLICY);
        const workers = Object.values(bundle).filter(({ fileName }) => fileName.includes(".worker-"));
        for (const [name, file] of Object.entries(bundle)) {
          if (name === "index.html") continue;
          if (file.type === "chunk") {
            let code = file.code.replace(/<(?=\/script|!--)/g, "\\x3C");
            for (const { fileName, ...worker } of workers) {
              const text = Buffer.from("source" in worker ? worker.source : worker.code).toString("base64");
              code = code.replace(
                new RegExp(`(["'\`])[^"'\`]*${fileName.replace(/^.*\//, "")}\\1`),
                `"data:text/javascript;base64,${text}"`,
              );
            }
            html = html.replace(new RegExp(`<script[^>]*${name}[^>]*></script>`), "");
            html = html.replace("</body>", () => `<script type="module">${code}</script>\n  </body>`);
          } else if (name.endsWith(".css")) html = html.replace(new RegExp(`<link[^>]*${name}[^>]*>`), "");
          delete bundle[name];
        }
        html = html.replace("</head>", () => `<style>${styles.join("")}</style>\n  </head>`);
        delete bundle["index.html"];
        this.emitFile({ type: "asset", fileName: "report.html", source: html });
      },
    },
  };
}

/** Has what draws charts fetched beside the first file, not after it: nearly every page needs it. */
function early(): Plugin {
  return {
    name: "early",
    transformIndexHtml: {
      order: "post",
      handler(_, { bundle }) {
        const chunk = Object.values(bundle ?? {}).find(
          (one) => one.type === "chunk" && one.name === CHARTS.name,
        );
        if (!chunk) return [];
        const attrs = { rel: "modulepreload", crossorigin: true, href: `./${chunk.fileName}` };
        return [{ tag: "link", attrs, injectTo: "head" }];
      },
    },
  };
}

/** Writes licences.txt: those of the packages of which code went into the page. */
function licences(): Plugin {
  return {
    name: "licences",
    generateBundle(_, bundle) {
      const folders = new Set<string>();
      for (const chunk of Object.values(bundle)) {
        if (chunk.type !== "chunk") continue;
        for (const id of chunk.moduleIds) {
          const folder = packageOf(id.split("?")[0]!.replace(/^\0/, ""));
          if (folder) folders.add(folder);
        }
      }
      const source = [...folders].sort().map(licenceOf).join("\n\n");
      this.emitFile({ type: "asset", fileName: "licences.txt", source });
    },
  };
}

function packageOf(file: string): string | null {
  if (!file.includes("/node_modules/")) return null;
  for (let folder = dirname(file); folder.includes("/node_modules/"); folder = dirname(folder)) {
    if (existsSync(join(folder, "package.json")) && "version" in manifest(folder)) return folder;
  }
  return null;
}

function manifest(folder: string): { name?: string; version?: string; license?: string } {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as ReturnType<typeof manifest>;
}

function licenceOf(folder: string): string {
  const { name, version, license } = manifest(folder);
  const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
  const text = file ? readFileSync(join(folder, file), "utf8").trim() : "";
  return `${name} ${version}, ${license}\n\n${text}`;
}
