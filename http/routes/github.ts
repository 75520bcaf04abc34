import { SvcError } from "../../bus/errors.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import { Type } from "../../bus/type.ts";
import { accountOf, type ConnectedToken } from "../../governance/repos/connections.ts";
import { type ConnectionRow, connectionsOf } from "../../storage/tables/github-connections.ts";
import type { HttpContext } from "../context.ts";
import { json } from "../exchange/reply.ts";
import { repoRefusalReply } from "../repos/refusal.ts";
import { route } from "../route.ts";
import { EpochMs, nullable } from "../schemas/common.ts";
import type { Tag } from "../tags.ts";

const tag: Tag = {
  name: "Code host",
  description:
    "Accounts of the code host that people have connected by signing in, and the repositories that they can reach.",
};
const connectionsMax = 1_000;
/** Pages of installations and of repositories that one request reads; the rest is `truncated`. */
const pagesMax = 5;
const pageSize = 100;
const installationsMax = 20;

const Connection = Type.Object({
  github_user_id: Type.Integer({ examples: [1234567] }),
  github_login: Type.String({ examples: ["ann"] }),
  status: Type.Union([Type.Literal("active"), Type.Literal("revoked")], {
    description: "`revoked`: the code host no longer accepts the token; the person must sign in again.",
  }),
  created_at: EpochMs,
  updated_at: EpochMs,
  refresh_expires_at: nullable(Type.Integer({ description: "When the person must sign in again; null if never." })),
});

const own = route({
  method: "GET",
  path: "/github/connection",
  summary: "The caller's connection to the code host.",
  tag,
  access: "chat:read",
  refusal: repoRefusalReply,
  reply: {
    description: "Never a token.",
    schema: Type.Object({ connected: Type.Boolean({ examples: [true] }), connection: nullable(Connection) }),
  },
  fails: ["storage_unavailable"],
  async handle({ principal }, { connections }) {
    const row = await connections.of(principal);
    return json({ connected: row?.status === "active", connection: row === undefined ? null : viewOf(row) });
  },
});

const disconnect = route({
  method: "DELETE",
  path: "/github/connection",
  summary: "Removes the caller's connection and revokes its token.",
  tag,
  access: "chat:write",
  refusal: repoRefusalReply,
  reply: { status: 204, contentType: "", description: "There is no connection now." },
  fails: ["storage_unavailable"],
  async handle({ principal }, { connections }) {
    const id = accountOf(principal);
    if (id !== null) await connections.remove(principal.tenant_id, id, principal.sub);
    return { kind: "text", status: 204, contentType: "text/plain", body: "" };
  },
});

const list = route({
  method: "GET",
  path: "/github/connections",
  summary: "The connections of the tenant, by account.",
  tag,
  access: ["admin"],
  refusal: repoRefusalReply,
  reply: { description: `At most ${connectionsMax}.`, schema: Type.Object({ items: Type.Array(Connection) }) },
  fails: ["storage_unavailable"],
  async handle({ principal }, { store }) {
    const rows = await connectionsOf(store.tenant(principal.tenant_id), 0, connectionsMax);
    return json({ items: rows.map(viewOf) });
  },
});

const remove = route({
  method: "DELETE",
  path: "/github/connections/{github_user_id}",
  summary: "Removes a connection of the tenant and revokes its token.",
  tag,
  access: ["admin"],
  params: Type.Object({ github_user_id: Type.String({ pattern: "^[0-9]{1,15}$", examples: ["1234567"] }) }),
  refusal: repoRefusalReply,
  reply: { status: 204, contentType: "", description: "The connection is removed." },
  fails: ["not_found", "storage_unavailable"],
  async handle({ params, principal }, { connections }) {
    const removed = await connections.remove(principal.tenant_id, Number(params.github_user_id), principal.sub);
    if (!removed) throw new SvcError("not_found");
    return { kind: "text", status: 204, contentType: "text/plain", body: "" };
  },
});

