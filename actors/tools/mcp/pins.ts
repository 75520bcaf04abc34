import type { Env } from "../../../bus/env.ts";
import { SvcError } from "../../../bus/errors.ts";
import type { McpServer } from "../../../manifests/sections/mcp-servers.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { mcpPins, writeMcpPins } from "../../../storage/tables/mcp-pins.ts";
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
  listed: readonly Pinned[],
  storedBytesMax: number,
): Promise<PinnedTools> {
  const pins = await pinsOf(store, manifest, server.name);
  if (pins.size > 0 || server.pin !== "first_use" || listed.length === 0) return compare(pins, listed);
  try {
    await pin(store, env, { manifest, server: server.name, by: "" }, pins, listed, storedBytesMax);
  } catch (error) {
    // Another host was first, with another list perhaps.
    if (!(error instanceof SvcError && error.code === "conflict")) throw error;
  }
  return compare(await pinsOf(store, manifest, server.name), listed);
}

/** Approves tools of a server as they are now. Refuses with storage_quota_exceeded, and with conflict if another person approves them too. */
export async function approveTools(
  store: TenantStore,
  env: Pick<Env, "now">,
  place: PinPlace,
  tools: readonly Pinned[],
  storedBytesMax: number,
): Promise<void> {
  await pin(store, env, place, await pinsOf(store, place.manifest, place.server), tools, storedBytesMax);
}

/** The server that has the tools, and the subject of who approves them. */
interface PinPlace {
  readonly manifest: string;
  readonly server: string;
  readonly by: string;
}

type Pinned = Pick<ListedTool, "name" | "digest">;

async function pin(
  store: TenantStore,
  env: Pick<Env, "now">,
  { manifest, server, by: pinned_by }: PinPlace,
  pins: ReadonlyMap<string, string>,
  tools: readonly Pinned[],
  storedBytesMax: number,
): Promise<void> {
  const pinned_at = env.now();
  const all = tools.map(({ name: tool, digest }) => ({ manifest, server, tool, digest, pinned_at, pinned_by }));
  const first = all.filter(({ tool }) => !pins.has(tool));
  const changed = all.filter(({ tool }) => pins.has(tool));
  await writeMcpPins(store, { first, changed }, storedBytesMax);
}

/** The digests of the pinned tools by name. */
async function pinsOf(store: TenantStore, manifest: string, server: string): Promise<ReadonlyMap<string, string>> {
  return new Map((await mcpPins(store, manifest, server)).map(({ tool, digest }) => [tool, digest]));
}

function compare(pins: ReadonlyMap<string, string>, listed: readonly Pinned[]): PinnedTools {
  const states = new Map<string, PinState>();
  for (const { name, digest } of listed) {
    const pinned = pins.get(name);
    states.set(name, pinned === digest ? "pinned" : pinned === undefined ? "new" : "changed");
  }
  return { states, removed: [...pins.keys()].filter((name) => !states.has(name)) };
}
