import type { Env } from "../../../bus/env.ts";
import type { AuditLog } from "../../../governance/audit.ts";
import type { Outgoing } from "../../../governance/egress/outgoing.ts";
import { fetchWith } from "../../../governance/egress/sdk-fetch.ts";
import type { Secrets } from "../../../governance/secret-mask.ts";
import type { McpServer } from "../../../manifests/sections/mcp-servers.ts";
import { McpConnection } from "./connection.ts";
import { openHttpTransport } from "./transport.ts";

/** Connections of a tenant and of the process (decision 109), and how many of them each thread may open in any case. */
const ofTenantMax = { all: 16, each: 8 };
const ofProcessMax = { all: 128, each: 32 };

/** Services for connections to MCP servers. */
export interface McpDeps {
  readonly env: Env;
  readonly outgoing: Pick<Outgoing, "send">;
  readonly secrets: Pick<Secrets, "resolve">;
  readonly audit: Pick<AuditLog, "record">;
  /** Number of actor threads, which share the limits. */
  readonly threads: number;
  readonly version: string;
}

/** A connection until its user releases it. */
export interface HeldConnection {
  readonly connection: McpConnection;
  /** The text that is sent as credential; answers may repeat it. Null for none. */
  readonly secret: string | null;
  release(): void;
}

interface Shared {
  readonly connection: McpConnection;
  readonly tenantId: string;
  users: number;
}

/** The connections of one thread to MCP servers, by tenant, address and credential. Tenants never share one. */
export class McpConnections {
  readonly #deps: McpDeps;
  readonly #shared = new Map<string, Shared>();

  constructor(deps: McpDeps) {
    this.#deps = deps;
  }

  /** Returns the connection for a server of an agent. Throws if the tenant or the process has too many. */
  async hold(server: McpServer, manifest: string, tenantId: string): Promise<HeldConnection> {
    const secret = server.auth === null ? null : await this.#deps.secrets.resolve(server.auth);
    const authorization = secret === null ? null : secret.includes(" ") ? secret : `Bearer ${secret}`;
    const key = JSON.stringify([tenantId, server.transport, server.url, authorization]);
    const shared = this.#shared.get(key) ?? this.#open(key, server, authorization, manifest, tenantId);
    shared.users++;
    let isHeld = true;
    return {
      connection: shared.connection,
      secret,
      release: () => {
        if (!isHeld) return;
        isHeld = false;
        shared.users--;
        if (shared.users > 0) return;
        this.#shared.delete(key);
        void shared.connection.close();
      },
    };
  }

  /** Closes all connections. */
  close(): void {
    for (const { connection } of this.#shared.values()) void connection.close();
    this.#shared.clear();
  }

  #open(key: string, server: McpServer, authorization: string | null, manifest: string, tenantId: string): Shared {
    const { env, outgoing, audit, threads, version } = this.#deps;
    const ofTenant = [...this.#shared.values()].filter((one) => one.tenantId === tenantId).length;
    if (ofTenant >= share(ofTenantMax, threads)) throw new Error("the tenant has too many connections to MCP servers");
    if (this.#shared.size >= share(ofProcessMax, threads))
      throw new Error("there are too many connections to MCP servers");
    const send = fetchWith(outgoing, {
      tenantId,
      policy: "public",
      allowHosts: [],
      credentials: [],
      onEvent: ({ status, ...event }) =>
        audit.record(tenantId, {
          event_type: "egress",
          status,
          manifest_id: manifest,
          principal_subj: "",
          payload: { ...event, server: server.name },
        }),
    });
    const connection = new McpConnection({ server, authorization, send, version }, openHttpTransport, env);
    const shared = { connection, tenantId, users: 0 };
    this.#shared.set(key, shared);
    return shared;
  }
}

function share({ all, each }: typeof ofTenantMax, threads: number): number {
  return Math.max(each, Math.floor(all / threads));
}
