// Operators' actions on durable runs in states that a live server rarely has: the routes over the store and the actors,
// without HTTP.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { durableSuffix } from "../../bus/address.ts";
import { systemEnv } from "../../bus/env.ts";
import type { HttpContext } from "../../http/context.ts";
import type { RouteRequest } from "../../http/route.ts";
import { requeueRoutes } from "../../http/routes/requeue.ts";
import { runRoutes } from "../../http/routes/runs.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { suspendRunOp } from "../../storage/tables/abandoned-runs.ts";
import {
  acceptDurableOp,
  claimDurableOp,
  durableRowById,
  endDurableOp,
  putOffDurableOp,
  suspendDurableOp,
} from "../../storage/tables/durable-rows.ts";
import { beginRunOp, endRunOp, runBegun } from "../../storage/tables/runs.ts";
import { insertThreadOp, reserveThreadKeys } from "../../storage/tables/threads.ts";
import { ActorProcess, processSettings, tenantId } from "../support/actor-process.ts";
import { newRun, threadRow } from "../support/rows.ts";
import { ScriptedModel } from "../support/scripted-model.ts";
import { testStore } from "../support/stores.ts";
import { cleanup } from "../support/temp.ts";

const env = systemEnv();
const atEnd = cleanup();
const minuteMs = 60_000;
const principal = { tenant_id: tenantId, sub: "olga", scopes: ["*"], scheme: "none", issuer: "" };
/** Max runs of a tenant that may wait for their first step. */
const queuedMax = 10_000;

/** Calls the handler of a route. Returns its answer. */
async function ask(path: string, asked: Partial<RouteRequest<object, object, object>>, context: Partial<HttpContext>) {
  const found = [...runRoutes, ...requeueRoutes].find((route) => route.path === path && route.method === "POST");
  const request = { principal, exchange: { onAborted() {} }, ...asked } as RouteRequest<never, never, never>;
  const reply = await found?.handle(request, context as HttpContext);
  assert.ok(reply?.kind === "json");
  return JSON.parse(String(reply.body));
}

/** A running durable run with its own thread. */
async function begun(tenant: TenantStore, id: string, threadKey: number, manifest = "agent") {
  const durable = { ttl_ms: minuteMs, webhooks: [] };
  const { asked } = newRun(id);
  const run = newRun(id, { manifest, started_at: threadKey, asked: { ...asked, durable } });
  const row = runBegun(run, { thread_key: threadKey, epoch: 1, first_seq: 0 });
  await tenant.write([insertThreadOp(tenant, threadRow(threadKey, durableSuffix(id), { epoch: 1 }))]);
  await tenant.write([beginRunOp(tenant, row), acceptDurableOp(tenant, row, durableSuffix(id), Date.now(), true)]);
  return row;
}

describe("POST /runs/{run_id}/retry", () => {
  let tenant: TenantStore;
  let context: Partial<HttpContext>;
  let keys = 0;
  before(async () => {
    const { store } = await testStore("sqlite", atEnd);
    tenant = store.tenant(tenantId);
    context = { store, env };
    keys = await reserveThreadKeys(store.system, 10);
  });

  /** A run with a failed step and a retry in this number of milliseconds. */
  async function failed(id: string, ms: number): Promise<void> {
    const row = await begun(tenant, id, keys++);
    await tenant.write([suspendRunOp(tenant, row), putOffDurableOp(tenant, id, ms, true)]);
  }
  const wakes = async (id: string) => (await durableRowById(tenant, id))?.wake_at;

  test("DUR-006 ends a back-off that is in progress", async () => {
    await failed("resting", minuteMs);

    const { retried, wake_at } = await ask("/runs/{run_id}/retry", { params: { run_id: "resting" } }, context);

    assert.deepEqual([retried, wake_at], [true, await wakes("resting")]);
    assert.ok(wake_at <= Date.now(), String(wake_at));
  });

  test("DUR-006 does not change a run that is due, which keeps its place in the queue", async () => {
    await failed("due", 0);
    const due = await wakes("due");

    const { retried, wake_at } = await ask("/runs/{run_id}/retry", { params: { run_id: "due" } }, context);

    assert.deepEqual([retried, wake_at], [false, due]);
  });

  test("DUR-006 a retry changes no run that waits for an answer, runs or is queued", async () => {
    const row = await begun(tenant, "parked", keys++);
    await tenant.write([suspendRunOp(tenant, row), suspendDurableOp(tenant, "parked")]);
    const live = await begun(tenant, "live", keys++);
    await tenant.write([claimDurableOp(tenant, live.run_id)]);
    const place = { thread_key: keys++, epoch: 1, first_seq: 0 };
    const queued = runBegun(newRun("queued"), place, "accepted");
    const due = Date.now() + minuteMs;
    await tenant.write([beginRunOp(tenant, queued), acceptDurableOp(tenant, queued, durableSuffix("queued"), due)]);

    const told = [];
    for (const run_id of ["parked", "live", "queued"]) {
      const { status, retried, wake_at } = await ask("/runs/{run_id}/retry", { params: { run_id } }, context);
      told.push([status, retried, wake_at]);
    }

    assert.deepEqual(told, [
      ["waiting", false, null],
      ["running", false, null],
      ["accepted", false, due],
    ]);
  });
});

