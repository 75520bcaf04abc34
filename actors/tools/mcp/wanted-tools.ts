import { matchGlob } from "../../../manifests/glob.ts";
import type { McpServer } from "../../../manifests/sections/mcp-servers.ts";
import type { McpConnection } from "./connection.ts";
import type { ListedTool } from "./listed-tool.ts";

/** Returns the tools that a server lists and that the manifest wants. Throws if the server does not answer in time. */
export async function wantedTools(
  { tools: globs }: Pick<McpServer, "tools">,
  connection: Pick<McpConnection, "tools">,
): Promise<readonly ListedTool[]> {
  const listed = await connection.tools();
  return globs.length === 0 ? listed : listed.filter(({ name }) => globs.some((glob) => matchGlob(glob, name)));
}
