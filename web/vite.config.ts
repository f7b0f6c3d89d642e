import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

// The page is served under any prefix, so every address in it is relative. The server's content security policy
// forbids inline styles and scripts: nothing here may inject them.
export default defineConfig({
  base: "./",
  plugins: [svelte()],
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    cssCodeSplit: true,
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
  },
  test: { include: ["src/**/*.test.ts"], environment: "node" },
});
