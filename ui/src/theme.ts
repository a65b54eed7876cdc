/** Light, dark, or as the system says. The choice stays in this browser. */

export type Theme = "system" | "light" | "dark";

const KEY = "holdfast.theme";
const NEXT: Readonly<Record<Theme, Theme>> = { system: "light", light: "dark", dark: "system" };

export function chosenTheme(): Theme {
  const stored = localStorage.getItem(KEY);
  return stored === "light" || stored === "dark" ? stored : "system";
}

export function applyTheme(): void {
  const theme = chosenTheme();
  if (theme === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
}

export function nextTheme(): Theme {
  const theme = NEXT[chosenTheme()];
  localStorage.setItem(KEY, theme);
  applyTheme();
  return theme;
}
