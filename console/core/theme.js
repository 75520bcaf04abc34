import { signal } from "@preact/signals";

/** `light`, `dark`, or empty to follow the system. */
export const theme = signal(document.documentElement.dataset.theme ?? "");

/** True if the page is dark now. */
export function isDark() {
  return theme.value === "" ? matchMedia("(prefers-color-scheme: dark)").matches : theme.value === "dark";
}

/** Switches between dark and light, and remembers it in this browser. */
export function switchTheme() {
  theme.value = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme.value;
  try {
    localStorage.setItem("svc.theme", theme.value);
  } catch {}
}
