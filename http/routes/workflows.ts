import { runAddress, workflowsAddress } from "../../bus/address.ts";
import { SvcError } from "../../bus/errors.ts";
import { fromJsonText, toJsonText } from "../../bus/protocol/json-text.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import { Type } from "../../bus/type.ts";
import { isWorkflowId } from "../../governance/workflows/definition.ts";
import {
  anyWorkflow,
  liveWorkflow,
  type WorkflowRow,
  workflowRevision,
  workflowsPage,
} from "../../storage/tables/workflows.ts";
import type { HttpContext } from "../context.ts";
import { type JsonReply, json, jsonText } from "../exchange/reply.ts";
import { actorFails, route } from "../route.ts";
import { nullable, OpenObject } from "../schemas/common.ts";
import { Definition, definitionExample, ListedWorkflow, Workflow } from "../schemas/workflows.ts";
import { workflowsTag as tag } from "../tags.ts";
import { etagOf, readIfMatch } from "../workflows/if-match.ts";

/** Scopes of the routes that read. */
export const readScopes = ["workflows:read"];
/** Scopes of the routes that save, start and cancel. */
export const writeScopes = ["workflows:write"];

export const WorkflowParams = Type.Object({
  workflow_id: Type.String({ description: "1 to 64 of a-z, 0-9, _ and -.", examples: ["greeting"] }),
});
const IfMatchHeader = Type.Object({
  "If-Match": Type.Optional(Type.String({ description: 'A revision in quotes, such as `"3"`; `*` for any.' })),
});

const Port = Type.Object({
  name: Type.String({ examples: ["text"] }),
  type: Type.Enum(["text", "number", "boolean", "list", "object", "any"], { examples: ["text"] }),
  required: Type.Boolean({ examples: [true] }),
});
const Problem = Type.Object({
  step_id: Type.String({ description: "Empty for the workflow itself.", examples: ["greet"] }),
  path: Type.String({ examples: ["steps.0.config.text"] }),
  code: Type.String({ examples: ["unknown_port"] }),
  message: Type.String({ examples: ["the step a has no output txt; it has text"] }),
  severity: Type.Enum(["error", "warning"], { examples: ["error"] }),
});

const listWorkflows = route({
  method: "GET",
  path: "/workflows",
  summary: "The tenant's workflows, most recently saved first, without their definitions.",
  tag,
  access: readScopes,
  query: Type.Object({
    limit: Type.Integer({ minimum: 1, maximum: 200, default: 50, description: "Workflows per page." }),
    cursor: Type.Optional(Type.String({ description: "`next_cursor` of the previous page." })),
  }),
  reply: {
    description: "next_cursor is set if there are more.",
    schema: Type.Object({
      items: Type.Array(ListedWorkflow),
      next_cursor: nullable(Type.String(), { examples: [null] }),
    }),
  },
  fails: ["invalid_cursor", "storage_unavailable"],
  async handle({ query: { limit, cursor = null }, principal }, { store, mask }) {
    const { rows, next_cursor } = await workflowsPage(
      store.tenant(principal.tenant_id),
      { state: "live" },
      cursor,
      limit,
    );
    return jsonText(mask.forms.jsonText(JSON.stringify({ items: rows.map(listed), next_cursor })));
  },
});

const checkWorkflow = route({
  method: "POST",
  path: "/workflows/-/check",
  summary: "Checks a definition without saving it.",
  tag,
  access: readScopes,
  body: Type.Object({ definition: Definition }, { additionalProperties: false }),
  reply: {
    description: "`ok` is false if a problem is an error. A warning does not prevent a save.",
    schema: Type.Object({
      ok: Type.Boolean({ examples: [true] }),
      ports: Type.Unsafe<Record<string, unknown>>({
        type: "object",
        additionalProperties: Type.Object({ inputs: Type.Array(Port), outputs: Type.Array(Port) }),
        description: "By step.",
        examples: [{ greet: { inputs: [], outputs: [{ name: "text", type: "text", required: true }] } }],
      }),
      problems: Type.Array(Problem, { examples: [[]] }),
    }),
  },
  fails: actorFails,
  async handle({ body: { definition }, principal }, { bus }) {
    const asked = { definition: toJsonText(definition), principal };
    const { ok, ports, problems } = await bus.ask(workflowsAddress(principal.tenant_id), "check", asked);
    return jsonText(`{"ok":${ok},"ports":${ports},"problems":${problems}}`);
  },
});

const listKinds = route({
  method: "GET",
  path: "/workflows/-/kinds",
  summary: "The kinds of steps, built in and of plugins.",
  tag,
  access: readScopes,
  reply: {
    description: "All of them.",
    schema: Type.Object({
      items: Type.Array(
        Type.Object({
          kind: Type.String({ examples: ["template"] }),
          source: Type.Enum(["builtin", "plugin"], { examples: ["builtin"] }),
          description: Type.String({ examples: ["Fills the references of a text."] }),
          config_schema: OpenObject,
          inputs: Type.Array(Port, { examples: [[]] }),
          outputs: Type.Array(Port),
          takes_any_input: Type.Boolean({ description: "True: a step may name any input.", examples: [true] }),
          in_map: Type.Boolean({ description: "True: a map may have it as the work of its items.", examples: [true] }),
        }),
      ),
    }),
  },
  fails: actorFails,
  async handle({ principal }, { bus }) {
    const { items } = await bus.ask(workflowsAddress(principal.tenant_id), "kinds", {});
    return jsonText(`{"items":${items}}`);
  },
});

