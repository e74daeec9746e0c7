// Every rule that is off or changed has its reason beside it.
export default {
  root: true,
  extends: ["html-validate:recommended", "html-validate:document"],
  rules: {
    // The standard allows both cases.
    "doctype-style": ["error", { style: "lowercase" }],
    // The job parameter of an address has as many values as jobs are ticked, on the page of the list and on others.
    "form-dup-name": "off",
    // Titles contain names that users chose.
    "long-title": "off",
    // Text is the default type of a field in the standard.
    "no-implicit-input-type": "off",
    // A region that scrolls is around one table; sections have headings.
    "prefer-native-element": ["error", { exclude: ["region"] }],
    // White space at the end of a line has no meaning.
    "no-trailing-whitespace": "off",
    // All files are those of the server that serves the page, under the hash of their content.
    "require-sri": "off",
  },
};
