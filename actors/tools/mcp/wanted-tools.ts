import { matchGlob } from "../../../manifests/glob.ts";
import type { McpServer } from "../../../manifests/sections/mcp-servers.ts";
import type { McpConnection } from "./connection.ts";
import type { Instructions, ListedTool } from "./listed-tool.ts";

/** Returns the tools that a server lists and that the manifest wants. Throws if the server does not answer in time. */
export async function wantedTools(
  { tools: globs }: Pick<McpServer, "tools">,
  connection: Pick<McpConnection, "tools">,
): Promise<readonly ListedTool[]> {
  const listed = await connection.tools();
  return globs.length === 0 ? listed : listed.filter(({ name }) => globs.some((glob) => matchGlob(glob, name)));
}

/** Returns the instructions that a server gives and that the manifest wants; null for none. */
export async function wantedInstructions(
  { use_instructions }: Pick<McpServer, "use_instructions">,
  connection: Pick<McpConnection, "instructions">,
): Promise<Instructions | null> {
  return use_instructions ? connection.instructions() : null;
}

/** Returns the instructions as they are pinned: tools always have a name. */
export function pinnedAs(instructions: Instructions | null): readonly Pick<ListedTool, "name" | "digest">[] {
  return instructions === null ? [] : [{ name: instructionsPin, digest: instructions.digest }];
}

/** The name of the pin of a server's instructions. */
export const instructionsPin = "";