const listTools = route({
  method: "GET",
  path: "/workflows/-/tools",
  summary: "The tools that a step of the kind tool_call can call with a manifest.",
  tag,
  access: readScopes,
  tenancy: [{ of: "manifest", query: (id) => `manifest=${id}` }],
  query: Type.Object({ manifest: Type.String({ minLength: 1, maxLength: 128, description: "Name of the manifest." }) }),
  reply: {
    description: "Tools that need a thread or a person are left out.",
    schema: Type.Object({
      manifest: Type.String({ examples: ["quick"] }),
      items: Type.Array(
        Type.Object({
          name: Type.String({ examples: ["calculator"] }),
          description: Type.String({ examples: ["Evaluates an arithmetic expression."] }),
          input_schema: OpenObject,
        }),
      ),
    }),
  },
  fails: ["unknown_manifest", "invalid_manifest", "auth_scheme_not_allowed", "missing_scopes", ...actorFails],
  async handle({ query: { manifest }, principal }, { bus, env }) {
    const { tools } = await bus.ask(runAddress(principal.tenant_id, null, env.id()), "tools", { principal, manifest });
    const items = fromJsonText(tools).map(({ name, description, inputSchema: input_schema }) => ({
      ...{ name, description, input_schema },
    }));
    return json({ manifest, items });
  },
});

const getWorkflow = route({
  method: "GET",
  path: "/workflows/{workflow_id}",
  summary: "One workflow with its definition.",
  tag,
  access: readScopes,
  tenancy: [{ of: "workflow" }],
  params: WorkflowParams,
  query: Type.Object({
    revision: Type.Optional(
      Type.Integer({ minimum: 1, description: "A revision that is stored, also of a deleted workflow." }),
    ),
  }),
  reply: { description: "The newest revision, or the one asked for. The ETag names it.", schema: Workflow },
  fails: ["not_found", "storage_unavailable"],
  handle: ({ params, query: { revision = null }, principal }, context) =>
    shown(principal, params.workflow_id, 200, context, revision),
});

const putWorkflow = route({
  method: "PUT",
  path: "/workflows/{workflow_id}",
  summary: "Creates or replaces a workflow as a whole.",
  tag,
  access: writeScopes,
  tenancy: [
    {
      of: "workflow",
      body: () => ({ name: "nobodys", definition: { steps: [{ id: "a", kind: "nobodys", config: {} }] } }),
    },
  ],
  params: WorkflowParams,
  headers: IfMatchHeader,
  body: Type.Object(
    {
      name: Type.String({ minLength: 1, maxLength: 200, examples: ["Greeting"] }),
      description: Type.String({ default: "", maxLength: 4_000, examples: ["Greets a person."] }),
      definition: Definition,
    },
    { additionalProperties: false, examples: [{ name: "Greeting", definition: definitionExample }] },
  ),
  reply: { description: "The replaced workflow.", schema: Workflow },
  otherReplies: [{ status: 201, description: "The new workflow.", schema: Workflow }],
  fails: [
    ...(["invalid_header", "workflow_invalid", "revision_mismatch", "too_many_workflows"] as const),
    ...(["storage_quota_exceeded", "conflict"] as const),
    ...actorFails,
  ],
  async handle({ params: { workflow_id: id }, body, principal, exchange }, context) {
    if (!isWorkflowId(id)) {
      const msg = "workflow_id is not 1 to 64 of a-z, 0-9, _ and -, or is -";
      throw new SvcError("invalid_request", { detail: [{ loc: ["path", "workflow_id"], msg, type: "value" }] });
    }
    const { name, description, definition } = body;
    const if_match = readIfMatch(exchange.head.headers["if-match"]);
    const { created } = await context.bus.ask(workflowsAddress(principal.tenant_id), "put", {
      ...{ id, name, description, if_match, principal },
      definition: toJsonText(definition),
    });
    return shown(principal, id, created ? 201 : 200, context);
  },
});

const deleteWorkflow = route({
  method: "DELETE",
  path: "/workflows/{workflow_id}",
  summary: "Deletes a workflow. Its runs go on.",
  tag,
  access: writeScopes,
  tenancy: [{ of: "workflow" }],
  params: WorkflowParams,
  headers: IfMatchHeader,
  reply: { description: "It is gone.", schema: Type.Object({ status: Type.Literal("deleted") }) },
  fails: ["invalid_header", "not_found", "revision_mismatch", "conflict", ...actorFails],
  async handle({ params: { workflow_id: id }, principal, exchange }, { bus }) {
    const if_match = readIfMatch(exchange.head.headers["if-match"]);
    await bus.ask(workflowsAddress(principal.tenant_id), "remove", { id, if_match, principal });
    return json({ status: "deleted" });
  },
});

async function shown(
  { tenant_id }: Principal,
  id: string,
  status: number,
  { store, mask }: HttpContext,
  wanted: number | null = null,
): Promise<JsonReply> {
  const tenant = store.tenant(tenant_id);
  const row = await (wanted === null ? liveWorkflow : anyWorkflow)(tenant, id);
  const found = row && (await workflowRevision(tenant, id, wanted ?? row.revision));
  if (row === undefined || found === undefined) throw new SvcError("not_found");
  const { revision, definition } = found;
  const head = JSON.stringify({ ...listed(row), revision }).slice(0, -1);
  return jsonText(mask.forms.jsonText(`${head},"definition":${definition}}`), status, { etag: etagOf(revision) });
}

function listed({ id, name, description, revision, created_at, ts, saved_by }: WorkflowRow) {
  return { workflow_id: id, name, description, revision, created_at, updated_at: ts, saved_by };
}

export const workflowRoutes = [
  listWorkflows,
  checkWorkflow,
  listKinds,
  listTools,
  getWorkflow,
  putWorkflow,
  deleteWorkflow,
];
