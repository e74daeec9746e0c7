import js from "@eslint/js";

export default [
  js.configs.recommended,
  {
    files: ["assets/*.js"],
    languageOptions: { ecmaVersion: 2023, sourceType: "module" },
    rules: {
      // TypeScript knows the names of the browser.
      "no-undef": "off",
      curly: ["error", "multi-line"],
      eqeqeq: "error",
      "no-eval": "error",
      "no-implied-eval": "error",
      "no-var": "error",
      "prefer-const": "error",
    },
  },
];
