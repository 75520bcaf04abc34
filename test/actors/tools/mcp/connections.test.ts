// How many connections to MCP servers a tenant and a process have (decisions 109 and 110). None of them is opened here.
import assert from "node:assert/strict";
import { test } from "node:test";
import { McpConnections } from "../../../../actors/tools/mcp/connections.ts";
import { systemEnv } from "../../../../bus/env.ts";
import type { McpServer } from "../../../../manifests/sections/mcp-servers.ts";

const agent = { name: "agent", digest: "d" };
const server: McpServer = {
  ...{ name: "site", url: null, command: "run", args: [], cwd: null, env: {}, auth: null, transport: "stdio" },
  ...{ tools: [], pin: "first_use", timeout_ms: null, use_instructions: false },
};
const remote = (at: number): McpServer => ({ ...server, transport: "http", url: `http://site.example/${at}` });
const process = (at: number): McpServer => ({ ...server, name: `site-${at}` });

function connections(threads = 1): McpConnections {
  const unused = () => Promise.reject(new Error("no connection is opened"));
  return new McpConnections({
    ...{ env: systemEnv(), threads, version: "1" },
    ...{ outgoing: { send: unused }, processes: { start: unused }, secrets: { resolve: async (text) => text } },
    ...{ audit: { record: () => {} }, metrics: { count: () => {} }, log: { warn: () => {} } },
  });
}

for (const [what, make, ofTenant, ofProcess] of [
  ["connections to MCP servers", remote, 16, 128],
  ["MCP servers that are processes", process, 8, 32],
] as const)
  test(`a tenant has ${ofTenant} ${what}, and all tenants have ${ofProcess}`, async () => {
    const all = connections();
    const tenants = Array.from({ length: ofProcess / ofTenant }, (_, at) => `tenant-${at}`);
    for (const tenant of tenants) {
      for (let at = 0; at < ofTenant; at++) await all.hold(make(at), agent, tenant);
      await assert.rejects(all.hold(make(ofTenant), agent, tenant), new RegExp(`the tenant has too many ${what}`));
    }

    await assert.rejects(all.hold(make(0), agent, "late"), new RegExp(`there are too many ${what}`));
    await all.hold(make(0), agent, "tenant-0");
    all.close();
  });

test("an idle connection gives way to another one, and one that is used does not", async () => {
  const all = connections();
  const held = await Promise.all(Array.from({ length: 16 }, (_, at) => all.hold(remote(at), agent, "acme")));
  for (const one of held) one.connection.onChange(() => one.release());

  await assert.rejects(all.hold(remote(16), agent, "acme"));
  held[3]?.idle(true);
  await all.hold(remote(16), agent, "acme");

  await assert.rejects(all.hold(remote(3), agent, "acme"));
  all.close();
});

test("threads share the limits, and each has a few connections in any case", async () => {
  const all = connections(4);
  for (let at = 0; at < 8; at++) await all.hold(remote(at), agent, "acme");

  await assert.rejects(all.hold(remote(8), agent, "acme"), /the tenant has too many/);
  all.close();
});
