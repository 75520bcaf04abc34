import type { Listen } from "./engine.ts";

/** What speaks HTTP: uWebSockets.js, or Node's own server. */
export type EngineName = "uws" | "node";

/** An engine, and why it is this one, in words for people. */
export interface Engine {
  readonly name: EngineName;
  readonly why: string;
  readonly listen: Listen;
}

/**
 * The engine that is wanted; `auto` is uWebSockets.js where it has a binary. Rejects, naming the setting, where it has none and is
 * wanted.
 */
export async function chooseEngine(wanted: EngineName | "auto"): Promise<Engine> {
  if (wanted === "node") return nodeEngine("SVC_HTTP_ENGINE is node");
  try {
    const { listenWithUws } = await import("./uws.ts");
    const why =
      wanted === "uws" ? "SVC_HTTP_ENGINE is uws" : "uWebSockets.js has a binary for this system and this Node";
    return { name: "uws", why, listen: listenWithUws };
  } catch (error) {
    const lacking = `uWebSockets.js cannot be loaded here: ${reasonOf(error)}`;
    if (wanted === "uws") throw new Error(`SVC_HTTP_ENGINE is uws, and ${lacking}`, { cause: error });
    return nodeEngine(lacking);
  }
}

/** Loaded where it serves: with node:http comes Node's own fetch. */
async function nodeEngine(why: string): Promise<Engine> {
  const { listenWithNode } = await import("./node.ts");
  return { name: "node", why, listen: listenWithNode };
}

/** What the system has said, which stands behind a paragraph about other Nodes. */
function reasonOf(error: unknown): string {
  return String(error).split("\n\n").at(-1)?.split("\n")[0] ?? "";
}