describe("POST /runs/requeue", () => {
  let settings: ReturnType<typeof processSettings>;
  before(() => {
    const execution = { mode: "durable" };
    settings = processSettings(atEnd, { agent: { execution } }, { SVC_AUDIT_FLUSH_SECONDS: "3600" });
  });

  /** A tenant with dead runs of these manifests, the oldest first, and optionally a full queue. */
  async function dead(manifests: readonly string[], isFull: boolean) {
    const { store } = await testStore("sqlite", atEnd);
    const tenant = store.tenant(tenantId);
    const ids = manifests.map((_, n) => `d${n}`);
    const first = await reserveThreadKeys(store.system, ids.length);
    for (const [n, id] of ids.entries()) {
      const row = await begun(tenant, id, first + n, manifests[n]);
      const end = { status: "dead", ended_at: n, last_seq: -1, stop_reason: null, error: "x", usage: null } as const;
      await tenant.write([
        endRunOp(tenant, row, end),
        endDurableOp(tenant, id, { final: null, error: "x", expires_at: Date.now() + minuteMs }),
      ]);
    }
    const later = Date.now() + 60 * minuteMs;
    const queued = (n: number) => {
      const place = { thread_key: 1e6 + n, epoch: 1, first_seq: 0 };
      return acceptDurableOp(tenant, runBegun(newRun(`q${n}`), place, "accepted"), `q${n}`, later);
    };
    for (let from = 0; isFull && from < queuedMax; from += 1_000)
      await tenant.write(Array.from({ length: 1_000 }, (_, n) => queued(from + n)));
    const empty = async () => {
      for (let from = 0; from < queuedMax; from += 1_000)
        await tenant.write(
          Array.from({ length: 1_000 }, (_, n) =>
            endDurableOp(tenant, `q${from + n}`, { final: null, error: null, expires_at: later }),
          ),
        );
    };
    const model = new ScriptedModel(env, () => ({ text: ["Done."] }));
    const process = new ActorProcess({ env, store, settings, model, bootId: env.id().slice(0, 16) });
    atEnd.after(() => process.close());
    const context = { env, store, bus: process.bus, closing: () => false };
    const requeue = (body: object, request: object = {}, changes: object = {}) =>
      ask("/runs/requeue", { body, ...request }, { ...context, ...changes });
    return { ids, tenant, empty, requeue };
  }
  const idsOf = (list: readonly { readonly run_id: string }[]) => list.map(({ run_id }) => run_id).toSorted();

  test("DUR-006 stops at a full queue, and another request continues there, skipping none", async () => {
    const { ids, empty, requeue } = await dead(["gone", ...Array(39).fill("agent")], true);

    const first = await requeue({});
    const again = await requeue({ cursor: first.next_cursor });
    await empty();
    const rest = await requeue({ cursor: again.next_cursor });

    assert.deepEqual([first.requeued, first.more], [[], true]);
    assert.deepEqual(first.skipped[0], { run_id: "d0", error: "unknown_manifest" });
    // The parallel requests: sixteen in addition to the first, which was refused for its own reason.
    assert.ok(first.skipped.length <= 17, String(first.skipped.length));
    assert.ok(again.skipped.every(({ error }: { error: string }) => error === "run_queue_full"));
    assert.deepEqual([again.more, again.next_cursor], [true, first.next_cursor]);
    assert.deepEqual(idsOf(rest.requeued), ids.slice(1).toSorted());
    assert.deepEqual([rest.skipped, rest.more, rest.next_cursor], [[], false, null]);
  });

  test("DUR-006 stops at a disconnect or shutdown, and reports its position", async () => {
    const { ids, tenant, requeue } = await dead(Array(20).fill("agent"), false);
    let asked = 0;

    const unheard = await requeue({}, { exchange: { onAborted: (work: () => void) => work() } });
    // The route checks for an end before the work, and each worker before each run.
    const ending = await requeue({}, {}, { closing: () => asked++ >= 17 });

    assert.deepEqual(unheard, { requeued: [], skipped: [], more: true, next_cursor: null });
    assert.deepEqual([idsOf(ending.requeued), ending.skipped, ending.more], [ids.slice(0, 16).toSorted(), [], true]);
    const left = await Promise.all(ids.map(async (id) => (await durableRowById(tenant, id))?.requeued_as === null));
    assert.deepEqual(left.indexOf(true), 16);
    const rest = await requeue({ cursor: ending.next_cursor });
    assert.deepEqual(idsOf(rest.requeued), ids.slice(16).toSorted());
  });
});
