import { computed, signal } from "@preact/signals";

// The address of a screen is the part after `#`, which a browser never sends: `#/chat/my-thread?run=1`.

const hash = signal(location.hash);
addEventListener("hashchange", () => {
  hash.value = location.hash;
});

/** The screen's name, the parts after it, and its parameters. */
export const place = computed(() => {
  const [path = "", query = ""] = hash.value.replace(/^#\/?/, "").split("?");
  const [screen = "", ...parts] = path.split("/").map(decoded);
  return { screen, parts, query: new URLSearchParams(query) };
});

/** Returns the address of a screen. */
export function to(screen, parts = [], query = {}) {
  const path = [screen, ...parts].map((part) => encodeURIComponent(part)).join("/");
  const entries = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const search = new URLSearchParams(entries.map(([name, value]) => [name, String(value)]));
  return `#/${path}${search.size === 0 ? "" : `?${search}`}`;
}

/** Opens a screen. `replace` leaves no entry in the history of the browser. */
export function go(address, { replace = false } = {}) {
  if (replace) {
    history.replaceState(null, "", address);
    hash.value = address;
  } else location.hash = address;
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
