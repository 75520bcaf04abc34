import assert from "node:assert/strict";
import { once } from "node:events";
import { before, describe, test } from "node:test";
import { Worker } from "node:worker_threads";
import { systemEnv } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { openStore } from "../../storage/client.ts";
import { type Param, statementNamed, tenantSql } from "../../storage/store/statements.ts";
import { appendOp, type LogEvent, readEvents } from "../../storage/tables/events.ts";
import { kvCompareAndSetOp, kvGet, kvSetOp } from "../../storage/tables/kv.ts";
import { manifestVersion, manifestVersions } from "../../storage/tables/manifests.ts";
import { insertVersions } from "../support/rows.ts";
import "../support/all-tables.ts";
import { createStore, type TenantStore, type WriteOp } from "../../storage/store/store.ts";
import { reserveThreadKeys } from "../../storage/tables/threads.ts";
import { dialects, runStore, type TestStore, testStore } from "../support/stores.ts";
import { cleanup } from "../support/temp.ts";

/** Declared in this thread only, so the store thread does not know it. */
const nonsense = tenantSql("test_nonsense", "NONSENSE :tenant ?");

for (const dialect of dialects) {
  describe(`the engine's contract on ${dialect}`, () => {
    const atEnd = cleanup();
    let running: TestStore;
    let count = 0;
    before(async () => {
      running = await testStore(dialect, atEnd);
    });

    /** A tenant that no other test uses. */
    function freshTenant(): TenantStore {
      count++;
      return running.store.tenant(`tenant-${count}`);
    }

    const set = (tenant: TenantStore, key: string, value: string): WriteOp =>
      kvSetOp(tenant, { key, value, expires_at: null }, 1);
    const create = (tenant: TenantStore, key: string, value: string): WriteOp =>
      kvCompareAndSetOp(tenant, { key, value, expires_at: null }, null, 1);

    test("a batch is applied whole, and answers the rows of its statements in order", async () => {
      const tenant = freshTenant();

      const answers = await tenant.write([
        set(tenant, "a", "1"),
        ...insertVersions(tenant, "m", 1),
        set(tenant, "a", "2"),
        set(tenant, "b", "3"),
      ]);

      assert.deepEqual(answers, [[{ version: 1 }], [{ version: 2 }], [{ version: 1 }]]);
      assert.equal((await kvGet(tenant, "a", 0))?.value, "2");
      assert.equal((await manifestVersion(tenant, "m", 1))?.comment, "made by a test");
    });

    test("an empty batch is applied", async () => {
      assert.deepEqual(await freshTenant().write([]), []);
    });

    for (const place of [0, 1, 2]) {
      test(`a wrong count at place ${place} undoes the whole batch with a conflict`, async () => {
        const tenant = freshTenant();
        await tenant.write([set(tenant, "taken", "old")]);
        const ops = [set(tenant, "x", "1"), set(tenant, "y", "1")];
        ops.splice(place, 0, create(tenant, "taken", "new"));

        await assert.rejects(tenant.write(ops), { code: "conflict", details: { subject: "kv_create" } });

        assert.deepEqual(await Promise.all(["x", "y"].map((key) => kvGet(tenant, key, 0))), [undefined, undefined]);
        assert.equal((await kvGet(tenant, "taken", 0))?.value, "old");
      });

      test(`a taken key at place ${place} undoes the whole batch with a conflict`, async () => {
        const tenant = freshTenant();
        await tenant.write(insertVersions(tenant, "m", 1));
        const ops = [set(tenant, "x", "1"), set(tenant, "y", "1")];
        ops.splice(place, 0, ...insertVersions(tenant, "m", 1));

        await assert.rejects(tenant.write(ops), { code: "conflict", details: { subject: "manifest_versions_insert" } });

        assert.deepEqual(await Promise.all(["x", "y"].map((key) => kvGet(tenant, key, 0))), [undefined, undefined]);
      });
    }

    test("an expected count covers changed, inserted, deleted and returned rows, zero too", async () => {
      const tenant = freshTenant();
      await tenant.write([...insertVersions(tenant, "m", 1, 2, 3), set(tenant, "k", "v")]);
      const select = statementNamed("manifest_versions");
      const remove = statementNamed("kv_delete");
      const update = statementNamed("kv_replace");

      const answers = await tenant.write([
        tenant.op(select, ["m", 10, 10], 3),
        tenant.op(select, ["other", 10, 10], 0),
        tenant.op(update, ["w", null, 1, 1, "k", 1, 0], 1),
        tenant.op(update, ["w", null, 1, 1, "k", 1, 0], 0),
        tenant.op(remove, ["k"], 1),
        tenant.op(remove, ["k"], 0),
      ]);

      assert.deepEqual(
        answers.map((rows) => rows.length),
        [3, 0, 1, 0],
      );
      assert.deepEqual(
        answers[0]?.map((row) => row.version),
        [3, 2, 1],
      );
      for (const [statement, params, expect] of [
        [select, ["m", 10, 10], 2],
        [select, ["m", 10, 10], 0],
        [select, ["other", 10, 10], 1],
        [remove, ["k"], 1],
      ] as const)
        await assert.rejects(tenant.write([tenant.op(statement, params, expect)]), { code: "conflict" });
    });

    test("a later statement of a batch sees the effect of an earlier one", async () => {
      const tenant = freshTenant();

      const answers = await tenant.write([
        create(tenant, "k", "1"),
        kvCompareAndSetOp(tenant, { key: "k", value: "2", expires_at: null }, 1, 1),
        kvCompareAndSetOp(tenant, { key: "k", value: "3", expires_at: null }, 2, 1),
      ]);

      assert.deepEqual(answers.flat(), [{ version: 1 }, { version: 2 }, { version: 3 }]);
    });

    test("a refused batch fails alone in its group", async () => {
      const tenant = freshTenant();
      await tenant.write([set(tenant, "taken", "old")]);

      const batches = Array.from({ length: 100 }, (_, i) =>
        i % 7 === 3 ? [set(tenant, `k${i}`, "no"), create(tenant, "taken", "new")] : [set(tenant, `k${i}`, "yes")],
      );
      const outcomes = await Promise.allSettled(batches.map((ops) => tenant.write(ops)));

      for (const [i, outcome] of outcomes.entries()) {
        assert.equal(outcome.status, i % 7 === 3 ? "rejected" : "fulfilled", `batch ${i}`);
        assert.equal((await kvGet(tenant, `k${i}`, 0))?.value, i % 7 === 3 ? undefined : "yes");
      }
    });

    test("an acknowledged write is visible to the next read of every other thread", async () => {
      const others = [running.another(), running.another()];
      const tenant = freshTenant();

      for (let i = 1; i <= 50; i++) {
        await tenant.write([set(tenant, "k", String(i))]);
        const seen = await Promise.all(others.map((store) => kvGet(store.tenant(tenant.tenantId), "k", 0)));
        assert.deepEqual(
          seen.map((entry) => entry?.value),
          [String(i), String(i)],
        );
      }
    });

    test("an acknowledged write is visible in another worker thread", async () => {
      const tenant = freshTenant();
      const port = running.thread.attach();
      const program = `
        const { parentPort, workerData } = require("node:worker_threads");
        void (async () => {
          const { openStore } = await import(workerData.client);
          const { systemEnv } = await import(workerData.env);
          const { kvGet, kvSetOp } = await import(workerData.kv);
          const store = openStore(systemEnv(), workerData.config, workerData.port);
          parentPort.on("message", async ({ tenant, key }) => {
            const scope = store.tenant(tenant);
            const found = await kvGet(scope, key, 0);
            await scope.write([kvSetOp(scope, { key: key + "-answer", value: found.value, expires_at: null }, 1)]);
            parentPort.postMessage("written");
          });
        })();`;
      const url = (path: string) => new URL(path, import.meta.url).href;
      const worker = new Worker(program, {
        eval: true,
        execArgv: ["--import", url("../../strip-types.js")],
        workerData: {
          config: running.config,
          port,
          client: url("../../storage/client.ts"),
          env: url("../../bus/env.ts"),
          kv: url("../../storage/tables/kv.ts"),
        },
        transferList: [port],
      });

      try {
        for (let i = 0; i < 20; i++) {
          await tenant.write([set(tenant, `k${i}`, `v${i}`)]);
          const written = once(worker, "message");
          worker.postMessage({ tenant: tenant.tenantId, key: `k${i}` });
          await written;
          assert.equal((await kvGet(tenant, `k${i}-answer`, 0))?.value, `v${i}`);
        }
      } finally {
        await worker.terminate();
      }
    });

    test("one of many concurrent claims of a key succeeds, and no increment is lost", async () => {
      const tenant = freshTenant();
      const claims = await Promise.allSettled(
        Array.from({ length: 40 }, (_, i) =>
          tenant.write([create(tenant, "claim", String(i)), set(tenant, `mine-${i}`, "1")]),
        ),
      );
      const winners = claims.flatMap(({ status }, i) => (status === "fulfilled" ? [i] : []));
      const firsts = await Promise.all(Array.from({ length: 40 }, () => reserveThreadKeys(running.store.system, 5)));

      assert.equal(winners.length, 1);
      assert.equal((await kvGet(tenant, "claim", 0))?.value, String(winners[0]));
      for (let i = 0; i < 40; i++) assert.equal((await kvGet(tenant, `mine-${i}`, 0)) !== undefined, i === winners[0]);
      const sorted = firsts.toSorted((a, b) => a - b);
      assert.deepEqual(
        sorted,
        Array.from({ length: 40 }, (_, i) => (sorted[0] as number) + 5 * i),
      );
    });

    test("batches that lock the same rows in opposite orders all succeed", async () => {
      const tenant = freshTenant();
      await tenant.write([set(tenant, "a", "0"), set(tenant, "b", "0")]);

      const rounds = Array.from({ length: 20 }, (_, i) => {
        const ops = [set(tenant, "a", String(i)), set(tenant, "b", String(i))];
        return tenant.write(i % 2 ? ops : ops.toReversed());
      });
      const outcomes = await Promise.allSettled(rounds);

      // Postgres detects a deadlock and the store retries the loser a bounded number of times.
      const refusals = outcomes.flatMap((outcome) => (outcome.status === "rejected" ? [outcome.reason.code] : []));
      assert.deepEqual(
        refusals.filter((code) => code !== "conflict"),
        [],
      );
      assert.equal((await kvGet(tenant, "a", 0))?.value, (await kvGet(tenant, "b", 0))?.value);
    });

    test("a statement declared in this thread only works: its first use sends its text", async () => {
      const tenant = freshTenant();
      const count = tenantSql(`count_of_${dialect}`, "SELECT COUNT(*) AS found FROM kv WHERE tenant_id = :tenant");

      await tenant.write([set(tenant, "x", "1")]);
      const counted = [await tenant.write([tenant.op(count, [])]), await tenant.write([tenant.op(count, [])])];

      assert.deepEqual(counted, [[[{ found: 1 }]], [[{ found: 1 }]]]);
    });

    test("a batch with an invalid statement is a defect and not a conflict", async () => {
      const tenant = freshTenant();
      const nonsense = { sqlite: "NONSENSE", postgres: "NONSENSE" };
      const stranger = { ...statementNamed("kv_set"), name: `nonsense_on_${dialect}`, text: nonsense };

      await assert.rejects(
        tenant.write([
          set(tenant, "x", "1"),
          { statement: stranger, params: ["t", "k", "v", 1, null], expect: undefined },
        ]),
        { code: "internal_error" },
      );

      assert.equal(await kvGet(tenant, "x", 0), undefined);
    });

    test("a value of the wrong type is a defect, and undoes its batch", {
      skip: dialect === "sqlite" && "columns take any type",
    }, async () => {
      const tenant = freshTenant();

      await assert.rejects(
        tenant.write([set(tenant, "x", "1"), tenant.op(statementNamed("kv_set"), ["k", "v", "not a number", null])]),
        { code: "internal_error" },
      );

      assert.equal(await kvGet(tenant, "x", 0), undefined);
    });

    test("values are read as written: large, empty, of every script, beyond 2^52, null", async () => {
      const tenant = freshTenant();
      const texts = [
        "",
        "x".repeat(3_000_000),
        "é ü ß 漢字 😀 \u202e \u0001 \ufffe",
        "'; DROP TABLE kv; --",
        "\\",
        "$1 ? :tenant",
        "{}",
        "NULL",
      ];
      const numbers = [0, -1, 2 ** 31, -(2 ** 31) - 1, 2 ** 40 + 1, Number.MAX_SAFE_INTEGER];

      for (const [i, value] of texts.entries()) await tenant.write([set(tenant, `text-${i}`, value)]);
      for (const [i, value] of numbers.entries())
        await tenant.write([kvSetOp(tenant, { key: `number-${i}`, value: "", expires_at: value }, 1)]);

      for (const [i, value] of texts.entries())
        assert.equal((await kvGet(tenant, `text-${i}`, 0))?.value === value, true, `text ${i}`);
      const read = statementNamed("kv_get");
      for (const [i, value] of numbers.entries()) {
        const [row] = await tenant.read(read, `number-${i}`, -Number.MAX_SAFE_INTEGER);
        assert.equal(row?.expires_at, value);
      }
      const [none] = await tenant.read(read, "text-0", 0);
      assert.equal(none?.expires_at, null);
    });

    test("a float is read as written", async () => {
      const tenant = freshTenant();
      const costs = [0.1, 1e-9, 123456.789012345, 0];
      for (const [i, cost] of costs.entries())
        await tenant.write([
          tenant.op(statementNamed("usage_insert"), [
            String(i),
            i,
            "m",
            "r",
            "w",
            "tokens",
            1,
            2,
            3,
            4,
            cost,
            "",
            "{}",
          ]),
        ]);

      const rows = await tenant.read(statementNamed("usage_page"), 100, "", 0, 10);

      assert.deepEqual(
        rows.map((row) => row.cost_usd),
        costs.toReversed(),
      );
      assert.equal(
        rows.every((row) => typeof row.tokens_input === "number"),
        true,
      );
    });

    test("NUL and half a surrogate pair become the replacement character on both engines", async () => {
      const tenant = freshTenant();

      await tenant.write([set(tenant, "a\0b", "c\0d\ud800e")]);

      const found = await kvGet(tenant, "a\0b", 0);
      assert.equal(found?.value, "c\ufffdd\ufffde");
      assert.equal((await kvGet(tenant, "a\ufffdb", 0))?.value, found?.value);
      assert.equal(await kvGet(tenant, "ab", 0), undefined);
    });

    test("rows come in the order of their bytes, whatever the database's language", async () => {
      const tenant = freshTenant();
      const names = ["b", "B", "a", "_", "á", "Z", "é"];
      for (const name of names)
        await tenant.write([tenant.op(statementNamed("manifest_pointers_upsert"), [name, 1, null, 0, 1, "me"])]);

      const rows = await tenant.read(statementNamed("manifest_pointers"));

      assert.deepEqual(
        rows.map((row) => row.name),
        ["B", "Z", "_", "a", "b", "á", "é"],
      );
    });

    test("a thread's log has no gap or duplicate when many append to it in turns", async () => {
      const tenant = freshTenant();
      const key = await reserveThreadKeys(running.store.system, 1);
      const event = (seq: number): LogEvent => ({
        seq,
        parent_seq: seq - 1,
        ts: 1,
        kind: "message",
        role: "user",
        content: `event ${seq}`,
        extra: null,
      });

      let conflicts = 0;
      await Promise.all(
        Array.from({ length: 4 }, async () => {
          for (let seq = 0; seq < 50; ) {
            try {
              await tenant.write([appendOp(tenant, key, event(seq))]);
              seq++;
            } catch (error) {
              assert.equal((error as { code: string }).code, "conflict");
              conflicts++;
              seq++;
            }
          }
        }),
      );

      const events = await readEvents(tenant, key, 0, 1000);
      assert.deepEqual(
        events.map(({ seq }) => seq),
        Array.from({ length: 50 }, (_, i) => i),
      );
      assert.equal(conflicts, 150);
    });

    test("a page is never longer than its limit", async () => {
      const tenant = freshTenant();
      await tenant.write(insertVersions(tenant, "m", ...Array.from({ length: 30 }, (_, i) => i + 1)));

      const page = await manifestVersions(tenant, "m", 20, 5);

      assert.deepEqual(
        page.map(({ version }) => version),
        [19, 18, 17, 16, 15],
      );
    });

    test("check answers while the store works, and there is no failure to report", async () => {
      await running.store.check();

      assert.equal(await running.thread.control.failure(), null);
    });

    test("a defect's cause reaches the owner of the store and not the caller", async () => {
      const tenant = freshTenant();
      const told = new Promise<string>((resolve) => running.thread.onDefect(resolve));

      const refusal = await tenant.write([tenant.op(nonsense, ["key"])]).catch((error: unknown) => error);

      assert.deepEqual(refusal, new SvcError("internal_error"));
      assert.match(await told, /NONSENSE/);
    });

    test("a closed store refuses at once", async () => {
      const store = openStore(systemEnv(), running.config, running.thread.attach());
      const tenant = store.tenant("acme");
      store.close();

      await assert.rejects(tenant.write([set(tenant, "a", "1")]), { code: "storage_unavailable" });
      await assert.rejects(store.check(), { code: "storage_unavailable" });
    });
  });

  test(`closing the store thread on ${dialect} answers earlier requests, and refuses the rest`, async (t) => {
    const atEnd = cleanup(t);
    const { store, thread, config } = await testStore(dialect, atEnd);
    const tenant = store.tenant("acme");
    const writes = Array.from({ length: 300 }, (_, i) =>
      tenant.write([kvSetOp(tenant, { key: `k${i}`, value: "1", expires_at: null }, 1)]),
    );
    const settled = Promise.allSettled(writes);
    await writes[0];

    await thread.close();
    const outcomes = await settled;

    const written = outcomes.filter(({ status }) => status === "fulfilled").length;
    const { store: again } = await runStore(config, atEnd);
    let found = 0;
    for (let i = 0; i < 300; i++) if (await kvGet(again.tenant("acme"), `k${i}`, 0)) found++;
    assert.equal(found, written);
    await assert.rejects(tenant.write([kvSetOp(tenant, { key: "late", value: "1", expires_at: null }, 1)]), {
      code: "storage_unavailable",
    });
  });
}

