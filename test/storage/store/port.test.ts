import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { MessageChannel } from "node:worker_threads";
import { type Env, systemEnv } from "../../../bus/env.ts";
import { SvcError } from "../../../bus/errors.ts";
import { StorePort } from "../../../storage/store/port.ts";
import { type Answer, type Request, request } from "../../../storage/store/requests.ts";
import { statementNamed } from "../../../storage/store/statements.ts";
import { createStore, type TenantStore } from "../../../storage/store/store.ts";
import { kvGet, kvSetOp } from "../../../storage/tables/kv.ts";
import { Sim } from "../../support/sim-env.ts";
import { cleanup } from "../../support/temp.ts";

/** A store over a port whose other end the test holds. */
function held(
  t: Parameters<typeof cleanup>[0],
  env: Env = systemEnv(),
): {
  tenant: TenantStore;
  port: StorePort;
  arrived: Request[][];
  reply(answers: Answer[]): void;
  next(): Promise<void>;
  hangUp(): void;
} {
  const { port1, port2 } = new MessageChannel();
  const port = new StorePort(env, port1);
  const arrived: Request[][] = [];
  let wake = (): void => {};
  port2.on("message", (requests: Request[]) => {
    arrived.push(requests);
    wake();
  });
  cleanup(t).after(() => {
    port.close();
    port2.close();
  });
  return {
    tenant: createStore(port).tenant("acme"),
    port,
    arrived,
    reply: (answers) => port2.postMessage(answers),
    next: () =>
      new Promise((resolve) => {
        wake = resolve;
      }),
    hangUp: () => port2.close(),
  };
}

const entry = (tenant: TenantStore, value: string) => kvSetOp(tenant, { key: "k", value, expires_at: null }, 1);

