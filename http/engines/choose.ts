import type { Listen } from "./engine.ts";

/** The HTTP server: uWebSockets.js, or Node's own. */
export type EngineName = "uws" | "node";

/** An HTTP engine, with the reason for its choice as text for the log. */
export interface Engine {
  readonly name: EngineName;
  readonly why: string;
  readonly listen: Listen;
}

/**
 * Returns the wanted engine; `auto` is uWebSockets.js if its binary loads. Rejects with an error that names the setting if uWebSockets.js
 * is wanted and does not load.
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

/** Imported only when used, because node:http also loads Node's fetch. */
async function nodeEngine(why: string): Promise<Engine> {
  const { listenWithNode } = await import("./node.ts");
  return { name: "node", why, listen: listenWithNode };
}

/** Returns the loader's own error line. It follows a paragraph about other versions of Node. */
function reasonOf(error: unknown): string {
  return String(error).split("\n\n").at(-1)?.split("\n")[0] ?? "";
}
