import type { Address } from "../../bus/address.ts";
import type { ErrorCode } from "../../bus/errors.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import { Type } from "../../bus/type.ts";
import { json } from "../exchange/reply.ts";
import { actorFails, type Route, route } from "../route.ts";
import { OpenObject } from "../schemas/common.ts";
import { manifestsTag as tag } from "../tags.ts";

const digest = "3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855e";
const fails: readonly ErrorCode[] = ["unknown_manifest", "invalid_manifest", "not_found", "conflict", ...actorFails];
const NameParams = Type.Object({
  name: Type.String({ description: "The manifest's metadata.name.", examples: ["helper"] }),
});

const State = Type.Union([Type.Literal("pinned"), Type.Literal("new"), Type.Literal("changed")], {
  description: "Only what is pinned is used; the rest waits for approval.",
});
const Server = Type.Object({
  server: Type.String({ description: "Its name in spec.mcp_servers.", examples: ["search"] }),
  available: Type.Boolean({ description: "False if the server does not answer; then it has no tools." }),
  tools: Type.Array(
    Type.Object({
      name: Type.String({ description: "The name at the server.", examples: ["find"] }),
      bound_name: Type.String({ description: "The name under which the model calls it.", examples: ["search__find"] }),
      description: Type.String({ examples: ["Finds pages by words."] }),
      parameters: OpenObject,
      digest: Type.String({ description: "Of the tool as it is now; an approval repeats it.", examples: [digest] }),
      state: State,
    }),
  ),
  instructions: Type.Union(
    [
      Type.Object({
        text: Type.String({ examples: ["Search before you fetch."] }),
        digest: Type.String({ examples: [digest] }),
        state: State,
      }),
      Type.Null(),
    ],
    {
      description:
        "The server's instructions, if the manifest has use_instructions; null for none. An approval of all tools approves them too.",
    },
  ),
  removed: Type.Array(Type.String(), {
    description: "Approved tools that the server no longer lists.",
    examples: [[]],
  }),
});
const Servers = {
  description: "The MCP servers of the manifest.",
  schema: Type.Object({ servers: Type.Array(Server) }),
};

const list = route({
  method: "GET",
  path: "/manifests/{name}/tools",
  summary: "The tools of the manifest's MCP servers, and which of them wait for approval.",
  tag,
  access: ["manifests:read"],
  tenancy: [{ of: "manifest" }],
  params: NameParams,
  reply: Servers,
  fails,
  handle: async ({ params, principal }, { bus }) =>
    json(await bus.ask(manifestsOf(principal), "tools", params, { deadlineMs })),
});

const approve = route({
  method: "POST",
  path: "/manifests/{name}/tools/approve",
  summary: "Approves tools of an MCP server.",
  tag,
  access: ["manifests:write"],
  tenancy: [{ of: "manifest", body: () => ({ server: "search" }) }],
  params: NameParams,
  body: Type.Object(
    {
      server: Type.String({ minLength: 1, maxLength: 128, examples: ["search"] }),
      tools: Type.Optional(
        Type.Array(
          Type.Object(
            {
              name: Type.String({ minLength: 1, maxLength: 128, description: "The name at the server." }),
              digest: Type.String({ minLength: 1, maxLength: 64, description: "As it was read." }),
            },
            { additionalProperties: false },
          ),
          {
            maxItems: 1000,
            description: "The tools as they were read; absent for all of the server as they are now.",
            examples: [[{ name: "find", digest }]],
          },
        ),
      ),
    },
    { additionalProperties: false },
  ),
  reply: Servers,
  fails: [...fails, "storage_quota_exceeded"],
  async handle({ params, body, principal }, { bus }) {
    const { server, tools = null } = body;
    const ask = { name: params.name, server, tools, principal };
    return json(await bus.ask(manifestsOf(principal), "approveTools", ask, { deadlineMs }));
  },
});

/** Routes of the tools that manifests get from MCP servers. */
export const manifestToolRoutes: readonly Route[] = [list, approve];

/** Servers have nine seconds to answer, twice for an approval. */
const deadlineMs = 30_000;

function manifestsOf({ tenant_id }: Principal): Address<"manifests"> {
  return { kind: "manifests", key: tenant_id };
}
