import type { Logger } from "pino";
import type { Env } from "../../../bus/env.ts";
import type { AuditLog } from "../../../governance/audit.ts";
import { auditedRules } from "../../../governance/egress/audited-rules.ts";
import { type Outgoing, type OutgoingRules, placeOf } from "../../../governance/egress/outgoing.ts";
import { fetchWith } from "../../../governance/egress/sdk-fetch.ts";
import type { Metrics } from "../../../governance/metrics.ts";
import type { Processes } from "../../../governance/processes/processes.ts";
import type { Secrets } from "../../../governance/secret-mask.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import type { McpServer } from "../../../manifests/sections/mcp-servers.ts";
import { McpConnection, type McpEndpoint } from "./connection.ts";
import { StdioServer } from "./stdio-server.ts";
import { openHttpTransport } from "./transport.ts";

/** Connections of a tenant and of the process (decision 109), and how many of them each thread may open in any case. */
const limits = {
  remote: { tenant: { all: 16, each: 8 }, process: { all: 128, each: 32 } },
  // Decision 110.
  stdio: { tenant: { all: 8, each: 2 }, process: { all: 32, each: 8 } },
} as const;

/** Services for connections to MCP servers. */
export interface McpDeps {
  readonly env: Env;
  readonly outgoing: Pick<Outgoing, "send">;
  readonly processes: Pick<Processes, "start">;
  readonly secrets: Pick<Secrets, "resolve">;
  readonly audit: Pick<AuditLog, "record">;
  readonly metrics: Pick<Metrics, "count">;
  readonly log: Pick<Logger, "warn">;
  /** Number of actor threads, which share the limits. */
  readonly threads: number;
  readonly version: string;
}

/** The agent whose manifest names a server. */
type McpAgent = Pick<CompiledAgent, "name" | "digest">;

/** A connection until its user releases it. */
export interface HeldConnection {
  readonly connection: McpConnection;
  /** The secrets that the server gets; answers may repeat them. */
  readonly secrets: readonly string[];
  /** Why a server that is a process has ended. Continues a sentence after its name; null if it has not. */
  ended(): string | null;
  /** Tells whether its user needs the connection now. An idle one gives way to another one at the limit. */
  idle(isIdle: boolean): void;
  release(): void;
}

interface Shared {
  readonly connection: McpConnection;
  readonly kind: keyof typeof limits;
  readonly tenantId: string;
  readonly ended: () => string | null;
  users: number;
  idleUsers: number;
}

/** What identifies a connection, and how to open it. */
interface Place {
  readonly key: string;
  readonly secrets: readonly string[];
  readonly ended?: () => string | null;
  endpoint(): McpEndpoint;
}

/** The connections of one thread to MCP servers, by tenant, server and credential. Tenants never share one. */
export class McpConnections {
  readonly #deps: McpDeps;
  readonly #shared = new Map<string, Shared>();
  /** Servers that are processes, by the key of their connection: their failures outlive the connection. */
  readonly #stdio = new Map<string, StdioServer>();

  constructor(deps: McpDeps) {
    this.#deps = deps;
  }

