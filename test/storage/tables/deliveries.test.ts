import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Store, TenantStore } from "../../../storage/store/store.ts";
import {
  claimDeliveries,
  deleteEndedDeliveries,
  deliveryStates,
  endDeliveryOp,
  endpointsDue,
  giveUpSome,
  nextDueMs,
  oldestDeliveryMs,
  outboxOps,
  putOffDeliveryOp,
  releaseDeliveries,
} from "../../../storage/tables/deliveries.ts";
import { enterHostOps, lapseOthersOp } from "../../../storage/tables/hosts.ts";
import { outcomeOf } from "../../support/outcome.ts";
import { dialects, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const hour = 3_600_000;

for (const dialect of dialects)
  describe(`deliveries on ${dialect}`, async () => {
    const atEnd = cleanup();
    const { store, another } = await testStore(dialect, atEnd);
    let tenants = 0;
    const tenant = (): TenantStore => store.tenant(`tenant-${++tenants}`);

    test("are written with the fact that they report, or not at all", async () => {
      const own = tenant();
      const [op] = outboxOps(own, outcome("run_1", ["ops"]));
      assert.ok(op);

      await refusal(own.write([op, endDeliveryOp(own, { id: "other", claim: 0 }, "dead")]), "conflict");
      assert.deepEqual(await deliveryStates(own, "run_1"), {});
      await own.write([op]);
      assert.deepEqual(await deliveryStates(own, "run_1"), { ops: "pending" });
    });

    test("stay the same when they are written again", async () => {
      const own = tenant();
      await own.write(outboxOps(own, outcome("run_1", ["ops"], "first")));

      await own.write(outboxOps(own, outcome("run_1", ["ops", "more"], "second")));

      const claimed = [...(await claim(own, "ops")), ...(await claim(own, "more"))];
      assert.deepEqual(
        claimed.map(({ id, body, type, attempts, claim: number }) => [id, body, type, attempts, number]),
        [
          ["run_1_ops", "first", "run.completed", 0, 1],
          ["run_1_more", "second", "run.completed", 0, 1],
        ],
      );
    });

    test("have one claim by one worker, also when many want it at the same moment", async () => {
      const own = tenant();
      const stores: Store[] = [store, another(), another(), another()];
      const ids = Array.from({ length: 60 }, (_, index) => `run_${String(index).padStart(2, "0")}`);
      await own.write(ids.flatMap((id) => outboxOps(own, outcome(id, ["ops"]))));

      const claims = await Promise.all(
        Array.from({ length: 24 }, (_, index) =>
          claim((stores[index % 4] as Store).tenant(own.tenantId), "ops", { owner: `w:${index}`, limit: 5 }),
        ),
      );
      // Postgres may return fewer rows to concurrent claims, but never one row twice.
      const rest = await claim(own, "ops", { limit: 100 });

      const got = [...claims.flat(), ...rest].map(({ id }) => id);
      assert.equal(got.length, 60);
      assert.equal(new Set(got).size, 60);
    });

    test("a worker without the claim writes nothing", async () => {
      const own = tenant();
      await own.write(outboxOps(own, outcome("run_1", ["ops"])));
      const [stalled] = await claim(own, "ops", { forMs: 0 });
      const [holder] = await claim(own, "ops");
      assert.ok(stalled && holder);

      await refusal(own.write([endDeliveryOp(own, stalled, "dead")]), "conflict");
      await refusal(own.write([putOffDeliveryOp(own, stalled, 0)]), "conflict");
      await own.write([endDeliveryOp(own, holder, "delivered")]);
      await refusal(own.write([endDeliveryOp(own, holder, "dead")]), "conflict");

      assert.deepEqual(await deliveryStates(own, "run_1"), { ops: "delivered" });
    });

    test("a delayed delivery is due later, and a finished one never", async () => {
      const own = tenant();
      await own.write([...outboxOps(own, outcome("run_1", ["ops"])), ...outboxOps(own, outcome("run_2", ["ops"]))]);
      const claimed = await claim(own, "ops");
      const [first, second] = claimed.sort((a, b) => a.id.localeCompare(b.id));
      assert.ok(first && second);
      assert.equal(await nextDueMs(own, "ops"), null);

      await own.write([putOffDeliveryOp(own, first, hour), endDeliveryOp(own, second, "dead")]);

      assert.deepEqual(await claim(own, "ops"), []);
      const ms = (await nextDueMs(own, "ops")) ?? 0;
      assert.ok(ms > hour - 30_000 && ms <= hour);
    });

    test("the states of a source belong to it and to one tenant", async () => {
      const [own, other] = [tenant(), tenant()];
      await own.write([
        ...outboxOps(own, outcome("run_a", ["ops"])),
        ...outboxOps(own, outcome("run_ab", ["ops", "x_y"])),
      ]);
      await other.write(outboxOps(other, outcome("run_a", ["theirs"])));

      assert.deepEqual(await deliveryStates(own, "run_a"), { ops: "pending" });
      assert.deepEqual(await deliveryStates(own, "run_ab"), { ops: "pending", x_y: "pending" });
      assert.deepEqual(await claim(other, "ops"), []);
      assert.deepEqual(await giveUpSome(other, "ops"), []);
    });

    test("a removed endpoint loses its waiting deliveries, except those in transit", async () => {
      const own = tenant();
      await own.write(["run_1", "run_2", "run_3"].flatMap((id) => outboxOps(own, outcome(id, ["ops"]))));
      const [sending] = await claim(own, "ops", { limit: 1 });
      assert.ok(sending);

      assert.deepEqual(await giveUpSome(own, "ops"), ["run.completed", "run.completed"]);
      assert.deepEqual(await giveUpSome(own, "ops"), []);

      const states = await Promise.all(["run_1", "run_2", "run_3"].map((id) => deliveryStates(own, id)));
      assert.deepEqual(states.map(({ ops }) => ops).sort(), ["dead", "dead", "pending"]);
      await own.write([endDeliveryOp(own, sending, "delivered")]);
    });

    test("deliveries of a lost worker or host are due again, and no others", async () => {
      const own = tenant();
      const { system } = store;
      await system.write(enterHostOps(system, { id: "here", mode: "cluster", card: null }, hour));
      await own.write(["run_1", "run_2", "run_3"].flatMap((id) => outboxOps(own, outcome(id, [id]))));
      for (const [id, owner] of [
        ["run_1", "here:1:0"],
        ["run_2", "here:2:0"],
        ["run_3", "gone:1:0"],
      ] as const)
        await claim(own, id, { owner });

      await releaseDeliveries(system, { worker: "here:1:0" });
      const ofWorker = await Promise.all(
        ["run_1", "run_2", "run_3"].map((id) => claim(own, id, { owner: "here:1:1" })),
      );
      await releaseDeliveries(system, { hostsBut: "here" });
      const ofHost = await Promise.all(["run_1", "run_2", "run_3"].map((id) => claim(own, id)));
      await system.write([lapseOthersOp(system, "nobody", "cluster")]);

      assert.deepEqual(
        [ofWorker, ofHost].map((claims) => claims.map(({ length }) => length)),
        [
          [1, 0, 0],
          [0, 0, 1],
        ],
      );
    });

    test("tenants with due deliveries are found in pages", async () => {
      const { store: fresh } = await testStore(dialect, atEnd);
      for (const id of ["b", "a"]) {
        const own = fresh.tenant(id);
        await own.write([...outboxOps(own, outcome("run_1", ["x", "y"])), ...outboxOps(own, outcome("run_2", ["x"]))]);
      }
      const later = fresh.tenant("a");
      const [row] = await claim(later, "y");
      assert.ok(row);
      await later.write([putOffDeliveryOp(later, row, hour)]);

      const endpoints: string[] = [];
      for (let after = { tenant_id: "", endpoint_id: "" }; ; ) {
        const page = await endpointsDue(fresh.system, 60_000, after, 2);
        endpoints.push(...page.map(({ tenant_id, endpoint_id }) => `${tenant_id}/${endpoint_id}`));
        const last = page.at(-1);
        if (!last) break;
        after = last;
      }

      assert.deepEqual(endpoints, ["a/x", "b/x", "b/y"]);
      assert.equal((await endpointsDue(fresh.system, 2 * hour, { tenant_id: "", endpoint_id: "" }, 10)).length, 4);
    });

    test("the oldest age is reported, and finished deliveries expire", async () => {
      const { store: fresh } = await testStore(dialect, atEnd);
      const own = fresh.tenant("acme");
      assert.equal(await oldestDeliveryMs(fresh.system), 0);
      await own.write([...outboxOps(own, outcome("run_1", ["ops"])), ...outboxOps(own, outcome("run_2", ["ops"]))]);
      const [over] = await claim(own, "ops", { limit: 1 });
      assert.ok(over);
      await own.write([endDeliveryOp(own, over, "delivered")]);

      assert.equal(await deleteEndedDeliveries(fresh.system, Date.now() - hour, 10), 0);
      assert.equal(await deleteEndedDeliveries(fresh.system, Date.now() + hour, 10), 1);

      const left = { ...(await deliveryStates(own, "run_1")), ...(await deliveryStates(own, "run_2")) };
      assert.deepEqual(left, { ops: "pending" });
      assert.ok((await oldestDeliveryMs(fresh.system)) < 60_000);
    });
  });

async function refusal(asked: Promise<unknown>, code: string): Promise<void> {
  assert.deepEqual(await outcomeOf(asked), { refused: code });
}

function outcome(source: string, endpoints: readonly string[], body = "{}") {
  return { source, type: "run.completed", body, endpoints };
}

function claim(
  store: TenantStore,
  endpoint: string,
  { owner = "here:9:0", forMs = hour, limit = 10 }: { owner?: string; forMs?: number; limit?: number } = {},
) {
  return claimDeliveries(store, endpoint, { owner, forMs, limit });
}
