import { threadAddress } from "../../bus/address.ts";
import { type ErrorCode, SvcError } from "../../bus/errors.ts";
import { planNote } from "../../bus/frames/plan-note.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import type { TakenNote } from "../../bus/protocol/thread.ts";
import { Type } from "../../bus/type.ts";
import { auditOp } from "../../governance/audit.ts";
import { writeCursor } from "../../storage/store/cursor.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import {
  isExpired,
  isPlanId,
  type PlanRow,
  planBytesMax,
  planPage,
  removePlan,
  storedPlan,
  writePlan,
} from "../../storage/tables/plans.ts";
import { untilFirst } from "../../storage/tables/until-first.ts";
import type { HttpContext } from "../context.ts";
import { json, jsonText } from "../exchange/reply.ts";
import { route } from "../route.ts";
import { EpochMs, nullable } from "../schemas/common.ts";
import { noon } from "../schemas/example-values.ts";
import type { Tag } from "../tags.ts";
import { threadFilter } from "../thread-id.ts";

const tag: Tag = { name: "Plans", description: "Plans of agents, step by step; people may change them." };
const readScopes = ["plans:read"];
const writeScopes = ["plans:write"];
/** Max characters of plans on a page; the first plan may exceed it. */
const pageCharsMax = 4 * 1024 * 1024;

const planFields = {
  id: Type.String({ examples: ["0001a0c346707e521b1f7bf6eb5b5344"] }),
  tenant_id: Type.String({ examples: ["default"] }),
  manifest_id: Type.String({ description: "The agent that made it; empty if none did.", examples: ["quick"] }),
  thread_id: Type.String({
    description: "`{tenant}:{suffix}` of the thread in which it was made; empty without one.",
    examples: ["default:tour"],
  }),
  created_at: EpochMs,
  updated_at: EpochMs,
  expires_at: nullable(EpochMs, { examples: [noon + 300_000] }),
  plan: Type.Object(
    {},
    {
      additionalProperties: true,
      description: "`edited` {by, at} is the person who changed it last.",
      examples: [{ title: "Move", steps: [{ id: "1", title: "Pack", status: "pending" }], status: "active" }],
    },
  ),
};
const Plan = Type.Object(planFields);
const EditedPlan = Type.Object({
  ...planFields,
  agent_told: nullable(
    Type.Union([Type.Literal("queued"), Type.Literal("recorded")], {
      description:
        "`queued`: the plan's thread has a run, and its model reads a note before its next call. `recorded`: the note is in the thread's log. Null: the plan has no thread, or the note failed.",
    }),
  ),
});
const PlanParams = Type.Object({
  plan_id: Type.String({ description: "1 to 64 letters, digits, - and _.", examples: ["move"] }),
});

const listPlans = route({
  method: "GET",
  path: "/plans",
  summary: "Plans of agents, the last changed first.",
  tag,
  access: readScopes,
  tenancy: [{ of: "thread", query: (id) => `thread_id=${id}` }],
  query: Type.Object({
    limit: Type.Integer({ minimum: 1, maximum: 200, default: 50, description: "Plans per page." }),
    cursor: Type.Optional(Type.String({ description: "`next_cursor` of the previous page." })),
    thread_id: Type.Optional(
      Type.String({
        description: "Only of this thread: its suffix, or its full id; empty for plans without a thread.",
      }),
    ),
  }),
  reply: {
    description:
      "`items` and `plans` are the same list. A page may be shorter than `limit`; next_cursor is set if there are more.",
    schema: Type.Object({
      items: Type.Array(Plan),
      plans: Type.Array(Plan),
      next_cursor: nullable(Type.String(), { examples: [null] }),
    }),
  },
  fails: ["invalid_cursor", "invalid_thread_id", "storage_unavailable"],
  async handle({ query, principal }, context) {
    const { tenant_id } = principal;
    const { cursor = null, limit } = query;
    const suffix = query.thread_id === "" ? null : threadFilter(query.thread_id, tenant_id);
    const thread_id = suffix === null ? "" : `${tenant_id}:${suffix}`;
    const filter = query.thread_id === undefined ? {} : { thread_id };
    const page = await planPage(context.store.tenant(tenant_id), filter, cursor, limit);
    const now = context.env.now();
    const texts: string[] = [];
    let chars = 0;
    let next = page.next_cursor;
    let before: PlanRow | null = null;
    for (const row of page.rows) {
      const text = isExpired(row, now) ? null : planText(tenant_id, row, context);
      chars += text?.length ?? 0;
      if (before !== null && chars > pageCharsMax) {
        next = writeCursor([before.ts, before.id]);
        break;
      }
      if (text !== null) texts.push(text);
      before = row;
    }
    const items = `[${texts.join(",")}]`;
    return jsonText(`{"items":${items},"plans":${items},"next_cursor":${JSON.stringify(next)}}`);
  },
});

