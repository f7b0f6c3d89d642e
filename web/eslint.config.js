import js from "@eslint/js";
import svelte from "eslint-plugin-svelte";
import ts from "typescript-eslint";
import svelteConfig from "./svelte.config.js";

const unused = { argsIgnorePattern: "^_", varsIgnorePattern: "^_" };

export default ts.config(
  { ignores: ["node_modules/", "src/server/api.ts"] },
  js.configs.recommended,
  ...ts.configs.recommended,
  ...svelte.configs.recommended,
  {
    files: ["**/*.svelte", "**/*.svelte.ts"],
    languageOptions: { parserOptions: { parser: ts.parser, svelteConfig } },
  },
  {
    rules: {
      // svelte-check knows the names of the browser and of the types; this rule knows neither.
      "no-undef": "off",
      // Maps and sets here are computed anew or local to a function: no view follows a single entry of one.
      "svelte/prefer-svelte-reactivity": "off",
      // {" "} keeps a space between two elements that stand on lines of their own.
      "svelte/no-useless-mustaches": "off",
      // Beside another snippet, the children are easier to see as one too.
      "svelte/no-useless-children-snippet": "off",
      "@typescript-eslint/no-unused-vars": ["error", unused],
    },
  },
);