describe("the port to the store thread", () => {
  test("the first request is sent at once, and later ones of its turn together in order", async (t) => {
    const { tenant, port, arrived, next, reply } = held(t);
    const early = next();

    const check = port.check();
    const writes = [tenant.write([entry(tenant, "1")]), tenant.write([entry(tenant, "2"), entry(tenant, "3")])];
    await early;
    while (arrived.length < 2) await next();
    reply([
      [3, [[{ version: 2 }]], null],
      [2, [[{ version: 1 }]], null],
      [1, [], null],
    ]);

    assert.deepEqual(arrived, [
      [[request.check, 1]],
      [
        // The statement is declared once, before its first use.
        [request.learn, 0, statementNamed("kv_set")],
        [request.write, 2, 0, -1, "acme", "k", "1", 1, null],
        [request.write, 3, 0, -1, "acme", "k", "2", 1, null, 0, -1, "acme", "k", "3", 1, null],
      ],
    ]);
    assert.deepEqual(await Promise.all(writes), [[[{ version: 1 }]], [[{ version: 2 }]]]);
    await check;
  });

  test("a refusal is received as one", async (t) => {
    const { tenant, next, reply } = held(t);
    const arrival = next();
    const write = tenant.write([entry(tenant, "1")]);
    await arrival;

    reply([[1, null, new SvcError("conflict", { subject: "kv_set" }).toWire()]]);

    await assert.rejects(write, { code: "conflict", details: { subject: "kv_set" } });
  });

  test("unanswered requests are bounded in number, and an answer frees a place", async (t) => {
    const { tenant, port, next, reply } = held(t);
    const arrival = next();
    const checks = Array.from({ length: 20_000 }, () => port.check());

    await assert.rejects(port.check(), { code: "storage_unavailable" });
    await assert.rejects(tenant.write([entry(tenant, "1")]), { code: "storage_unavailable" });
    await arrival;
    reply([[1, [], null]]);
    await checks[0];
    const one = port.check();
    port.close();

    await assert.rejects(one, { code: "storage_unavailable" });
    const outcomes = await Promise.allSettled(checks);
    assert.equal(outcomes.filter(({ status }) => status === "rejected").length, 19_999);
  });

  test("unanswered requests are bounded in size, but a larger one is sent alone", async (t) => {
    const { tenant, next, reply, arrived } = held(t);
    const huge = "x".repeat(70 * 1024 * 1024);
    const arrival = next();

    const alone = tenant.write([entry(tenant, huge)]);
    await assert.rejects(tenant.write([entry(tenant, "1")]), { code: "storage_unavailable" });
    await arrival;
    reply([[1, [], null]]);
    await alone;
    const second = next();
    const after = tenant.write([entry(tenant, "1")]);
    await second;
    reply([[arrived.at(-1)?.[0]?.[1] as number, [], null]]);

    assert.deepEqual(await after, []);
  });

  test("waiting and later requests are refused when the other side has ended", async (t) => {
    const { tenant, next, hangUp } = held(t);
    const arrival = next();
    const write = assert.rejects(tenant.write([entry(tenant, "1")]), { code: "storage_unavailable" });
    await arrival;

    hangUp();

    await write;
    await assert.rejects(tenant.write([entry(tenant, "1")]), { code: "storage_unavailable" });
  });

  test("a caller with an unknown outcome is notified of a late commit only", async (t) => {
    const sim = new Sim(1);
    const { tenant, arrived, next, reply } = held(t, sim.env());
    const heard: string[] = [];
    const write = (name: string) => tenant.write([entry(tenant, name)], 8_000, () => void heard.push(name));
    const arrival = next();
    const early = write("early");
    await arrival;
    const others = next();
    const late = ["applied", "refused", "silent"].map((name) =>
      assert.rejects(write(name), { code: "storage_unavailable" }),
    );
    await sim.run();
    await others;
    reply([[1, [], null]]);
    await early;

    await sim.advance(8_200);
    await Promise.all(late);
    assert.deepEqual(heard, []);
    reply([
      [3, null, new SvcError("conflict").toWire()],
      [2, [], null],
    ]);
    while (heard.length === 0) await new Promise((resolve) => setImmediate(resolve));

    assert.deepEqual(heard, ["applied"]);
    assert.equal(arrived.length, 2);
  });

  test("a silent store times out reads, checks, urgent writes at 8 s, long reads at 60", async (t) => {
    const sim = new Sim(1);
    const { tenant, port, arrived, next, reply } = held(t, sim.env());
    const settled = new Map<string, string>();
    const watch = (name: string, work: Promise<unknown>): void =>
      void work.then(
        () => settled.set(name, "done"),
        (error: SvcError) => settled.set(name, error.code),
      );
    const arrival = next();
    watch("check", port.check());
    watch("read", kvGet(tenant, "k", 0));
    watch("long read", tenant.readLong(statementNamed("kv_get"), "k", 0));
    watch("hurried", tenant.write([entry(tenant, "1")], 8_000));
    watch("patient", tenant.write([entry(tenant, "1")]));
    await sim.run();
    await arrival;
    const soon = sim.advance(7_900).then(() => settled.size);

    assert.equal(await soon, 0);
    await sim.advance(200);
    assert.deepEqual(Object.fromEntries(settled), {
      check: "storage_unavailable",
      read: "storage_unavailable",
      hurried: "storage_unavailable",
    });
    await sim.advance(52_000);
    assert.equal(settled.get("long read"), "storage_unavailable");
    await sim.advance(10_000_000);
    assert.equal(settled.get("patient"), undefined);
    const [patient] = arrived.flat().filter(([, id]) => id === 5);
    reply([[patient?.[1] as number, [], null]]);
    while (!settled.has("patient")) await new Promise((resolve) => setImmediate(resolve));
    assert.equal(settled.get("patient"), "done");
  });

  test("an abandoned request keeps its place until its answer, which is ignored", async (t) => {
    const sim = new Sim(1);
    const { port, arrived, next, reply } = held(t, sim.env());
    const arrival = next();
    const first = Promise.allSettled(Array.from({ length: 20_000 }, () => port.check()));
    await arrival;

    await sim.advance(10_000);
    const given = await first;
    await assert.rejects(port.check(), { code: "storage_unavailable" });
    reply([[1, [], null]]);
    const later: Promise<unknown>[] = [];
    while (arrived.flat().length === 20_000) {
      later.push(port.check());
      later.at(-1)?.catch(() => {});
      await sim.run();
    }
    reply([[arrived.flat().at(-1)?.[1] as number, [], null]]);

    await later.at(-1);
    assert.ok(given.every(({ status }) => status === "rejected"));
  });

  test("a closed port checks no deadlines", async (t) => {
    const sim = new Sim(1);
    const { port, next } = held(t, sim.env());
    const arrival = next();
    const check = assert.rejects(port.check(), { code: "storage_unavailable" });
    await arrival;

    port.close();
    await sim.advance(20_000);

    await check;
  });
});