const getPlan = route({
  method: "GET",
  path: "/plans/{plan_id}",
  summary: "One plan.",
  tag,
  access: readScopes,
  tenancy: [{ of: "plan" }],
  params: PlanParams,
  reply: { description: "The plan.", schema: Plan },
  fails: ["not_found", "storage_unavailable"],
  async handle({ params, principal }, context) {
    const { tenant_id } = principal;
    const row = await currentPlan(context.store.tenant(tenant_id), params.plan_id, context);
    if (row === undefined) throw new SvcError("not_found");
    return jsonText(planText(tenant_id, row, context));
  },
});

const putFails: readonly ErrorCode[] = ["plan_changed", "conflict", "storage_quota_exceeded", "storage_unavailable"];

const putPlan = route({
  method: "PUT",
  path: "/plans/{plan_id}",
  summary: "Creates or replaces a plan.",
  tag,
  access: writeScopes,
  tenancy: [
    // Without the expected time the request would create a plan.
    { of: "plan", body: () => ({ plan: {}, expected_updated_at: 1 }) },
  ],
  params: PlanParams,
  body: Type.Object(
    {
      plan: Type.Object(
        {},
        {
          additionalProperties: true,
          description: `At most ${planBytesMax} bytes as JSON. Agents read {title, goal, steps [{id, title, status, note}], status}; \`edited\` is the server's.`,
          examples: [{ title: "Move", steps: [{ id: "1", title: "Pack", status: "pending" }], status: "active" }],
        },
      ),
      manifest_id: Type.Optional(
        nullable(Type.String({ maxLength: 128, description: "Unchanged if omitted; null for none." })),
      ),
      expires_at: Type.Optional(
        nullable(
          Type.Integer({
            minimum: 0,
            maximum: Number.MAX_SAFE_INTEGER,
            description: "Epoch milliseconds. Unchanged if omitted; null for never.",
          }),
        ),
      ),
      expected_updated_at: Type.Optional(
        nullable(
          Type.Integer({
            minimum: 0,
            maximum: Number.MAX_SAFE_INTEGER,
            description: "`updated_at` of the plan that was read. Without it any version is replaced.",
          }),
        ),
      ),
    },
    { additionalProperties: false },
  ),
  reply: { description: "The plan after the change.", schema: EditedPlan },
  fails: putFails,
  async handle({ params, body, principal }, context) {
    const { tenant_id } = principal;
    if (!isPlanId(params.plan_id)) throw invalid(["path", "plan_id"], "plan_id is 1 to 64 letters, digits, - and _");
    const row = await edit(context.store.tenant(tenant_id), params.plan_id, body, principal, context);
    const agent_told = await tell(tenant_id, row, context);
    return jsonText(`${planText(tenant_id, row, context).slice(0, -1)},"agent_told":${JSON.stringify(agent_told)}}`);
  },
});

const deletePlan = route({
  method: "DELETE",
  path: "/plans/{plan_id}",
  summary: "Deletes a plan.",
  tag,
  access: writeScopes,
  tenancy: [{ of: "plan" }],
  params: PlanParams,
  reply: { description: "It was deleted, or did not exist.", schema: Type.Object({ status: Type.Literal("deleted") }) },
  fails: ["not_found", "conflict", "storage_unavailable"],
  async handle({ params, principal }, context) {
    const store = context.store.tenant(principal.tenant_id);
    const deleted = await untilFirst(context.env, async () => {
      const row = await currentPlan(store, params.plan_id, context);
      if (row === undefined) throw new SvcError("not_found");
      return (await removePlan(store, row)) || null;
    });
    if (deleted === null) throw new SvcError("conflict");
    return json({ status: "deleted" });
  },
});

