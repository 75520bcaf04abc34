// The configuration files of docs/mcp.md reach a server, with its address in place of the documented one.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { apiKeys, startServer } from "../support/server.ts";
import { root } from "../support/source.ts";
import { cleanup } from "../support/temp.ts";

interface Entry {
  readonly url?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly args?: readonly string[];
}

/** The address and the headers of a server, from its own fields or from the arguments of `mcp-remote`. */
function endpointOf({ url, headers, args = [] }: Entry): { url: string; headers: Record<string, string> } {
  if (url !== undefined) return { url, headers: { ...headers } };
  const address = args.find((word) => word.startsWith("http://")) ?? "";
  const [name = "", value = ""] = (args[args.indexOf("--header") + 1] ?? "").split(/:\s*/);
  return { url: address, headers: { [name]: value } };
}

test("each configuration file of docs/mcp.md leads to the tools", async (t) => {
  const atEnd = cleanup(t);
  const { env, keys } = apiKeys({ caller: { scopes: ["chat:write"] } });
  const server = await startServer({ atEnd, env });
  const page = readFileSync(`${root}docs/mcp.md`, "utf8");
  const files = [...page.matchAll(/^```json\n(.*?)^```$/gms)];

  for (const [, code = ""] of files) {
    const { mcpServers, servers = mcpServers } = JSON.parse(code) as Record<string, { svc: Entry }>;
    const { url, headers } = endpointOf((servers as { svc: Entry }).svc);
    const client = new Client({ name: "test", version: "1.0.0" }, { versionNegotiation: { mode: "auto" } });
    const authorization = headers.Authorization?.replace("KEY", keys.caller) ?? "";
    const address = new URL(url.replace("http://127.0.0.1:8080", server.url));

    await client.connect(new StreamableHTTPClientTransport(address, { requestInit: { headers: { authorization } } }));
    const { tools } = await client.listTools();

    assert.deepEqual(
      tools.map(({ name }) => name),
      ["calculator", "chat"],
    );
    await client.close();
  }
  assert.equal(files.length, 3);
});
