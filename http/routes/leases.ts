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
import { ThreadId } from "../schemas/session.ts";
import { currentSnapshot } from "../snapshot.ts";
import { checkThreadSuffix } from "../thread-id.ts";

// Leases of a thread: clients that share one agree by them on who drives it. They grant nothing.

const tag = "Sessions";

const Mode = Type.Union([Type.Literal("exclusive"), Type.Literal("shared")]);
const Time = Type.Integer({ description: "Epoch milliseconds." });

const LeaseStatus = Type.Object({
  locked: Type.Boolean({ description: "Somebody drives." }),
  attached: Type.Boolean({ description: "Somebody drives or watches." }),
  holder_id: nullable(Type.String({ description: "Of who drives." })),
  mode: nullable(Mode),
  observers: Type.Integer(),
  observer_holds: Type.Array(Type.Object({ holder_id: Type.String(), expires_at: Time })),
  expires_at: nullable(
    Type.Integer({ description: "Epoch milliseconds: of the lease that drives, else of the last that watches." }),
  ),
  token_hint: nullable(Type.String({ description: "The first characters of the token of who drives." })),
});
const Snapshot = Type.Object({}, { additionalProperties: true });
const Token = Type.String({ minLength: 1, maxLength: 128 });

const take = route({
  method: "POST",
  path: "/chat/sessions/lease",
  summary: "Takes or renews a lease of a thread: to drive it alone, or to watch it.",
  tag,
  access: "chat:write",
  body: Type.Object(
    {
      thread_id: Type.String({
        description: "The thread's suffix. One that does not exist is made, and listed from its first turn on.",
      }),
      holder_id: Type.String({ minLength: 1, maxLength: 128, description: "What the client calls itself." }),
      mode: Type.Union([Type.Literal("exclusive"), Type.Literal("shared")], { default: "exclusive" }),
      ttl_seconds: Type.Number({ minimum: 5, maximum: 86_400, default: 300 }),
      token: Type.Optional(
        nullable({
          ...Token,
          description: "Of the lease that the client has, which is renewed, also with another mode.",
        }),
      ),
    },
    { additionalProperties: false },
  ),
  reply: {
    description:
      "`token` goes into `X-Svc-Lease-Token`; nobody is told it again. `held_by_other`: somebody else drives.",
    schema: Type.Object({
      ok: Type.Boolean(),
      renewed: Type.Boolean(),
      token: Type.String(),
      mode: Mode,
      held_by_other: Type.Boolean(),
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
  tag,
  access: "chat:write",
  body: Type.Object(
    {
      thread_id: ThreadId,
      holder_id: Type.Optional(
        nullable(Type.String({ minLength: 1, maxLength: 128, description: "Whose it must be. Default: anybody's." })),
      ),
      token: Type.Optional(nullable(Token)),
    },
    { additionalProperties: false },
  ),
  reply: {
    description: "`released` is false when there was none, or it was over. Nobody takes its place.",
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
  summary: "Who drives a thread and who watches it.",
  tag,
  access: "chat:read",
  params: ThreadParams,
  reply: { description: "Of a thread that does not exist, nobody.", schema: LeaseStatus },
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
