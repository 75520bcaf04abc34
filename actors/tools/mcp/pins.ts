import type { Env } from "../../../bus/env.ts";
import type { McpServer } from "../../../manifests/sections/mcp-servers.ts";
import { requestMs, type TenantStore } from "../../../storage/store/store.ts";
import { firstMcpPinOp, mcpPins, putMcpPinOp } from "../../../storage/tables/mcp-pins.ts";
import type { ListedTool } from "./listed-tool.ts";

/** Whether a manifest may use a tool: `new` and `changed` ones wait for approval. */
export type PinState = "pinned" | "new" | "changed";

/** The tools of a server by their state, and those that were pinned and are gone. */
export interface PinnedTools {
  readonly states: ReadonlyMap<string, PinState>;
  readonly removed: readonly string[];
}

/**
 * Compares the tools of a server with the pins of a manifest. The first use pins all tools, unless the server waits for approval of
 * every tool.
 */
export async function comparePins(
  store: TenantStore,
  env: Pick<Env, "now">,
  manifest: string,
  server: Pick<McpServer, "name" | "pin">,
  listed: readonly ListedTool[],
): Promise<PinnedTools> {
  const pins = new Map((await mcpPins(store, manifest, server.name)).map(({ tool, digest }) => [tool, digest]));
  if (pins.size === 0 && server.pin === "first_use" && listed.length > 0) {
    const pinned_at = env.now();
    const ops = listed.map(({ name: tool, digest }) =>
      firstMcpPinOp(store, { manifest, server: server.name, tool, digest, pinned_at, pinned_by: "" }),
    );
    await store.write(ops, requestMs);
    // Another host may have been first, with another list.
    return compare(
      new Map((await mcpPins(store, manifest, server.name)).map(({ tool, digest }) => [tool, digest])),
      listed,
    );
  }
  return compare(pins, listed);
}

/** Approves tools of a server as they are now. */
export async function approveTools(
  store: TenantStore,
  env: Pick<Env, "now">,
  place: { readonly manifest: string; readonly server: string; readonly by: string },
  tools: readonly ListedTool[],
): Promise<void> {
  const { manifest, server, by: pinned_by } = place;
  const ops = tools.map(({ name: tool, digest }) =>
    putMcpPinOp(store, { manifest, server, tool, digest, pinned_at: env.now(), pinned_by }),
  );
  if (ops.length > 0) await store.write(ops, requestMs);
}

function compare(pins: ReadonlyMap<string, string>, listed: readonly ListedTool[]): PinnedTools {
  const states = new Map<string, PinState>();
  for (const { name, digest } of listed) {
    const pinned = pins.get(name);
    states.set(name, pinned === digest ? "pinned" : pinned === undefined ? "new" : "changed");
  }
  return { states, removed: [...pins.keys()].filter((name) => !states.has(name)) };
}
