import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { systemEnv } from "../../../bus/env.ts";
import { standingsApart, statusFrame } from "../../../bus/frames/run-status.ts";
import type { Principal } from "../../../bus/protocol/principal.ts";
import type { AcceptedRun } from "../../../bus/protocol/run.ts";
import { Backlogs } from "../../../http/backlog/backlogs.ts";
import type { HttpContext } from "../../../http/context.ts";
import { EventStream, StreamRegistry } from "../../../http/exchange/sse.ts";
import { acceptedRunStream } from "../../../http/streams/run-stream.ts";
import type { ThreadListener } from "../../../http/thread-fan-out.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { acceptDurableOp, endDurableOp } from "../../../storage/tables/durable-rows.ts";
import { beginRunOp, endRunOp, runBegun } from "../../../storage/tables/runs.ts";
import { insertThreadOp, reserveThreadKeys } from "../../../storage/tables/threads.ts";
import { eventually } from "../../support/eventually.ts";
import { newRun, threadRow } from "../../support/rows.ts";
import { testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const caller: Principal = { tenant_id: "acme", sub: "alice", scopes: [], scheme: "api_key", issuer: "" };

const accepted: AcceptedRun = {
  status: "accepted",
  resume_token: "r1",
  fiber_id: "r1",
  expires_at: "2026-11-23T00:00:00.000Z",
  thread_id: "acme:t",
};

const standing = (run_id: string, status: string) =>
  ({ run_id, status, attempt: 0, step: 0, waiting_on: null, updated_at: 7 }) as const;

const text = (words: string): string => `data: ${JSON.stringify({ event: "text_delta", data: { text: words } })}\n\n`;

test("status frames of runs are removed in order, and no other frames", () => {
  const looksAlike = text('data: {"event":"run_status","data":{"fiber_id":"r9"}}\n\n');
  const frames = [
    `id: 3\n${text("one")}`,
    statusFrame(standing("r1", "running")),
    statusFrame(standing("r2", "waiting")),
    looksAlike,
    statusFrame(standing("r1", "completed")),
  ];

  const { text: rest, standings } = standingsApart(frames.join(""));

  assert.equal(rest, `id: 3\n${text("one")}${looksAlike}`);
  assert.deepEqual(
    standings.map(({ run_id, status, updated_at }) => [run_id, status, updated_at]),
    [
      ["r1", "running", 7],
      ["r2", "waiting", 7],
      ["r1", "completed", 7],
    ],
  );
  assert.deepEqual(standingsApart(looksAlike), { text: looksAlike, standings: [] });
});

test("DUR-005 the stream of a new run needs no store read; a resent run that is swept is 404", async (t) => {
  const { store } = await testStore("sqlite", cleanup(t));
  const context = { store } as HttpContext;

  const fresh = await acceptedRunStream(context, caller, accepted, false, null);

  assert.equal(fresh.kind, "stream");
  await assert.rejects(acceptedRunStream(context, caller, accepted, true, null), { code: "run_not_found" });
});

/** The stream of r1, a run of the thread `t`; the callback runs after the first read of its record. */
async function streamed(t: TestContext, meanwhile: (listener: ThreadListener, tenant: TenantStore) => Promise<void>) {
  const { store } = await testStore("sqlite", cleanup(t));
  const tenant = store.tenant("acme");
  const thread_key = await reserveThreadKeys(store.system, 1);
  const run = runBegun(newRun("r1", {}), { thread_key, epoch: 1, first_seq: 0 });
  await tenant.write([insertThreadOp(tenant, threadRow(thread_key, "t"))]);
  await tenant.write([beginRunOp(tenant, run), acceptDurableOp(tenant, run, "t", 1, true)]);
  let listener: ThreadListener | undefined;
  let reads = 0;
  const read: TenantStore["read"] = async (statement, ...params) => {
    const rows = await tenant.read(statement, ...params);
    if (++reads === 1) await meanwhile(listener as ThreadListener, tenant);
    return rows;
  };
  const env = systemEnv();
  let said = "";
  let isOver = false;
  const sink = {
    write(piece: string | Uint8Array) {
      said += piece;
      return true;
    },
    end(rest: string) {
      said += rest;
      isOver = true;
    },
    close() {},
  };
  const context = {
    env,
    store: { tenant: () => ({ ...tenant, read }) },
    fanOut: {
      join: (_address: unknown, joined: ThreadListener) => {
        listener = joined;
      },
      leave() {},
      position: async () => ({ next_seq: 0, leaf_seq: -1, live: null }),
    },
    backlogs: new Backlogs(env, 1024 * 1024),
    reattached: new Set(),
    log: { error: assert.fail, warn: assert.fail },
  } as unknown as HttpContext;
  const reply = await acceptedRunStream(context, caller, accepted, false, null);
  const stream = new EventStream(sink, new StreamRegistry(1024 * 1024, () => 0));
  reply.open(stream);
  const events = () =>
    [...said.matchAll(/"event":"(\w+)"(?:.*?"status":"(\w+)")?/g)].map(([, name, status]) =>
      name === "run_status" || name === "final" ? `${name} ${status}` : name,
    );
  const end = async (): Promise<void> => {
    const ended = { status: "completed", ended_at: 9, last_seq: 0, stop_reason: "end_turn", error: null } as const;
    await tenant.write([
      endRunOp(tenant, run, { ...ended, usage: null }),
      endDurableOp(tenant, "r1", { final: "Done.", error: null, expires_at: 10 }),
    ]);
  };
  const hears = (frames: string, cursor: number | null = null): void => listener?.frames(frames, cursor);
  return { events, end, isOver: () => isOver, hears };
}

test("DUR-005 a run that ends while its stream opens ends the stream with one final frame", async (t) => {
  let it: Awaited<ReturnType<typeof streamed>> | undefined;
  const { promise: made, resolve } = Promise.withResolvers<void>();
  it = await streamed(t, async (listener) => {
    await made;
    await it?.end();
    listener.frames(text("one") + statusFrame(standing("r1", "completed")), null);
  });
  resolve();

  await eventually("the end of the stream", async () => it.isOver() || undefined);

  assert.deepEqual(it.events(), ["run_accepted", "text_delta", "run_status completed", "final completed"]);
});

test("DUR-005 a stream omits the status of the thread's other runs, and ends with its own", async (t) => {
  const it = await streamed(t, async () => {});
  await eventually("what it says first", async () => it.events().includes("run_status running") || undefined);

  it.hears(text("one") + statusFrame(standing("r2", "completed")));
  await turn();
  const before = [it.events(), it.isOver()];
  await it.end();
  it.hears(statusFrame(standing("r1", "completed")));
  await eventually("the end of the stream", async () => it.isOver() || undefined);

  assert.deepEqual(before, [["run_accepted", "run_status running", "text_delta"], false]);
  assert.deepEqual(it.events().slice(3), ["run_status completed", "final completed"]);
});

test("DUR-014 a stream waits for the last words of a run that has ended in the store", async (t) => {
  let it: Awaited<ReturnType<typeof streamed>> | undefined;
  const { promise: made, resolve } = Promise.withResolvers<void>();
  const { promise: ended, resolve: ends } = Promise.withResolvers<void>();
  it = await streamed(t, async (listener) => {
    await made;
    await it?.end();
    // The frame makes the stream read the store, which has newer data.
    listener.frames(statusFrame(standing("r1", "running")), null);
    ends();
  });
  resolve();
  await ended;
  for (let turns = 0; turns < 50; turns++) await turn();
  const before = [it.events(), it.isOver()];

  it.hears(`id: 1\n${text("its last")}`, 1);
  await eventually("the end of the stream", async () => it.isOver() || undefined);

  assert.deepEqual(before, [["run_accepted", "run_status running"], false]);
  assert.deepEqual(it.events().slice(2), ["text_delta", "run_status completed", "final completed"]);
});

test("DUR-014 a stream without its last frames ends a second later", async (t) => {
  let it: Awaited<ReturnType<typeof streamed>> | undefined;
  const { promise: made, resolve } = Promise.withResolvers<void>();
  it = await streamed(t, async (listener) => {
    await made;
    await it?.end();
    listener.frames(statusFrame(standing("r1", "running")), null);
  });
  resolve();

  await eventually("the end of the stream", async () => it.isOver() || undefined);

  assert.deepEqual(it.events().slice(2), ["run_status completed", "final completed"]);
});
