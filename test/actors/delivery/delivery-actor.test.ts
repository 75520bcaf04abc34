// Deliveries from their first batch to their end, in simulated time.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Webhook } from "standardwebhooks";
import { sweepMs } from "../../../actors/runtime/idle-sweep.ts";
import { FairSemaphore } from "../../../bus/queues/fair-semaphore.ts";
import { deliveryStates, nextDueMs, outboxOps, releaseDeliveries } from "../../../storage/tables/deliveries.ts";
import { Sim } from "../../support/sim-env.ts";
import { cleanup } from "../../support/temp.ts";
import { minute, secret, world } from "./world.ts";

const atEnd = cleanup();
const fail = { status: 500 };

describe("one delivery", () => {
  test("HOOK-014 is sent within a second of its batch", async () => {
    const { sim, end, sent, states, assertSound } = await world(atEnd);
    const before = sim.now;

    await end("run_fib_1", ["ops"]);
    await sim.advance(1_000);

    assert.equal(sent.length, 1);
    assert.ok((sent[0]?.at ?? 0) - before < 1_000);
    assert.deepEqual(states(), { run_fib_1_ops: "delivered" });
    assertSound();
  });

  test("HOOK-004 HOOK-005 HOOK-006 HOOK-007 has its id, time, signature and User-Agent", async () => {
    const { sim, end, sent } = await world(atEnd, { answer: (_host, nth) => (nth === 0 ? fail : { status: 200 }) });

    await end("run_fib_1", ["ops"]);
    await sim.advance(2 * minute);

    assert.equal(sent.length, 2);
    for (const { at, headers, body } of sent) {
      assert.deepEqual(
        [headers["content-type"], headers["user-agent"], headers["webhook-id"], headers["webhook-timestamp"]],
        ["application/json", "svc-webhooks/1.2.3", "run_fib_1_ops", String(Math.floor(at / 1000))],
      );
      assert.equal(headers["webhook-signature"], new Webhook(secret).sign("run_fib_1_ops", new Date(at), body));
    }
    assert.deepEqual([sent[0]?.body, sent[1]?.body], ['{"of":"run_fib_1"}', '{"of":"run_fib_1"}']);
    assert.notEqual(sent[0]?.headers["webhook-signature"], sent[1]?.headers["webhook-signature"]);
  });

  test("HOOK-012 HOOK-015 is retried at 1, 2, 4, 8, 16, 32 and 60 minutes", async () => {
    const { sim, end, sent, rows, counted, sweepEachMinute } = await world(atEnd, { answer: () => fail });
    sweepEachMinute();

    await end("run_fib_1", ["ops"]);
    await sim.advance(3 * 3_600_000);

    const waits = sent.slice(1).map(({ at }, index) => Math.round((at - (sent[index]?.at ?? 0)) / 1000));
    assert.deepEqual(waits, [60, 120, 240, 480, 960, 1920, 3600]);
    assert.deepEqual(rows(), [
      { id: "run_fib_1_ops", endpoint_id: "ops", state: "dead", attempts: 8, body: "", claimed_by: null },
    ]);
    assert.deepEqual(counted, {
      "svc_webhook_delivery_total run ops retry": 7,
      "svc_webhook_delivery_total run ops dead": 1,
    });
  });

  test("HOOK-012 waits an hour at most, for the configured number of attempts", async () => {
    const { sim, end, sent, states, sweepEachMinute } = await world(atEnd, {
      answer: () => fail,
      settings: { webhookMaxAttempts: 10 },
    });
    sweepEachMinute();

    await end("run_fib_1", ["ops"]);
    await sim.advance(6 * 3_600_000);

    const waits = sent.slice(1).map(({ at }, index) => Math.round((at - (sent[index]?.at ?? 0)) / minute));
    assert.deepEqual(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    assert.deepEqual(states(), { run_fib_1_ops: "dead" });
  });

  const pauses: [string, number, string | undefined, number][] = [
    ["a longer Retry-After", 429, "300", 300],
    ["a Retry-After shorter than the back-off", 503, "1", 60],
    ["a Retry-After beyond an hour", 503, "86400", 3600],
    ["a Retry-After that is no number and no date", 503, "soon", 60],
    ["status 410, which may be an outage of its router,", 410, undefined, 60],
  ];
  for (const [name, status, retryAfter, seconds] of pauses) {
    test(`HOOK-012 ${name} is followed by an attempt ${seconds} s later`, async () => {
      const { sim, end, sent, sweepEachMinute } = await world(atEnd, {
        answer: (_host, nth) =>
          nth === 0 ? { status, ...(retryAfter !== undefined && { retryAfter }) } : { status: 200 },
      });
      sweepEachMinute();

      await end("run_fib_1", ["ops"]);
      await sim.advance(2 * 3_600_000);

      const [first, second] = sent;
      assert.equal(sent.length, 2);
      const waited = Math.round(((second?.at ?? 0) - (first?.at ?? 0)) / 1000);
      assert.ok(waited >= seconds && waited <= seconds + 61, `${waited} s`);
    });
  }

  const cured: [string, Record<string, object>, number, string, RegExp][] = [
    [
      "status 410",
      { ops: {} },
      410,
      "status 410",
      /gone for good: correct its url in SVC_WEBHOOK_ENDPOINTS, or remove/,
    ],
    ["a missing secret", { ops: { secret: "secret:GONE" } }, 200, "no usable secret", /set the SVC_SECRET_ variable/],
    ["an address that is blocked", { ops: {} }, 0, "blocked", /set private: true in SVC_WEBHOOK_ENDPOINTS/],
    ["a plain failure", { ops: {} }, 500, "status 500", /^undefined$/],
  ];
  for (const [name, endpoints, status, reason, cure] of cured) {
    test(`HOOK-012 the log line of ${name} advises an action, if one helps`, async () => {
      const { sim, end, logged } = await world(atEnd, {
        endpoints,
        answer: () => (status === 0 ? "blocked" : { status }),
      });

      await end("run_fib_1", ["ops"]);
      await sim.advance(1_000);

      const [line] = logged;
      assert.deepEqual([line?.msg, line?.reason, line?.outcome], ["a webhook attempt failed", reason, "retry"]);
      assert.match(String(line?.cure), cure);
    });
  }

  test("HOOK-015 is pending until taken, then delivered, and its body is deleted", async () => {
    const { sim, end, rows, store, counted } = await world(atEnd, {
      answer: (_host, nth) => (nth < 1 ? fail : { status: 204 }),
    });

    await end("run_fib_1", ["ops"]);
    await sim.advance(30_000);
    const [pending] = rows();
    const told = await sim.until(deliveryStates(store.tenant("acme"), "run_fib_1"));
    await sim.advance(minute);

    assert.deepEqual([pending?.state, pending?.attempts, pending?.body], ["pending", 1, '{"of":"run_fib_1"}']);
    assert.deepEqual(told, { ops: "pending" });
    assert.deepEqual(rows(), [
      { id: "run_fib_1_ops", endpoint_id: "ops", state: "delivered", attempts: 2, body: "", claimed_by: null },
    ]);
    assert.deepEqual(counted, {
      "svc_webhook_delivery_total run ops retry": 1,
      "svc_webhook_delivery_total run ops delivered": 1,
    });
  });

  test("HOOK-011 a hanging endpoint has the configured time, and no more", async () => {
    const { sim, end, rows, underWay, slots } = await world(atEnd, { answer: () => "hang" });

    await end("run_fib_1", ["ops"]);
    await sim.advance(9_900);
    const open = underWay.get("ops.example")?.now;
    await sim.advance(1_000);

    assert.deepEqual([open, underWay.get("ops.example")?.now], [1, 0]);
    assert.equal(rows()[0]?.attempts, 1);
    assert.ok(slots.every(({ taken }) => taken === 0));
  });

  test("the duty of each minute sends a delivery whose hint was lost", async () => {
    const { sim, store, sent, sweepEachMinute } = await world(atEnd);
    sweepEachMinute();
    await sim.advance(1_000);
    const tenant = store.tenant("acme");

    await sim.until(
      tenant.write(outboxOps(tenant, { source: "run_1", type: "run.failed", body: "{}", endpoints: ["ops"] })),
    );
    await sim.advance(1_000);
    assert.equal(sent.length, 0);
    await sim.advance(minute);

    assert.equal(sent.length, 1);
  });

  test("with several secrets it is signed with each", async () => {
    const older = "an older secret, in plain words";
    const { sim, end, sent } = await world(atEnd, { endpoints: { ops: { secret: [secret, older] } } });

    await end("run_1", ["ops"]);
    await sim.advance(1_000);

    const { at, body, headers } = sent[0] as (typeof sent)[0];
    const raw = new Webhook(new TextEncoder().encode(older), { format: "raw" });
    assert.deepEqual(headers["webhook-signature"]?.split(" "), [
      new Webhook(secret).sign("run_1_ops", new Date(at), body),
      raw.sign("run_1_ops", new Date(at), body),
    ]);
  });

  test("uses the public egress, and only a private endpoint the operator's", async () => {
    const { sim, end, sent } = await world(atEnd, { endpoints: { ops: {}, intern: { private: true } } });

    await end("run_1", ["ops", "intern"]);
    await sim.advance(1_000);

    assert.deepEqual(Object.fromEntries(sent.map(({ host, policy }) => [host, policy])), {
      "ops.example": "public",
      "intern.example": "operator",
    });
  });
});

describe("many deliveries", () => {
  test("a hanging endpoint delays only itself", async () => {
    const { sim, end, sent, states, underWay } = await world(atEnd, {
      endpoints: { slow: {}, ops: {} },
      answer: (host) => (host === "slow.example" ? "hang" : { status: 200 }),
    });

    for (let run = 0; run < 60; run++) await end(`run_${String(run).padStart(2, "0")}`, ["slow", "ops"]);
    await sim.advance(1_000);

    assert.equal(
      Object.entries(states()).filter(([id, state]) => id.endsWith("_ops") && state === "delivered").length,
      60,
    );
    assert.equal(underWay.get("slow.example")?.most, 16);
    await sim.advance(45_000);
    assert.equal(
      new Set(sent.filter(({ host }) => host === "slow.example").map(({ headers }) => headers["webhook-id"])).size,
      60,
    );
  });

  test("a tenant with hanging endpoints delays no other, even at the same endpoint", async () => {
    const endpoints = Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`slow${index}`, {}]));
    const { sim, end, states, sent } = await world(atEnd, {
      endpoints,
      answer: (_host, _nth, { body }) => (body.includes("mallory") ? "hang" : { status: 200 }),
    });
    for (let run = 0; run < 20; run++) await end(`run_mallory_${run}`, Object.keys(endpoints), "mallory");
    await sim.advance(500);

    const before = sim.now;
    await end("run_good", ["slow0", "slow7"], "acme");
    await sim.advance(1_000);

    assert.equal(states().run_good_slow0, "delivered");
    assert.equal(states().run_good_slow7, "delivered");
    for (const { at, body } of sent) if (body.includes("good")) assert.ok(at - before < 1_000);
  });

  test("a tenant without a slot gets the next free one when all slots are taken", async () => {
    const { sim, end, states } = await world(atEnd, {
      endpoints: { a: {}, b: {}, ops: {} },
      slots: new FairSemaphore(8, 8),
      answer: (host) => (host === "ops.example" ? { status: 200 } : { status: 200, afterMs: 5_000 }),
    });
    for (let run = 0; run < 40; run++) await end(`run_${run}`, ["a", "b"], "mallory");
    await sim.advance(100);

    await end("run_good", ["ops"], "acme");
    await sim.advance(5_100);

    assert.equal(states().run_good_ops, "delivered");
    await sim.advance(60_000);
    assert.deepEqual(new Set(Object.values(states())), new Set(["delivered"]));
  });

  test("five hundred are each sent once, sixteen at a time", async () => {
    const { sim, endMany, sent, states, underWay, assertSound } = await world(atEnd, {
      answer: () => ({ status: 200, afterMs: 20 }),
    });

    await endMany(500, ["ops"]);
    await sim.advance(5_000);

    assert.equal(sent.length, 500);
    assert.equal(underWay.get("ops.example")?.most, 16);
    assert.deepEqual(new Set(Object.values(states())), new Set(["delivered"]));
    assertSound();
  });

  test("an attempt holds its slot until the end of the answer's body", async () => {
    const { sim, endMany, sent, underWay } = await world(atEnd, { answer: () => ({ status: 200, bodyMs: 5_000 }) });

    await endMany(40, ["ops"]);
    await sim.advance(4_000);
    const begun = sent.length;
    await sim.advance(30_000);

    assert.deepEqual([begun, sent.length, underWay.get("ops.example")?.most], [16, 40, 16]);
  });

  test("deliveries of many tenants and endpoints leave nothing in memory when they end", async () => {
    const { sim, end, net } = await world(atEnd, { endpoints: { a: {}, b: {} } });
    for (let tenant = 0; tenant < 30; tenant++) await end("run_1", ["a", "b"], `t${tenant}`);
    await sim.advance(1_000);
    const before = net.node(0).host.size + net.node(1).host.size;

    await sim.advance(60_000 + 2 * sweepMs);

    assert.equal(before, 60);
    assert.equal(net.node(0).host.size + net.node(1).host.size, 0);
  });
});