interface PlanEdit {
  readonly plan: object;
  readonly manifest_id?: string | null | undefined;
  readonly expires_at?: number | null | undefined;
  readonly expected_updated_at?: number | null | undefined;
}

/** Writes a person's edit of a plan. Refuses with plan_changed if the plan changed since it was read. */
async function edit(
  store: TenantStore,
  id: string,
  asked: PlanEdit,
  { sub, tenant_id }: Principal,
  context: HttpContext,
): Promise<PlanRow> {
  const { env, settings } = context;
  const { expected_updated_at: expected = null } = asked;
  const row = await untilFirst(env, async () => {
    const stored = await storedPlan(store, id);
    const now = env.now();
    const current = stored === undefined || isExpired(stored, now) ? undefined : stored;
    if (expected !== null && current?.ts !== expected) throw changed(tenant_id, current, context);
    const plan = JSON.stringify({ ...asked.plan, edited: { by: sub, at: now } });
    if (Buffer.byteLength(plan) > planBytesMax) throw invalid(["body", "plan"], `plan is over ${planBytesMax} bytes`);
    const { manifest_id = current?.manifest_id ?? null, expires_at = current?.expires_at ?? null } = asked;
    const thread_id = current?.thread_id ?? "";
    const written = { id, manifest_id: manifest_id ?? "", thread_id, created_at: current?.created_at ?? now };
    return await writePlan(
      store,
      stored,
      { ...written, expires_at, plan },
      {
        now,
        limit: settings.tenantStoredBytes,
        ops: [
          auditOp(store, context, {
            event_type: "plan_edit",
            status: "ok",
            manifest_id: written.manifest_id,
            principal_subj: sub,
            payload: { plan_id: id, by: sub, thread_id },
          }),
        ],
      },
    );
  });
  if (row === null) throw new SvcError("conflict");
  return row;
}

/** Sends a note to the agent of the plan's conversation. The edit stays valid if the note fails. */
async function tell(tenantId: string, row: PlanRow, { bus, log }: HttpContext): Promise<TakenNote["status"] | null> {
  if (row.thread_id === "") return null;
  const address = threadAddress(tenantId, row.thread_id.slice(tenantId.length + 1));
  try {
    const { status } = await bus.ask(address, "note", planNote({ plan_id: row.id, updated_at: row.ts }));
    return status;
  } catch (error) {
    log.warn({ err: error, thread_id: address.key }, "the note about an edited plan could not be queued for its agent");
    return null;
  }
}

function changed(tenantId: string, row: PlanRow | undefined, context: HttpContext): SvcError {
  const current: unknown = row === undefined ? null : JSON.parse(planText(tenantId, row, context));
  return new SvcError("plan_changed", { detail: { error: "plan_changed", current } });
}

function invalid(loc: readonly string[], msg: string): SvcError {
  return new SvcError("invalid_request", { detail: [{ loc, msg, type: "value" }] });
}

/** Returns a plan that has not expired. */
async function currentPlan(store: TenantStore, id: string, { env }: HttpContext): Promise<PlanRow | undefined> {
  if (!isPlanId(id)) return undefined;
  const row = await storedPlan(store, id);
  return row === undefined || isExpired(row, env.now()) ? undefined : row;
}

/** Returns the JSON of a plan, which is stored as JSON text. Secrets are masked, because callers and models wrote it. */
function planText(tenant_id: string, { ts, plan, bytes: _bytes, ...row }: PlanRow, { mask }: HttpContext): string {
  const head = JSON.stringify({ ...row, tenant_id, updated_at: ts });
  return `${head.slice(0, -1)},"plan":${mask.forms.jsonText(plan)}}`;
}

export const planRoutes = [listPlans, getPlan, putPlan, deletePlan];
