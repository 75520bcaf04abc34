import { nodeAddress } from "../../bus/address.ts";
import { SvcError } from "../../bus/errors.ts";
import { Type } from "../../bus/type.ts";
import { auditOp } from "../../governance/audit.ts";
import { requestMs } from "../../storage/store/store.ts";
import { wakePutOffDurablesOp } from "../../storage/tables/durable-rows.ts";
import {
  deleteFreezeOp,
  type FreezeRow,
  type FreezeSelector,
  freezesMax,
  freezesOf,
  putFreezeOp,
} from "../../storage/tables/freezes.ts";
import type { HttpContext } from "../context.ts";
import { json } from "../exchange/reply.ts";
import { actorFails, type Route, route } from "../route.ts";
import { EpochMs } from "../schemas/common.ts";
import type { Tag } from "../tags.ts";

const tag: Tag = { name: "Controls", description: "What an operator stops at once." };
const access = ["controls:write"];

const name = (description: string, example: string) =>
  Type.Optional(Type.String({ minLength: 1, maxLength: 256, description, examples: [example] }));
const selectors = {
  manifest: name("Runs of this manifest, or calls in them.", "clerk"),
  tool: name("Calls of this tool.", "calculator"),
  server: name("Calls of the tools of this MCP server, by its name in the manifest.", "search"),
  principal: name("Runs of this caller, or calls in them.", "ann"),
};

const Freeze = Type.Object({
  ...selectors,
  reason: Type.String({ examples: ["It sends wrong invoices."] }),
  created_at: EpochMs,
  created_by: Type.String({ examples: ["olga"] }),
});

const put = route({
  method: "PUT",
  path: "/controls/freeze",
  summary: "Stops runs or calls of the tenant until the freeze is deleted.",
  tag,
  access,
  // A long reason, so that the sample freezes nothing.
  tenancy: [{ of: "manifest", body: (id) => ({ manifest: id, reason: "x".repeat(1_001) }) }],
  body: Type.Object(
    { ...selectors, reason: Type.String({ maxLength: 1000, default: "", description: "For other operators." }) },
    { additionalProperties: false },
  ),
  reply: {
    description:
      "Without a selector the whole tenant is frozen. New runs are 503 `frozen`, live ones stop, durable and suspended ones wait. With `tool` or `server` only calls are refused.",
    schema: Freeze,
  },
  fails: ["conflict", ...actorFails],
  async handle({ body, principal }, context) {
    const { reason, ...asked } = body;
    const selector = ordered(asked);
    const store = context.store.tenant(principal.tenant_id);
    const key = JSON.stringify(selector);
    const known = await freezesOf(store);
    if (known.length >= freezesMax && !known.some((row) => JSON.stringify(row.selector) === key))
      throw new SvcError("conflict", { message: `A tenant has at most ${freezesMax} freezes.` });
    const row: FreezeRow = { selector, reason, created_at: context.env.now(), created_by: principal.sub };
    const payload = { ...selector, reason };
    const event = { event_type: "freeze_set", status: "ok", principal_subj: principal.sub, payload } as const;
    const audited = auditOp(store, context, { ...event, manifest_id: selector.manifest ?? "" });
    await store.write([putFreezeOp(store, row), audited], requestMs);
    await tellNodes(context);
    return json(viewOf(row));
  },
});

const list = route({
  method: "GET",
  path: "/controls/freeze",
  summary: "What is frozen, the oldest first.",
  tag,
  access,
  reply: { description: "At most 100.", schema: Type.Object({ items: Type.Array(Freeze) }) },
  fails: ["storage_unavailable"],
  handle: async ({ principal }, { store }) =>
    json({ items: (await freezesOf(store.tenant(principal.tenant_id))).map(viewOf) }),
});

const remove = route({
  method: "DELETE",
  path: "/controls/freeze",
  summary: "Ends the freeze with exactly these selectors.",
  tag,
  access,
  tenancy: [{ of: "manifest", query: (id) => `manifest=${id}` }],
  query: Type.Object(selectors, { additionalProperties: false }),
  reply: {
    description: "`released` is false if nothing was frozen with these selectors.",
    schema: Type.Object({ released: Type.Boolean({ examples: [true] }) }),
  },
  fails: actorFails,
  async handle({ query, principal }, context) {
    const selector = ordered(query);
    const store = context.store.tenant(principal.tenant_id);
    const known = await freezesOf(store);
    const key = JSON.stringify(selector);
    if (!known.some((row) => JSON.stringify(row.selector) === key)) return json({ released: false });
    const event = { event_type: "freeze_cleared", status: "ok", principal_subj: principal.sub } as const;
    const audited = auditOp(store, context, { ...event, payload: selector, manifest_id: selector.manifest ?? "" });
    await store.write([deleteFreezeOp(store, selector), audited, wakePutOffDurablesOp(store)], requestMs);
    await tellNodes(context);
    return json({ released: true });
  },
});

/** Returns the selector with its fields in the stored order. */
function ordered({ manifest, tool, server, principal }: FreezeSelector): FreezeSelector & Record<string, string> {
  return {
    ...(manifest !== undefined && { manifest }),
    ...(tool !== undefined && { tool }),
    ...(server !== undefined && { server }),
    ...(principal !== undefined && { principal }),
  };
}

/** Returns when every thread of this process knows the change. Other processes read it within a second. */
async function tellNodes({ bus }: HttpContext): Promise<void> {
  await Promise.all(
    bus.actorNodes.map((node) =>
      bus.ask(nodeAddress(node), "readFreezes", {}).catch((error: unknown) => {
        // The successor of a lost thread reads them when it starts.
        if (SvcError.from(error).code !== "actor_lost") throw error;
      }),
    ),
  );
}

function viewOf({ selector, ...rest }: FreezeRow) {
  return { ...selector, ...rest };
}

/** Routes of freezes. */
export const freezeRoutes: readonly Route[] = [list, put, remove];