describe("a removed endpoint", () => {
  for (const [how, endpoints] of [
    ["removed", { other: {} }],
    ["narrowed", { ops: { tenants: ["globex"] } }],
  ] as const)
    test(`HOOK-016 deliveries to an endpoint that was ${how} die unsent, also those due later`, async () => {
      const before = await world(atEnd, { answer: () => fail });
      await before.end("run_1", ["ops"]);
      await before.sim.advance(5 * minute);
      await before.end("run_2", ["ops"]);
      before.kill();
      const attempts = before.sent.length;

      const after = await world(atEnd, { sim: before.sim, disk: before.disk, host: "next", endpoints });
      await after.sim.until(releaseDeliveries(after.store.system, { hostsBut: "next" }));
      after.sweepEachMinute();
      await after.sim.advance(1_000);

      assert.ok(attempts >= 1);
      assert.deepEqual(after.sent, []);
      assert.deepEqual(after.states(), { run_1_ops: "dead", run_2_ops: "dead" });
      assert.deepEqual(
        after.rows().map(({ body }) => body),
        ["", ""],
      );
    });

  test("HOOK-016 deliveries of another tenant continue", async () => {
    const { sim, end, states } = await world(atEnd, { endpoints: { ops: { tenants: ["globex"] } } });

    await end("run_1", ["ops"], "acme");
    await end("run_2", ["ops"], "globex");
    await sim.advance(1_000);

    assert.deepEqual(states(), { run_1_ops: "dead", run_2_ops: "delivered" });
  });
});

