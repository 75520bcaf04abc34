import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import type { Answer, HttpClient } from "./http-client.ts";
import type { TestServer } from "./server.ts";
import type { Cleanup } from "./temp.ts";

// Clients of the MCP server: the official SDK on both generations of the protocol, and messages by hand.

/** A generation of the protocol, by the version that the SDK's client agrees on. */
export const generations = ["2026-07-28", "2025-11-25"] as const;
type Generation = (typeof generations)[number];

interface ConnectOptions {
  /** Default: the newer one. */
  readonly generation?: Generation;
  readonly path?: string;
  readonly key?: string;
}

/** Connects the SDK's client, which closes with the test. */
export async function connectMcp(
  atEnd: Cleanup,
  server: Pick<TestServer, "url">,
  { generation = "2026-07-28", path = "/mcp", key }: ConnectOptions = {},
): Promise<Client> {
  const mode = generation === "2026-07-28" ? "auto" : "legacy";
  const client = new Client({ name: "test", version: "1.0.0" }, { versionNegotiation: { mode } });
  const requestInit = key === undefined ? {} : { headers: { authorization: `Bearer ${key}` } };
  await client.connect(new StreamableHTTPClientTransport(new URL(`${server.url}${path}`), { requestInit }));
  atEnd.after(() => client.close());
  return client;
}

/** Headers of a client of the older generation. */
export const olderHeaders = { accept: "application/json, text/event-stream" };

/** Sends a message of the older generation by hand. */
export function sendRpc(
  server: HttpClient,
  method: string,
  params: object = {},
  {
    path = "/mcp",
    id = 1,
    ...options
  }: { path?: string; id?: unknown; key?: string; headers?: Record<string, string> } = {},
): Promise<Answer> {
  return server.request("POST", path, {
    headers: olderHeaders,
    ...options,
    body: { jsonrpc: "2.0", id, method, params },
  });
}

/** The last message of an answer, in either of its forms. */
// biome-ignore lint/suspicious/noExplicitAny: tests look into messages field by field, and a wrong guess fails the test
export function messageOf(answer: Answer): any {
  if (!answer.headers["content-type"]?.startsWith("text/event-stream")) return answer.json;
  const data = answer.text.split("\n").findLast((line) => line.startsWith("data: "));
  return JSON.parse(data?.slice("data: ".length) ?? "null");
}
