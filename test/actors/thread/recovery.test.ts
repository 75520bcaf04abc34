// The treatment of a dead process's runs and keys by the next process.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { threadAddress } from "../../../bus/address.ts";
import { systemEnv } from "../../../bus/env.ts";
import type { Store } from "../../../storage/store/store.ts";
import { readEvents } from "../../../storage/tables/events.ts";
import { threadBySuffix } from "../../../storage/tables/threads.ts";
import { ActorProcess, type AskedTurn, processSettings, tenantId } from "../../support/actor-process.ts";
import { ScriptedModel } from "../../support/scripted-model.ts";
import { dialects, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

for (const dialect of dialects)
  describe(`runs of a dead process, on ${dialect}`, () => {
    const atEnd = cleanup();
    let store: Store;
    let settings: ReturnType<typeof processSettings>;
    let now = 1_700_000_000_000;
    const env = { ...systemEnv(), now: () => now };
    before(async () => {
      settings = processSettings(
        atEnd,
        { agent: {} },
        { SVC_AUDIT_FLUSH_SECONDS: "3600", SVC_IDEMPOTENCY_TTL_SECONDS: "60" },
      );
      ({ store } = await testStore(dialect, atEnd));
    });

    /** A process whose model takes this long for a piece of its answer. */
    function start(pauseMs: number): ActorProcess {
      const model = new ScriptedModel(
        env,
        () => ({ text: ["Said."] }),
        () => pauseMs,
      );
      const process = new ActorProcess({ env, store, settings, model, bootId: env.id() });
      atEnd.after(() => process.close());
      return process;
    }
    const never = 2 ** 30;

    async function marksOf(suffix: string): Promise<unknown[]> {
      const tenant = store.tenant(tenantId);
      const head = await threadBySuffix(tenant, suffix);
      const events = head ? await readEvents(tenant, head.thread_key, 0, 100) : [];
      return events.filter(({ kind }) => kind === "audit").map(({ extra }) => extra?.metadata);
    }
    const recover = (process: ActorProcess, suffix: string) =>
      process.bus.ask(threadAddress(tenantId, suffix), "recover", {});
    const keyed = (key: string, surface: "chat" | "chat_stream", suffix: string): AskedTurn => ({
      manifest: "agent",
      thread_suffix: suffix,
      surface,
      idempotency: { key, fingerprint: "the same body" },
    });

    test("each is closed by its own id, once, after any number of searches", async () => {
      const first = start(never);
      const turns = ["one", "two"].map((thread_suffix) => first.submit({ manifest: "agent", thread_suffix }));
      for (const turn of turns) await turn.accepted;
      first.close();

      for (let successor = 0; successor < 2; successor++) {
        const process = start(1);
        for (const suffix of ["one", "two"]) await recover(process, suffix);
        process.close();
      }

      for (const [at, suffix] of ["one", "two"].entries())
        assert.deepEqual(await marksOf(suffix), [
          { type: "run_interrupted", run_id: turns[at]?.runId, reason: "crash" },
        ]);
    });

    test("IDEM-009 IDEM-010 the key of a stream is settled, and that of an answer is free", async () => {
      const first = start(never);
      await first.submit(keyed("stream", "chat_stream", "streamed")).accepted;
      await first.submit(keyed("json", "chat", "answered")).accepted;
      first.close();
      const process = start(1);

      const stream = await process.submit(keyed("stream", "chat_stream", "streamed")).accepted;
      const json = process.submit(keyed("json", "chat", "answered"));

      assert.equal(stream.kind, "replay");
      assert.match(stream.kind === "replay" ? stream.frames : "", /the run was interrupted/);
      assert.deepEqual(await json.accepted, { kind: "started" });
      await json.ended;
    });

    test("IDEM-013 a key outlives its run, and is free when the run was closed", async () => {
      const first = start(never);
      await first.submit(keyed("long", "chat", "long")).accepted;
      now += 61_000;
      const again = first.submit(keyed("long", "chat", "long"));
      await assert.rejects(again.accepted, { code: "idempotency_in_progress" });
      first.close();
      const process = start(1);
      await recover(process, "long");

      const late = process.submit(keyed("long", "chat", "long"));

      assert.deepEqual(await late.accepted, { kind: "started" });
      await late.ended;
    });
  });