describe("lost deliveries", () => {
  test("a process that dies during a send: the next one sends at once, with the same id", async () => {
    const before = await world(atEnd, { answer: () => "hang" });
    await before.end("run_1", ["ops"]);
    await before.sim.advance(2_000);
    before.kill();

    const after = await world(atEnd, { sim: before.sim, disk: before.disk, host: "next" });
    await after.sim.until(releaseDeliveries(after.store.system, { hostsBut: "next" }));
    after.sweepEachMinute();
    await after.sim.advance(1_000);

    assert.deepEqual(
      [...before.sent, ...after.sent].map(({ headers, body }) => [headers["webhook-id"], body]),
      [
        ["run_1_ops", '{"of":"run_1"}'],
        ["run_1_ops", '{"of":"run_1"}'],
      ],
    );
    assert.deepEqual(after.states(), { run_1_ops: "delivered" });
  });

  test("an abandoned claim expires, and its former holder can no longer write", async () => {
    const first = await world(atEnd, { answer: () => ({ status: 500, afterMs: 9_000 }) });
    await first.end("run_1", ["ops"]);
    await first.sim.advance(1_000);
    for (const node of [0, 1]) first.net.node(node).env.stall();

    const second = await world(atEnd, { sim: first.sim, disk: first.disk, host: "second" });
    second.sweepEachMinute();
    await second.sim.advance(3 * minute);
    assert.deepEqual(second.states(), { run_1_ops: "delivered" });
    for (const node of [0, 1]) first.net.node(node).env.goOn();
    await first.sim.advance(minute);

    assert.equal(second.sent.length, 1);
    assert.deepEqual(second.states(), { run_1_ops: "delivered" });
    assert.equal(first.counted.svc_webhook_lost_claims_total, 1);
  });

  test("two processes at the same moment send each delivery once", async () => {
    for (let seed = 0; seed < 5; seed++) {
      const first = await world(atEnd, { sim: new Sim(seed), host: "first" });
      const second = await world(atEnd, { sim: first.sim, disk: first.disk, host: "second" });
      await first.endMany(40, ["ops"]);
      second.wake("acme", "ops");
      await first.sim.advance(20_000);

      const ids = [...first.sent, ...second.sent].map(({ headers }) => headers["webhook-id"]);
      assert.equal(ids.length, 40);
      assert.equal(new Set(ids).size, 40);
    }
  });

  test("a store that refuses delays a delivery and loses none", async () => {
    const { sim, end, stores, states, assertSound } = await world(atEnd);
    for (const store of stores) store.refused = "deliveries_claim";
    await end("run_1", ["ops"]);
    await sim.advance(20_000);
    const before = states();

    for (const store of stores) store.refused = null;
    await sim.advance(6_000);

    assert.deepEqual([before, states()], [{ run_1_ops: "pending" }, { run_1_ops: "delivered" }]);
    assertSound();
  });

  test("an unwritten outcome is sent again when the claim has expired, not before", async () => {
    const { sim, end, stores, sent, states, sweepEachMinute } = await world(atEnd);
    sweepEachMinute();
    for (const store of stores) store.refused = "delivery_end";
    await end("run_1", ["ops"]);
    await sim.advance(30_000);
    const before = sent.length;

    for (const store of stores) store.refused = null;
    await sim.advance(3 * minute);

    assert.deepEqual([before, sent.length], [1, 2]);
    assert.deepEqual(states(), { run_1_ops: "delivered" });
  });

  test("a process that ends starts no delivery, awaits active ones and leaves later ones", async () => {
    const { sim, end, slots, net, sent, store } = await world(atEnd, {
      endpoints: { ops: {}, bad: {} },
      answer: (host) => (host === "bad.example" ? fail : { status: 200, afterMs: 4_000 }),
    });
    await end("run_1", ["ops", "bad"]);
    await sim.advance(1_000);
    const busy = () => net.node(0).host.busyCount() + net.node(1).host.busyCount();

    for (const each of slots) each.stopped = true;
    await end("run_2", ["ops"]);
    const before = busy();
    await sim.advance(5_000);

    assert.deepEqual([before, busy(), sent.length], [1, 0, 2]);
    assert.equal(await sim.until(nextDueMs(store.tenant("acme"), "ops")), 0);
  });
});
