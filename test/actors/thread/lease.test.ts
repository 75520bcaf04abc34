// Leases below HTTP: two processes on one store, lost races, and a thread that is made or deleted during them.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { threadAddress } from "../../../bus/address.ts";
import { systemEnv } from "../../../bus/env.ts";
import { SvcError } from "../../../bus/errors.ts";
import type { TakeLease } from "../../../bus/protocol/lease.ts";
import type { Store, TenantStore, WriteOp } from "../../../storage/store/store.ts";
import { deleteExpired } from "../../../storage/tables/expired.ts";
import { hashToken, leaseRefusal, liveLeases, observersMax } from "../../../storage/tables/thread-leases.ts";
import { recentThreads, threadBySuffix } from "../../../storage/tables/threads.ts";
import { ActorProcess, processSettings, tenantId } from "../../support/actor-process.ts";
import { outcomeOf } from "../../support/outcome.ts";
import { ScriptedModel } from "../../support/scripted-model.ts";
import { dialects, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const env = systemEnv();
const hourMs = 3_600_000;

for (const dialect of dialects)
  describe(`leases on ${dialect}`, () => {
    const atEnd = cleanup();
    let store: Store;
    let another: () => Store;
    let tenant: TenantStore;
    let settings: ReturnType<typeof processSettings>;
    before(async () => {
      settings = processSettings(atEnd, { agent: {} }, { SVC_AUDIT_FLUSH_SECONDS: "3600" });
      ({ store, another } = await testStore(dialect, atEnd));
      tenant = store.tenant(tenantId);
    });

    function start(over: Store = store) {
      const model = new ScriptedModel(env, () => ({ text: ["Done."] }));
      const process = new ActorProcess({ env, store: over, settings, model, bootId: env.id() });
      atEnd.after(() => process.close());
      const address = (suffix: string) => threadAddress(tenantId, suffix);
      return {
        process,
        take: (suffix: string, asked: Partial<TakeLease> = {}) =>
          process.bus.ask(address(suffix), "lease", {
            ...{ mode: "exclusive", holder_id: "me", ttlMs: hourMs, token: null },
            ...asked,
          }),
        end: (suffix: string, token: string | null) =>
          process.bus.ask(address(suffix), "end_lease", { token, holder_id: null }),
        say: async (suffix: string, token?: string) => {
          const lease = token === undefined ? null : { token_hash: hashToken(token) };
          const turn = process.submit({ manifest: "agent", thread_suffix: suffix, lease });
          await turn.accepted;
          await turn.ended;
        },
        erase: (suffix: string) => process.bus.ask(address(suffix), "erase", {}),
      };
    }
    const held = async (suffix: string) => {
      const thread = await threadBySuffix(tenant, suffix);
      const holds = thread ? await liveLeases(tenant, thread.thread_key) : [];
      return holds.map(({ mode, holder_id }) => `${mode} ${holder_id}`);
    };
    const rowsOf = async (): Promise<number> => (await deleteExpired(store, 0)).leases;

    test("LEASE-008 two processes on one store see one lease, from either of them", async () => {
      const [first, second] = [start(), start(another())];
      await first.say("two");
      const { token } = await first.take("two", { holder_id: "first" });

      const refused = await outcomeOf(second.take("two"));
      const wrong = await outcomeOf(second.say("two", "another"));
      const renewed = await second.take("two", { token, holder_id: "second" });

      assert.deepEqual([refused, wrong], [{ refused: "lease_held" }, { refused: "lease_held" }]);
      assert.deepEqual([renewed, await held("two")], [{ token, renewed: true }, ["exclusive second"]]);
      assert.deepEqual(await first.end("two", token), { released: true });
      assert.deepEqual(await second.end("two", token), { released: false });
      await second.take("two");
    });

    test("LEASE-009 one of many concurrent processes drives", async () => {
      const [first, second] = [start(), start(another())];
      await first.say("race");
      for (let round = 0; round < 5; round++) {
        const outcomes = await Promise.all(
          Array.from({ length: 10 }, (_, at) => outcomeOf((at % 2 ? first : second).take("race"))),
        );

        const given = outcomes.flatMap((outcome) => ("answer" in outcome ? [outcome.answer.token] : []));
        assert.equal(given.length, 1);
        assert.deepEqual(await held("race"), ["exclusive me"]);
        await first.end("race", given[0] ?? "");
      }
      assert.deepEqual([...first.process.crashes, ...second.process.crashes], []);
    });

    test("LEASE-009 a client that loses five races gets an error, and nothing changes", async () => {
      let refusals = 0;
      let stubborn = 0;
      const losing = withWrites(store, (ops) => {
        if (!ops.some(({ statement }) => statement.name.startsWith("thread_lease_")) || refusals >= stubborn) return;
        refusals++;
        throw new SvcError("conflict");
      });
      const { take, end, say } = start(losing);
      await say("contended");

      stubborn = 4;
      const { token } = await take("contended");
      assert.equal(refusals, 4);
      for (const change of [() => end("contended", token), () => take("contended", { token, holder_id: "you" })]) {
        refusals = 0;
        stubborn = 5;
        assert.deepEqual(await outcomeOf<object>(change()), { refused: "lease_contended" });
        assert.deepEqual(await held("contended"), ["exclusive me"]);
      }
      refusals = 5;
      assert.deepEqual(await end("contended", token), { released: true });
    });

    test("a lease and the first turn of a thread arrive at once, and both hold", async () => {
      const { process, take, say } = start();
      for (let round = 0; round < 24; round++) {
        const suffix = `unborn-${round}`;
        const turn = say(suffix);
        // One of these moments is between the opening of the log and the first batch.
        for (let turns = 0; turns < round; turns++) await new Promise((resolve) => setImmediate(resolve));

        await Promise.all([turn, take(suffix)]);

        assert.deepEqual(await held(suffix), ["exclusive me"]);
        assert.equal((await threadBySuffix(tenant, suffix))?.next_seq, 2);
      }
      await take("only-held");
      const listed = (await recentThreads(tenant, null, 500)).map(({ suffix }) => suffix);
      assert.ok(!listed.includes("only-held") && listed.includes("unborn-0"));
      assert.deepEqual(process.crashes, []);
    });

    test("a deleted thread loses its leases, also when it is created again", async () => {
      const { take, say, erase } = start();
      await say("erased");
      const { token } = await take("erased");
      await take("erased", { mode: "shared" });
      const before = await threadBySuffix(tenant, "erased");

      await erase("erased");
      assert.deepEqual(await liveLeases(tenant, before?.thread_key ?? -1), []);
      await say("erased");

      assert.deepEqual(await held("erased"), []);
      assert.equal(await leaseRefusal(tenant, "erased", { token_hash: hashToken(token) }), null);
      await take("erased");
    });

    test("an expired lease has no effect, is replaced, and is swept", async () => {
      const { take, end, say } = start();
      await say("over");
      await rowsOf();
      const { token } = await take("over", { ttlMs: 0 });
      const watching = await take("over", { ttlMs: 0, mode: "shared" });

      assert.deepEqual(await held("over"), []);
      for (const each of [token, watching.token])
        assert.equal(await leaseRefusal(tenant, "over", { token_hash: hashToken(each) }), null);
      assert.deepEqual(await end("over", token), { released: false });
      assert.equal((await take("over", { token, ttlMs: 0 })).renewed, false);
      const next = await take("over", { holder_id: "next" });
      assert.equal(next.renewed, false);
      assert.deepEqual(await outcomeOf(end("over", token)), { refused: "token_mismatch" });
      await say("swept");
      await take("swept", { ttlMs: 0 });
      await take("swept", { ttlMs: 0, mode: "shared" });
      // The second of the two has replaced an expired one.
      assert.equal(await rowsOf(), 1);
      assert.deepEqual([await rowsOf(), await held("over")], [0, ["exclusive next"]]);
    });

    test("watchers are bounded: the one that ends first is replaced", async () => {
      const { take, say } = start();
      await say("crowd");
      const { token: driver } = await take("crowd", { holder_id: "driver" });
      const tokens: string[] = [];
      for (let at = 0; at < observersMax + 3; at++)
        tokens.push((await take("crowd", { mode: "shared", holder_id: `w${at}`, ttlMs: hourMs + at * 1000 })).token);

      const holds = await held("crowd");
      assert.equal(holds.length, observersMax + 1);
      assert.deepEqual(holds.slice(0, 2), ["exclusive driver", `shared w${observersMax + 2}`]);
      const of = (token: string) => leaseRefusal(tenant, "crowd", { token_hash: hashToken(token) });
      assert.deepEqual(
        [await of(tokens[2] ?? ""), await of(tokens[3] ?? ""), await of(driver)],
        ["lease_held", "lease_read_only", null],
      );
    });
  });

/** The store, with a hook before each batch. */
function withWrites(store: Store, look: (ops: readonly WriteOp[]) => void): Store {
  const tenant = (id: string): TenantStore => {
    const scope = store.tenant(id);
    return new Proxy(scope, {
      get(target, name) {
        if (name === "write")
          return async (ops: readonly WriteOp[], deadlineMs?: number) => {
            look(ops);
            return target.write(ops, deadlineMs);
          };
        const value = Reflect.get(target, name, target);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
  };
  return { ...store, tenant, system: store.system };
}