test("the store binds the tenant in any position, and rejects a wrong parameter count", async () => {
  const seen: (readonly Param[])[] = [];
  const store = createStore({
    inOrder: true,
    write: async (ops) => {
      for (const op of ops) seen.push(op.params);
      return [];
    },
    read: async (_, params) => {
      seen.push(params);
      return [];
    },
    check: async () => {},
    close() {},
  });
  const twice = tenantSql("test_twice", "SELECT ?, :tenant, ?, :tenant");
  const tenant = store.tenant("acme");

  await tenant.write([tenant.op(twice, [1, 2])]);
  await tenant.read(twice, 3, 4);

  assert.deepEqual(seen, [
    [1, "acme", 2, "acme"],
    [3, "acme", 4, "acme"],
  ]);
  assert.throws(() => tenant.op(twice, [1]), /takes 2 parameters and got 1/);
  assert.throws(() => tenant.op(twice, [1, 2, 3]), /takes 2 parameters and got 3/);
  assert.throws(() => store.system.op(twice, [1, 2]), /must run through store\.tenant/);
  assert.throws(() => store.tenant("").op(twice, [1, 2]), /does not name :tenant/);
  assert.throws(() => tenant.op(statementNamed("thread_keys_reserve"), [1]), /does not name :tenant/);
});
