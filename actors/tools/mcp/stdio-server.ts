import type { Logger } from "pino";
import type { Env } from "../../../bus/env.ts";
import type { Processes } from "../../../governance/processes/processes.ts";
import type { McpServer } from "../../../manifests/sections/mcp-servers.ts";
import { StdioTransport } from "./stdio-transport.ts";

/** Starts of a server in one window of time. A server that keeps ending is not started more often. */
const startsMax = 5;
const startsMs = 60_000;

/** Whose server it is, and its environment without references to secrets. */
interface StdioOwner {
  readonly env: Readonly<Record<string, string>>;
  readonly tenantId: string;
  readonly manifest: string;
}

interface StdioDeps {
  readonly processes: Pick<Processes, "start">;
  readonly clock: Pick<Env, "monotonic">;
  readonly log: Pick<Logger, "warn">;
}

/** An MCP server that is a process of this host. Its process starts with the first use, and again with the first use after its end. */
export class StdioServer {
  readonly #server: McpServer;
  readonly #owner: StdioOwner;
  readonly #deps: StdioDeps;
  #starts: number[] = [];
  /** Why the last process has ended. Continues a sentence after the name of the server; null while one runs. */
  ended: string | null = null;

  constructor(server: McpServer, owner: StdioOwner, deps: StdioDeps) {
    this.#server = server;
    this.#owner = owner;
    this.#deps = deps;
  }

  /** True if the server was not started for a while. */
  get isQuiet(): boolean {
    return this.#recentStarts().length === 0;
  }

  /** Returns a transport that starts the process. Throws if it was started too often. */
  async open(): Promise<StdioTransport> {
    const { processes, clock, log } = this.#deps;
    const { env, tenantId, manifest } = this.#owner;
    const { command, args, cwd, name } = this.#server;
    if (this.#recentStarts().length >= startsMax) throw new Error("the server has ended too often");
    this.#starts.push(clock.monotonic());
    this.ended = null;
    return new StdioTransport(
      (onOutput) =>
        processes.start({
          argv: [command ?? "", ...args],
          ...{ env, folder: null, tenantId, onOutput },
          ...(cwd !== null && { cwd }),
        }),
      clock,
      ({ why, stderr }) => {
        this.ended = why;
        log.warn({ tenant_id: tenantId, manifest, server: name, why, stderr }, "an MCP server has ended");
      },
    );
  }

  #recentStarts(): number[] {
    const since = this.#deps.clock.monotonic() - startsMs;
    this.#starts = this.#starts.filter((at) => at > since);
    return this.#starts;
  }
}
