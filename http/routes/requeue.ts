import { runAddress } from "../../bus/address.ts";
import type { Bus } from "../../bus/bus.ts";
import { orderedId } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { AcceptedRun } from "../../bus/protocol/run.ts";
import { Type } from "../../bus/type.ts";
import { type DeadRun, deadDurables } from "../../storage/tables/durable-lists.ts";
import { durableRowById } from "../../storage/tables/durable-rows.ts";
import { json } from "../exchange/reply.ts";
import { actorFails, route } from "../route.ts";
import { AcceptedRun as AcceptedRunSchema } from "../schemas/chat.ts";
import { epochRange, nullable } from "../schemas/common.ts";
import { runIdExample } from "../schemas/example-values.ts";
import { admitStart } from "../streams/turns.ts";
import { durableTag } from "../tags.ts";
import { RunParams } from "./runs.ts";

// Requeues dead runs, which GET /runs?status=dead lists. Each is continued by a new run, which its conversation accepts like any other.

/** Max dead runs requeued by one request. */
const bulkMax = 1_000;
/** Requeued concurrently, so that other requests are served in between. */
const atOnce = 16;

const requeueFails = [
  "run_queue_full",
  "run_in_progress",
  "principal_revoked",
  "conflict",
  "unknown_manifest",
  "invalid_manifest",
  "model_not_configured",
  ...actorFails,
] as const;

const requeue = route({
  method: "POST",
  path: "/runs/{run_id}/requeue",
  summary: "Continues a dead run after the last step of its log, as a new run; the dead one stays dead.",
  tag: durableTag,
  access: ["runs:write"],
  tenancy: [{ of: "run" }],
  params: RunParams,
  reply: {
    status: 202,
    description: "The new run, with its own id, token, time and webhooks, and the principal of the dead one.",
    schema: Type.Object({
      ...AcceptedRunSchema.properties,
      requeued_from: Type.String({ description: "The dead run.", examples: [runIdExample] }),
    }),
  },
  fails: ["run_not_found", "run_not_dead", "run_requeued", ...requeueFails],
  async handle({ params: { run_id }, principal: { tenant_id } }, context) {
    const { store, bus, env } = context;
    admitStart(context);
    const durable = await durableRowById(store.tenant(tenant_id), run_id);
    if (durable === undefined) throw new SvcError("run_not_found");
    return json({ ...(await goOnWith(tenant_id, durable, bus, orderedId(env))), requeued_from: run_id }, 202);
  },
});

const requeueMany = route({
  method: "POST",
  path: "/runs/requeue",
  summary: `Requeues dead runs that were not requeued before, the oldest first, at most ${bulkMax}.`,
  tag: durableTag,
  access: ["runs:write"],
  tenancy: [{ of: "manifest", body: (id) => ({ manifest: id }) }],
  body: Type.Object(
    {
      manifest: Type.Optional(nullable(Type.String({ maxLength: 256, description: "Only runs of this manifest." }))),
      until: Type.Optional(
        nullable(
          Type.Integer({ ...epochRange, description: "Only runs that were dead by this time, in epoch milliseconds." }),
        ),
      ),
      cursor: Type.Optional(nullable(Type.String({ description: "`next_cursor` of the previous answer." }))),
    },
    { additionalProperties: false },
  ),
  reply: {
    description: "The result for each run, oldest first.",
    schema: Type.Object({
      requeued: Type.Array(
        Type.Object({
          run_id: Type.String({ examples: [runIdExample] }),
          requeued_as: Type.String({ examples: ["b1946ac92492d2347c6235b4d2611184"] }),
        }),
      ),
      skipped: Type.Array(
        Type.Object({
          run_id: Type.String({ examples: [runIdExample] }),
          error: Type.String({ description: "Why it was not requeued.", examples: ["run_in_progress"] }),
        }),
      ),
      more: Type.Boolean({
        description: "There may be more: the page or the queue is full, or the server is stopping.",
        examples: [false],
      }),
      next_cursor: nullable(Type.String({ description: "Cursor of the rest; null to start with the oldest." }), {
        examples: [null],
      }),
    }),
  },
  fails: ["invalid_cursor", "storage_unavailable"],
  async handle({ body, principal: { tenant_id }, exchange }, context) {
    const { store, bus, env, closing } = context;
    admitStart(context);
    const { manifest = null, until, cursor = null } = body;
    const asked = { manifest, until: until ?? Number.MAX_SAFE_INTEGER, cursor };
    const dead = await deadDurables(store.tenant(tenant_id), asked, bulkMax);
    const ends = new Map<string, string | SvcError>();
    let isStopped = false;
    exchange.onAborted(() => {
      isStopped = true;
    });
    const left = dead[Symbol.iterator]();
    const work = async (): Promise<void> => {
      while (!isStopped && !closing()) {
        const { value: run } = left.next();
        if (run === undefined) return;
        const end = await goOnWith(tenant_id, run, bus, orderedId(env)).then(
          ({ resume_token }) => resume_token,
          SvcError.from,
        );
        ends.set(run.run_id, end);
        if (end instanceof SvcError && end.code === "run_queue_full") isStopped = true;
      }
    };
    await Promise.all(Array.from({ length: atOnce }, work));
    return json(told(dead, ends, cursor));
  },
});

/** Starts a new run that continues a dead one. `id` is the id of the new run. */
function goOnWith(
  tenantId: string,
  { run_id, suffix }: { readonly run_id: string; readonly suffix: string },
  bus: Bus,
  id: string,
): Promise<AcceptedRun> {
  return bus.ask(runAddress(tenantId, suffix, id), "requeue", { of: run_id });
}

/**
 * Returns the result of each run. The cursor stops before the first run that was not tried or found the queue full, so that the next
 * request tries it again.
 */
function told(dead: readonly DeadRun[], ends: ReadonlyMap<string, string | SvcError>, cursor: string | null) {
  const requeued: { run_id: string; requeued_as: string }[] = [];
  const skipped: { run_id: string; error: string }[] = [];
  let seen = cursor;
  let isFull = false;
  for (const { run_id, cursor: at } of dead) {
    const end = ends.get(run_id);
    if (end === undefined) isFull = true;
    else if (typeof end === "string") requeued.push({ run_id, requeued_as: end });
    else {
      skipped.push({ run_id, error: end.code });
      isFull ||= end.code === "run_queue_full";
    }
    if (!isFull) seen = at;
  }
  const more = isFull || dead.length === bulkMax;
  return { requeued, skipped, more, next_cursor: more ? seen : null };
}

export const requeueRoutes = [requeue, requeueMany];