const Installation = Type.Object({
  id: Type.Integer({ examples: [42] }),
  account: Type.String({ examples: ["acme"] }),
  account_type: Type.String({ examples: ["Organization"] }),
  repository_selection: Type.String({ examples: ["selected"] }),
});
const Repository = Type.Object({
  full_name: Type.String({ examples: ["acme/site"] }),
  private: Type.Boolean({ examples: [true] }),
  archived: Type.Boolean({ examples: [false] }),
  default_branch: Type.String({ examples: ["main"] }),
  can_write: Type.Boolean({ examples: [true] }),
  size_kb: Type.Integer({ examples: [120] }),
  installation_id: nullable(Type.Integer({ examples: [42] })),
});

const repos = route({
  method: "GET",
  path: "/github/repos",
  summary: "The repositories that the caller's connection can reach.",
  tag,
  access: "chat:read",
  refusal: repoRefusalReply,
  query: Type.Object({
    q: Type.String({ maxLength: 100, default: "", description: "Part of owner/name, in any case." }),
  }),
  reply: {
    description:
      "`install_url` is the page on which a person lets the app reach more; null without SVC_GITHUB_APP_SLUG. `truncated`: there are more.",
    schema: Type.Object({
      installations: Type.Array(Installation),
      repositories: Type.Array(Repository),
      truncated: Type.Boolean({ examples: [false] }),
      install_url: nullable(Type.String({ examples: ["https://github.com/apps/our-agent/installations/new"] })),
    }),
  },
  fails: ["github_not_connected", "github_connection_revoked", "github_unavailable", "storage_unavailable"],
  async handle({ query, principal }, context) {
    const connected = await context.connections.tokenOf(principal);
    if (connected === null) throw new SvcError("github_not_connected");
    const { githubAppSlug: slug, githubUrl } = context.settings;
    const found = await reachable(context, principal, connected, query.q.toLowerCase());
    return json({ ...found, install_url: slug === "" ? null : `${githubUrl}/apps/${slug}/installations/new` });
  },
});

interface HostRepo {
  readonly full_name?: unknown;
  readonly private?: unknown;
  readonly archived?: unknown;
  readonly default_branch?: unknown;
  readonly size?: unknown;
  readonly permissions?: { readonly push?: unknown };
}

/** Reads the installations of the app that the person can use, and their repositories. */
async function reachable(context: HttpContext, principal: Principal, connected: ConnectedToken, part: string) {
  const { token, version } = connected;
  let truncated = false;

  async function pages(path: string, key: string): Promise<Record<string, unknown>[]> {
    const all: Record<string, unknown>[] = [];
    for (let page = 1; page <= pagesMax; page++) {
      const { status, body } = await context.repoApi.ask({ path: `${path}?per_page=${pageSize}&page=${page}`, token });
      if (status === 401) throw await context.connections.refused(principal, version);
      if (status !== 200) throw new SvcError("github_unavailable");
      const items = Array.isArray(body[key]) ? (body[key] as Record<string, unknown>[]) : [];
      all.push(...items);
      if (items.length < pageSize) return all;
    }
    truncated = true;
    return all;
  }

  const installations = (await pages("/user/installations", "installations")).map(({ id, account, ...rest }) => ({
    id: Number(id),
    account: String((account as { login?: unknown } | null)?.login ?? ""),
    account_type: String((account as { type?: unknown } | null)?.type ?? ""),
    repository_selection: String(rest.repository_selection ?? ""),
  }));
  const repositories = [];
  for (const { id } of installations.slice(0, installationsMax))
    for (const repo of (await pages(`/user/installations/${id}/repositories`, "repositories")) as HostRepo[])
      if (String(repo.full_name).toLowerCase().includes(part))
        repositories.push({
          ...{ full_name: String(repo.full_name), private: repo.private === true, archived: repo.archived === true },
          ...{ default_branch: String(repo.default_branch ?? "main"), can_write: repo.permissions?.push === true },
          ...{ size_kb: Number(repo.size) || 0, installation_id: id },
        });
  return { installations, repositories, truncated: truncated || installations.length > installationsMax };
}

function viewOf({ github_user_id, github_login, status, created_at, updated_at, refresh_expires_at }: ConnectionRow) {
  return { github_user_id, github_login, status, created_at, updated_at, refresh_expires_at };
}

export const githubRoutes = [own, disconnect, list, remove, repos];
