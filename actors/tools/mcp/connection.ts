import type { Client } from "@modelcontextprotocol/client";
import type { Env, Timer } from "../../../bus/env.ts";
import { hopsMeta } from "../../../bus/protocol/hops.ts";
import type { ToolContext, ToolResult } from "../tool.ts";
import { limitInbound, type McpTransport } from "./inbound-limits.ts";
import { type Instructions, type ListedTool, readInstructions, readListed } from "./listed-tool.ts";
import { readResult } from "./result.ts";

/** Time to connect and to list the tools: less than a source of tools has to open, so that a silent server holds back no other. */
const listMs = 9_000;
const pagesMax = 20;
const toolsMax = 1_000;
/** Tools with longer names are left out. */
const nameCharsMax = 128;
/** Characters of all schemas of a server. */
const schemaCharsMax = 4 * 1024 * 1024;
const callMs = 30_000;
/** Bytes of the arguments of one call. */
const argumentsBytesMax = 1024 * 1024;
/** Notifications about a changed list count at most once in this time. */
const changedMs = 1_000;

/** The server of a connection. */
export interface McpEndpoint {
  /** Its name in the manifest. */
  readonly name: string;
  /** The version of svc. */
  readonly version: string;
  /** Opens a transport. */
  open(): Promise<McpTransport>;
}

/** One connection to an MCP server, which all runs of a tenant share. It connects again after it was lost. */
export class McpConnection {
  readonly #endpoint: McpEndpoint;
  readonly #env: Env;
  readonly #listeners = new Set<() => void>();
  #client: Promise<Client> | null = null;
  /** The client of that promise and its transport, from before they connect. */
  #live: { readonly client: Client; readonly transport: McpTransport } | null = null;
  #listed: Promise<readonly ListedTool[]> | null = null;
  #changing: Timer | null = null;

  constructor(endpoint: McpEndpoint, env: Env) {
    this.#endpoint = endpoint;
    this.#env = env;
  }

  /** The tools of the server, at most 1,000. The list is kept until the server reports a change or the connection is lost. */
  tools(): Promise<readonly ListedTool[]> {
    if (this.#listed !== null) return this.#listed;
    const listed = this.#inTime(this.#list());
    this.#listed = listed;
    listed.catch(() => {
      if (this.#listed === listed) void this.close();
    });
    return listed;
  }

  /** The server's instructions for its tools; null if it has none. */
  async instructions(): Promise<Instructions | null> {
    return readInstructions((await this.#connected()).getInstructions());
  }

  /** Calls back, once a second at most, when the list has become stale. Returns a function that ends this. */
  onChange(work: () => void): () => void {
    this.#listeners.add(work);
    return () => void this.#listeners.delete(work);
  }

  /** Calls a tool; `masked` hides the credential in what the server answers. An abort reaches the server. Throws if the server does not answer. */
  async call(
    name: string,
    args: Readonly<Record<string, unknown>>,
    timeoutMs: number | null,
    { signal, key, hops, progress }: Pick<ToolContext, "signal" | "key" | "hops" | "progress">,
    masked: (text: string) => string,
  ): Promise<ToolResult> {
    if (Buffer.byteLength(JSON.stringify(args)) > argumentsBytesMax)
      return { text: `the arguments are longer than ${argumentsBytesMax} bytes`, error: "invalid_arguments" };
    const client = await this.#connected();
    const timeout = timeoutMs ?? callMs;
    const result = await client.callTool(
      // The key is a digest: a server that knows the field runs a repeated call once (decision 15).
      { name, arguments: args, _meta: { "svc/idempotency-key": key, [hopsMeta]: hops + 1 } },
      {
        signal,
        timeout,
        maxTotalTimeout: timeout,
        onprogress: ({ progress: done, total, message }) =>
          progress({
            done,
            ...(total !== undefined && { total }),
            ...(message !== undefined && { message: masked(message).slice(0, 500) }),
          }),
      },
    );
    return readResult(result, `mcp:${this.#endpoint.name}`, masked);
  }

  /** Makes the users of the connection treat its list as stale. */
  expire(): void {
    this.#announce();
  }

  /** Ends the connection; a later use connects again. */
  async close(): Promise<void> {
    const live = this.#live;
    this.#reset();
    // A transport that is still connecting is not closed by its client.
    await Promise.allSettled([live?.client.close(), live?.transport.close()]);
  }

  #reset(): void {
    this.#client = null;
    this.#live = null;
    this.#listed = null;
    this.#changing?.cancel();
    this.#changing = null;
  }

  #connected(): Promise<Client> {
    if (this.#client !== null) return this.#client;
    const client = this.#connect();
    this.#client = client;
    client.catch(() => {
      if (this.#client === client) this.#reset();
    });
    return client;
  }

  async #connect(): Promise<Client> {
    const { Client } = await import("@modelcontextprotocol/client");
    const transport = limitInbound(await this.#endpoint.open(), this.#env);
    const client = new Client(
      { name: "svc", version: this.#endpoint.version },
      {
        // No sampling, elicitation or roots: a server must not ask the operator's models or files (decision 109).
        capabilities: {},
        versionNegotiation: { mode: "auto" },
        inputRequired: { autoFulfill: false },
        listMaxPages: pagesMax,
        // svc checks arguments and reads results itself.
        jsonSchemaValidator: {
          getValidator: () => (value: unknown) => ({ valid: true, data: value as never, errorMessage: undefined }),
        },
        listChanged: { tools: { autoRefresh: false, debounceMs: 0, onChanged: () => this.#changed() } },
      },
    );
    client.onclose = () => {
      // A client that closes late must not drop its successor.
      if (this.#live !== live) return;
      this.#reset();
      this.#announce();
    };
    const live = { client, transport };
    this.#live = live;
    await client.connect(transport, { timeout: listMs });
    return client;
  }

  async #list(): Promise<readonly ListedTool[]> {
    const client = await this.#connected();
    if (client.getServerCapabilities()?.tools === undefined) return [];
    const { tools } = await client.listTools(undefined, { timeout: listMs, cacheMode: "bypass" });
    const names = new Set<string>();
    let chars = 0;
    return tools.slice(0, toolsMax).flatMap((tool) => {
      if (names.has(tool.name) || tool.name.length > nameCharsMax) return [];
      names.add(tool.name);
      const listed = readListed(tool);
      chars += JSON.stringify(listed.parameters).length;
      return chars > schemaCharsMax ? [] : [listed];
    });
  }

  #inTime<T>(work: Promise<T>): Promise<T> {
    const { promise, reject } = Promise.withResolvers<never>();
    const timer = this.#env.timer(listMs, () => reject(new Error("no answer in time")));
    return Promise.race([work, promise]).finally(() => timer.cancel());
  }

  #changed(): void {
    this.#changing ??= this.#env.timer(changedMs, () => {
      this.#changing = null;
      this.#listed = null;
      this.#announce();
    });
  }

  #announce(): void {
    for (const work of [...this.#listeners]) work();
  }
}
