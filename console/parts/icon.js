import { html } from "../core/html.js";

// Drawings on a grid of 24, as strokes in the colour of the text.

const drawings = {
  chat: "M4 5h16v11H9l-4 4v-4H4z",
  threads: "M4 6h16M4 12h16M4 18h10",
  run: "M3 12h4l3-7 4 14 3-7h4",
  inbox: "M4 5h16l1 9v5H3v-5zM3 14h5l1.5 3h5L16 14h5",
  bell: "M6 17V11a6 6 0 0 1 12 0v6l2 2H4zM10 21h4",
  runs: "M5 4l14 8-14 8z",
  workflows: "M4 4h6v5H4zM14 9.500h6v5h-6zM4 15h6v5H4zM10 6.500h2v11h-2M12 12h2",
  agents: "M9 3v3M15 3v3M6 6h12v5a6 6 0 0 1-12 0zM12 17v4",
  knowledge: "M5 4h6a2 2 0 0 1 2 2v14a2 2 0 0 0-2-2H5zM19 4h-4a2 2 0 0 0-2 2v14a2 2 0 0 1 2-2h4z",
  skills: "M12 4l2.300 5.200 5.700.600-4.200 3.800 1.200 5.600-5-2.900-5 2.900 1.200-5.600L4 9.800l5.700-.600z",
  quality: "M4 19h16M6 15l4-5 3 3 5-7M15 6h3v3",
  usage: "M5 20V10M12 20V4M19 20v-7",
  audit: "M12 3l7 3v6c0 4.5-3 7.5-7 9-4-1.5-7-4.5-7-9V6zM9 12l2 2 4-4",
  health: "M12 20S4 15 4 9a4 4 0 0 1 8-1 4 4 0 0 1 8 1c0 6-8 11-8 11z",
  more: "M4.7 12h.6M11.7 12h.6M18.7 12h.6",
  send: "M5 12h14M13 6l6 6-6 6",
  stop: "M7 7h10v10H7z",
  plus: "M12 5v14M5 12h14",
  image: "M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4M9 9h.01",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  fork: "M6 4v6a4 4 0 0 0 4 4h4a4 4 0 0 1 4 4v2M6 10v10M4 6l2-2 2 2M16 18l2 2 2-2",
  rewind: "M4 12a8 8 0 1 0 3-6.2M4 4v5h5",
  edit: "M4 20h4L19 9l-4-4L4 16z",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  download: "M12 4v11M7 10l5 5 5-5M5 20h14",
  search: "M10.5 4a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zM15.5 15.5L20 20",
  tree: "M6 4v12a2 2 0 0 0 2 2h6M6 9h8M14 9h4M14 18h4",
  code: "M8 7l-5 5 5 5M16 7l5 5-5 5",
  check: "M5 12l5 5L19 7",
  cross: "M6 6l12 12M18 6L6 18",
  warn: "M12 4l9 16H3zM12 10v4M12 17h.01",
  clock: "M12 4a8 8 0 1 0 0 16 8 8 0 0 0 0-16zM12 8v4l3 2",
  tool: "M14.5 6a4 4 0 0 0-5 5L4 16.5 7.5 20l5.5-5.5a4 4 0 0 0 5-5L15 12l-3-3z",
  brain:
    "M12 5a3 3 0 0 0-6 1 3.5 3.5 0 0 0-1 6 3.5 3.5 0 0 0 2 6 3 3 0 0 0 5 0zM12 5a3 3 0 0 1 6 1 3.5 3.5 0 0 1 1 6 3.5 3.5 0 0 1-2 6 3 3 0 0 1-5 0z",
  question: "M9 9a3 3 0 1 1 4 2.8c-.7.3-1 .8-1 1.7M12 17h.01M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18z",
  person: "M12 4a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM5 20c0-4 3-6 7-6s7 2 7 6",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 3v1M12 20v1M3 12h1M20 12h1M5.6 5.6l.8.8M17.6 17.6l.8.8M5.6 18.4l.8-.8M17.6 6.4l.8-.8",
  moon: "M20 14A8 8 0 0 1 10 4a8 8 0 1 0 10 10z",
  out: "M14 5H5v14h9M10 12h10M16 8l4 4-4 4",
  refresh: "M20 12a8 8 0 1 1-2.3-5.6M20 4v5h-5",
  left: "M15 5l-7 7 7 7",
  right: "M9 5l7 7-7 7",
  down: "M5 9l7 7 7-7",
  up: "M5 15l7-7 7 7",
  tag: "M4 4h7l9 9-7 7-9-9zM8 8h.01",
  up_thumb: "M7 11v9H4v-9zM7 11l4-7c2 0 2.5 1.5 2 3l-.7 3H19l-1.5 8.5a2 2 0 0 1-2 1.5H7",
  down_thumb: "M17 13V4h3v9zM17 13l-4 7c-2 0-2.500-1.500-2-3l.7-3H5l1.500-8.500a2 2 0 0 1 2-1.500H17",
  upload: "M12 20V9M7 14l5-5 5 5M5 4h14",
};

/** A drawing that readers skip; `label` gives it a name. `name` may also be the path of a drawing. */
export function Icon({ name, size = 18, label }) {
  return html`<svg
    class="icon"
    width=${size}
    height=${size}
    viewBox="0 0 24 24"
    fill="none"
    stroke="currentColor"
    stroke-width="1.8"
    stroke-linecap="round"
    stroke-linejoin="round"
    role=${label ? "img" : undefined}
    aria-label=${label}
    aria-hidden=${label ? undefined : "true"}
    focusable="false"
  >
    <path d=${drawings[name] ?? (name.startsWith("M") ? name : drawings.more)} />
  </svg>`;
}
