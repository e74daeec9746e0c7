// The switch between the light and the dark theme. The server reads the choice from a cookie, so that a page never shows the
// other theme first.

/** @returns {"light" | "dark"} the theme that the page shows */
function shown() {
  const chosen = document.documentElement.dataset.theme;
  if (chosen === "light" || chosen === "dark") return chosen;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/** Makes the switch in the header work. */
export function useThemeSwitch() {
  const button = document.getElementById("theme");
  if (!button) return;
  button.hidden = false;
  button.addEventListener("click", () => {
    const theme = shown() === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    document.cookie = `tunesmith_theme=${theme}; path=/console; max-age=31536000; samesite=strict`;
  });
}
