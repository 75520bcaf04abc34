import { threadAddress } from "../../bus/address.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import { Type } from "../../bus/type.ts";
import type { HttpContext } from "../context.ts";
import type { Reply } from "../exchange/reply.ts";
import { json } from "../exchange/reply.ts";
import { leaseStatus } from "../lease.ts";
import { actorFails, route } from "../route.ts";
import { ThreadParams } from "../schemas/chat.ts";
import { nullable } from "../schemas/common.ts";
import { noon, snapshotExample } from "../schemas/example-values.ts";
import { ThreadId } from "../schemas/session.ts";
import { currentSnapshot } from "../snapshot.ts";
import { sessionsTag } from "../tags.ts";
import { checkThreadSuffix } from "../thread-id.ts";

// Leases of a thread, by which clients that share it agree which one drives it. A lease grants no access.

const Mode = Type.Union([Type.Literal("exclusive"), Type.Literal("shared")], { examples: ["exclusive"] });
const Time = Type.Integer({ description: "Epoch milliseconds." });

const LeaseStatus = Type.Object({
  locked: Type.Boolean({ description: "Somebody drives." }),
  attached: Type.Boolean({ description: "Whether the thread has a lease." }),
  holder_id: nullable(Type.String({ description: "Holder of the exclusive lease.", examples: ["tab-1"] })),
  mode: nullable(Mode, { examples: ["exclusive"] }),
  observers: Type.Integer({ examples: [0] }),
  observer_holds: Type.Array(Type.Object({ holder_id: Type.String(), expires_at: Time }), { examples: [[]] }),
  expires_at: nullable(
    Type.Integer({
      description: "Epoch milliseconds: of the exclusive lease, otherwise of the last shared one.",
      examples: [noon + 300_000],
    }),
  ),
  token_hint: nullable(
    Type.String({ description: "The first characters of the exclusive lease's token.", examples: ["6f1ed002"] }),
  ),
});
const Snapshot = Type.Object({}, { additionalProperties: true, examples: [snapshotExample] });
const Token = Type.String({ minLength: 1, maxLength: 128 });

const take = route({
  method: "POST",
  path: "/chat/sessions/lease",
  summary: "Acquires or renews a lease of a thread: exclusive to drive it, or shared to watch it.",
  tag: sessionsTag,
  access: "chat:write",
  tenancy: [
    // A valid ttl_seconds would create a thread of the caller.
    { of: "thread", body: (id) => ({ thread_id: id, holder_id: "me", ttl_seconds: 1 }) },
  ],
  body: Type.Object(
    {
      thread_id: Type.String({
        description: "The thread's suffix. A missing thread is created, and listed after its first turn.",
        examples: ["tour"],
      }),
      holder_id: Type.String({
        minLength: 1,
        maxLength: 128,
        description: "A name that the client chooses for itself.",
        examples: ["tab-1"],
      }),
      mode: Type.Union([Type.Literal("exclusive"), Type.Literal("shared")], { default: "exclusive" }),
      ttl_seconds: Type.Number({ minimum: 5, maximum: 86_400, default: 300 }),
      token: Type.Optional(
        nullable({
          ...Token,
          description: "Token of the client's lease, to renew it, also with another mode.",
        }),
      ),
    },
    { additionalProperties: false },
  ),
  reply: {
    description:
      "Send `token` in `X-Svc-Lease-Token`; it is not shown again. `held_by_other`: another client has the exclusive lease.",
    schema: Type.Object({
      ok: Type.Boolean(),
      renewed: Type.Boolean(),
      token: Type.String({ examples: ["6f1ed002ab5595859014ebf0951522d9"] }),
      mode: Mode,
      held_by_other: Type.Boolean({ examples: [false] }),
      status: LeaseStatus,
      snapshot: Snapshot,
    }),
  },
  fails: ["invalid_thread_id", "lease_held", "lease_contended", "conflict", ...actorFails],
  async handle({ body, principal }, context) {
    const { tenant_id } = principal;
    const { thread_id, holder_id, mode, ttl_seconds, token = null } = body;
    const suffix = checkThreadSuffix(thread_id);
    const asked = { holder_id, mode, ttlMs: Math.round(ttl_seconds * 1000), token };
    const taken = await context.bus.ask(threadAddress(tenant_id, suffix), "lease", asked);
    const status = await leaseStatus(context.store.tenant(tenant_id), suffix);
    const held_by_other = mode === "shared" && status.locked;
    const answer = { ok: true, renewed: taken.renewed, token: taken.token, mode, held_by_other, status };
    return withSnapshot(answer, context, principal, suffix);
  },
});

const release = route({
  method: "POST",
  path: "/chat/sessions/lease/release",
  summary: "Ends a lease of a thread.",
  tag: sessionsTag,
  access: "chat:write",
  tenancy: [{ of: "thread", body: (id) => ({ thread_id: id }) }],
  body: Type.Object(
    {
      thread_id: ThreadId,
      holder_id: Type.Optional(
        nullable(
          Type.String({ minLength: 1, maxLength: 128, description: "Required holder of the lease. Default: any." }),
        ),
      ),
      token: Type.Optional(nullable(Token)),
    },
    { additionalProperties: false },
  ),
  reply: {
    description: "`released` is false if there was no lease, or it had expired.",
    schema: Type.Object({
      ok: Type.Boolean(),
      released: Type.Boolean(),
      status: LeaseStatus,
      snapshot: Snapshot,
    }),
  },
  fails: ["invalid_thread_id", "token_required", "token_mismatch", "not_holder", "lease_contended", ...actorFails],
  async handle({ body, principal }, context) {
    const { tenant_id } = principal;
    const { thread_id, holder_id = null, token = null } = body;
    const suffix = checkThreadSuffix(thread_id);
    const { released } = await context.bus.ask(threadAddress(tenant_id, suffix), "end_lease", { token, holder_id });
    const status = await leaseStatus(context.store.tenant(tenant_id), suffix);
    return withSnapshot({ ok: true, released, status }, context, principal, suffix);
  },
});

const read = route({
  method: "GET",
  path: "/chat/sessions/{thread_id}/lease",
  summary: "The leases of a thread.",
  tag: sessionsTag,
  access: "chat:read",
  tenancy: [{ of: "thread" }],
  params: ThreadParams,
  reply: { description: "Empty for a thread that does not exist.", schema: LeaseStatus },
  fails: ["invalid_thread_id", "storage_unavailable"],
  async handle({ params, principal }, { store }) {
    return json(await leaseStatus(store.tenant(principal.tenant_id), checkThreadSuffix(params.thread_id)));
  },
});

function withSnapshot(answer: object, context: HttpContext, principal: Principal, suffix: string): Reply {
  const around = { before: `${JSON.stringify(answer).slice(0, -1)},"snapshot":`, after: "}" };
  const pieces = currentSnapshot(context, principal, suffix, around);
  return { kind: "pieces", contentType: "application/json", pieces };
}

export const leaseRoutes = [take, release, read];