  /** Returns the connection for a server of an agent. Throws if the tenant or the process has too many. */
  async hold(server: McpServer, agent: McpAgent, tenantId: string): Promise<HeldConnection> {
    const place = await (server.transport === "stdio"
      ? this.#stdioPlace(server, agent, tenantId)
      : this.#remotePlace(server, agent, tenantId));
    const { key, secrets } = place;
    const shared = this.#shared.get(key) ?? this.#open(place, server, tenantId);
    shared.users++;
    let isHeld = true;
    let wasIdle = false;
    const idle = (isIdle: boolean): void => {
      if (isIdle !== wasIdle) shared.idleUsers += isIdle ? 1 : -1;
      wasIdle = isIdle;
    };
    return {
      connection: shared.connection,
      secrets,
      ended: shared.ended,
      idle,
      release: () => {
        if (!isHeld) return;
        isHeld = false;
        idle(false);
        shared.users--;
        if (shared.users > 0) return;
        if (this.#shared.get(key) === shared) this.#shared.delete(key);
        void shared.connection.close();
      },
    };
  }

  /** Audits that an agent above a sub-agent does not admit the host of its server. */
  refuse(server: McpServer, agent: McpAgent, tenantId: string): void {
    const { onEvent } = this.#rules(server, agent, tenantId);
    const url = URL.parse(server.url ?? "");
    if (url !== null) onEvent({ status: "blocked", ...placeOf(url), reason: "host" });
  }

  /** Closes all connections. */
  close(): void {
    for (const { connection } of this.#shared.values()) void connection.close();
    this.#shared.clear();
  }

  #open({ key, ended = () => null, endpoint }: Place, { transport }: McpServer, tenantId: string): Shared {
    const { env, threads } = this.#deps;
    const kind = transport === "stdio" ? "stdio" : "remote";
    const most = limits[kind];
    const what = kind === "stdio" ? "MCP servers that are processes" : "connections to MCP servers";
    const ofKind = () => [...this.#shared.values()].filter((one) => one.kind === kind);
    const ofTenant = () => ofKind().filter((one) => one.tenantId === tenantId);
    if (!hasRoom(ofTenant, share(most.tenant, threads))) throw new Error(`the tenant has too many ${what}`);
    if (!hasRoom(ofKind, share(most.process, threads))) throw new Error(`there are too many ${what}`);
    const connection = new McpConnection(endpoint(), env);
    const shared: Shared = { connection, kind, tenantId, ended, users: 0, idleUsers: 0 };
    this.#shared.set(key, shared);
    return shared;
  }

  async #remotePlace(server: McpServer, agent: McpAgent, tenantId: string): Promise<Place> {
    const { outgoing, secrets, version } = this.#deps;
    const secret = server.auth === null ? null : await secrets.resolve(server.auth);
    const authorization = secret === null ? null : secret.includes(" ") ? secret : `Bearer ${secret}`;
    return {
      key: JSON.stringify([tenantId, server.transport, server.url, authorization]),
      secrets: secret === null ? [] : [secret],
      endpoint: () => {
        const send = fetchWith(outgoing, this.#rules(server, agent, tenantId));
        return {
          name: server.name,
          version,
          open: () => openHttpTransport(server, authorization, send, this.#deps.env),
        };
      },
    };
  }

  /** Decision 110: agents share no process. */
  async #stdioPlace(server: McpServer, agent: McpAgent, tenantId: string): Promise<Place> {
    const { env: clock, log, processes, version } = this.#deps;
    const env: Record<string, string> = {};
    const secrets: string[] = [];
    for (const [name, value] of Object.entries(server.env)) {
      const resolved = await this.#deps.secrets.resolve(value);
      env[name] = resolved;
      if (resolved !== value) secrets.push(resolved);
    }
    const key = JSON.stringify([tenantId, "stdio", agent.name, agent.digest, server.name, env]);
    const known = this.#stdio.get(key);
    const stdio = known ?? new StdioServer(server, { env, tenantId, manifest: agent.name }, { processes, clock, log });
    return {
      key,
      secrets,
      ended: () => stdio.ended,
      endpoint: () => {
        for (const [other, { isQuiet }] of this.#stdio)
          if (isQuiet && !this.#shared.has(other)) this.#stdio.delete(other);
        this.#stdio.set(key, stdio);
        return { name: server.name, version, open: () => stdio.open() };
      },
    };
  }

  /** Returns the rules of a connection: public addresses. */
  #rules(server: McpServer, { name: manifest_id }: McpAgent, tenantId: string): OutgoingRules {
    const { audit, metrics } = this.#deps;
    return auditedRules(
      { tenantId, policy: "public", allowHosts: [], credentials: [] },
      {
        count: (metric, labels) => metrics.count(metric, { ...labels, manifest_id }),
        audit: (status, event) =>
          audit.record(tenantId, {
            ...{ event_type: "egress", status, manifest_id, principal_subj: "" },
            payload: { ...event, server: server.name },
          }),
      },
    );
  }
}

/** True if there are fewer connections than `max`; closes the oldest idle one if there are not. */
function hasRoom(connections: () => readonly Shared[], max: number): boolean {
  if (connections().length < max) return true;
  const idle = connections().find(({ users, idleUsers }) => users > 0 && users === idleUsers);
  idle?.connection.expire();
  return connections().length < max;
}

function share({ all, each }: { readonly all: number; readonly each: number }, threads: number): number {
  return Math.max(each, Math.floor(all / threads));
}
