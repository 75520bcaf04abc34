import { added } from "./added.js";

// The screens in the order of the navigation. A screen appears when the server has its route, and is dimmed where the caller's scopes do not
// allow it. `isHidden` keeps a screen that other screens lead to out of the navigation.

/** @type {{name: string, title: string, icon: string, route: string, isHidden?: boolean, load: () => Promise<object>}[]} */
export const screens = [
  { name: "chat", title: "Chat", icon: "chat", route: "POST /chat/stream", load: () => import("./chat/chat.js") },
  { name: "inbox", title: "Inbox", icon: "inbox", route: "GET /approvals", load: () => import("./inbox/inbox.js") },
  {
    name: "threads",
    title: "Threads",
    icon: "threads",
    route: "GET /chat/sessions",
    load: () => import("./threads/threads.js"),
  },
  { name: "runs", title: "Runs", icon: "runs", route: "GET /runs", load: () => import("./runs/runs.js") },
  {
    name: "run",
    title: "Run",
    icon: "run",
    route: "GET /runs/{run_id}",
    isHidden: true,
    load: () => import("./run/run.js"),
  },
  {
    name: "workflows",
    title: "Workflows",
    icon: "workflows",
    route: "GET /workflows",
    load: () => import("./workflows/workflows.js"),
  },
  {
    name: "agents",
    title: "Agents",
    icon: "agents",
    route: "GET /manifests",
    load: () => import("./agents/agents.js"),
  },
  {
    name: "knowledge",
    title: "Knowledge",
    icon: "knowledge",
    route: "GET /documents",
    load: () => import("./knowledge/knowledge.js"),
  },
  {
    name: "skills",
    title: "Skills",
    icon: "skills",
    route: "GET /skill-library",
    load: () => import("./skills/skills.js"),
  },
  {
    name: "quality",
    title: "Quality",
    icon: "quality",
    route: "GET /eval/datasets",
    load: () => import("./quality/quality.js"),
  },
  { name: "usage", title: "Usage", icon: "usage", route: "GET /usage/summary", load: () => import("./usage/usage.js") },
  { name: "audit", title: "Audit", icon: "audit", route: "GET /audit", load: () => import("./audit/audit.js") },
  { name: "health", title: "Health", icon: "health", route: "GET /ready", load: () => import("./health/health.js") },
  ...added,
];
