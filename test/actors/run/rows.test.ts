// The row of a turn, by its outcome.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { threadAddress } from "../../../bus/address.ts";
import { systemEnv } from "../../../bus/env.ts";
import type { StoreConfig } from "../../../storage/store/config.ts";
import type { Store } from "../../../storage/store/store.ts";
import { type RunRow, runByKey, runKey } from "../../../storage/tables/runs.ts";
import { threadBySuffix } from "../../../storage/tables/threads.ts";
import { ActorProcess, type AskedTurn, processSettings, tenantId } from "../../support/actor-process.ts";
import { rowsIn } from "../../support/rows-in.ts";
import { ScriptedModel, type ScriptedReply } from "../../support/scripted-model.ts";
import { gateDialects, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const env = systemEnv();
const usage = { input: 10, output: 2, cacheRead: 0, cacheWrite: 0 };
const said: ScriptedReply = { text: ["Said."], usage };

for (const dialect of gateDialects)
  describe(`the row of a run on ${dialect}`, () => {
    const atEnd = cleanup();
    let store: Store;
    let config: StoreConfig;
    let process: ActorProcess;
    let reply: ScriptedReply = said;
    let pauseMs = 0;
    before(async () => {
      ({ store, config } = await testStore(dialect, atEnd));
      const settings = processSettings(
        atEnd,
        { agent: {}, short: { limits: { max_output_tokens: 1 } } },
        { SVC_AUDIT_FLUSH_SECONDS: "3600" },
      );
      const model = new ScriptedModel(
        env,
        () => reply,
        () => pauseMs,
      );
      process = new ActorProcess({ env, store, settings, model, bootId: "host" });
      atEnd.after(() => process.close());
    });

    async function rowOf(suffix: string, number: number): Promise<RunRow> {
      const tenant = store.tenant(tenantId);
      const head = await threadBySuffix(tenant, suffix);
      const row = await runByKey(tenant, runKey(head?.thread_key as number, number));
      assert.ok(row);
      return row;
    }
    async function turn(asked: Partial<AskedTurn>, scripted: ScriptedReply = said) {
      reply = scripted;
      const turned = process.submit({ manifest: "agent", thread_suffix: null, ...asked });
      await turned.accepted;
      await turned.ended;
      return turned;
    }

    test("has the request's principal, usage and log position, and its events name it", async () => {
      await turn({ thread_suffix: "two" });
      const { runId } = await turn({
        thread_suffix: "two",
        principal: { tenant_id: tenantId, sub: "bob", scopes: ["chat"], scheme: "jwt", issuer: "there" },
        idempotency: { key: "k", fingerprint: "f" },
      });

      const { started_at, ended_at, asked, manifest_digest, ...row } = await rowOf("two", 2);
      assert.deepEqual(row, {
        run_key: row.run_key,
        run_id: runId,
        thread_key: row.thread_key,
        status: "completed",
        owner: "host:0:0",
        epoch: 2,
        manifest: "agent",
        manifest_version: null,
        parent_run_id: null,
        hops: 0,
        idempotency_scope: JSON.stringify(["stream", "two", "jwt", "there", "bob", "k"]),
        first_seq: 2,
        last_seq: 3,
        spent: null,
        result: {
          stop_reason: "end_turn",
          error: null,
          usage: {
            ...usage,
            totalTokens: 12,
            cost: { input: 2e-5, output: 1.6e-5, cacheRead: 0, cacheWrite: 0, total: 3.6e-5 },
          },
        },
        format: 1,
        a2a_context: null,
        a2a_owner: null,
      });
      assert.match(manifest_digest, /^[0-9a-f]{64}$/);
      assert.deepEqual(asked.principal, { sub: "bob", scopes: ["chat"], scheme: "jwt", issuer: "there" });
      assert.deepEqual([asked.surface, asked.routes], ["chat_stream", ["scripted"]]);
      assert.ok(started_at <= (ended_at as number));
      const span = 2 ** 24;
      const events = await rowsIn(
        config,
        `SELECT run FROM events WHERE event_key / ${span} = ${row.thread_key} ORDER BY event_key`,
      );
      assert.deepEqual(
        events.map(({ run }) => Number(run)),
        [1, 1, 2, 2],
      );
    });

    test("records the failure of a turn that did not end by itself", async () => {
      await turn({ thread_suffix: "fails" }, { text: ["Half"], failure: "the provider is away" });
      pauseMs = 2 ** 30;
      const slow = process.submit({ manifest: "agent", thread_suffix: "aborted" });
      await slow.accepted;
      await process.abort("aborted");
      await slow.ended;
      pauseMs = 0;
      await turn({ thread_suffix: "limited", manifest: "short" });

      const ends = await Promise.all(["fails", "aborted", "limited"].map((suffix) => rowOf(suffix, 1)));
      assert.deepEqual(
        ends.map(({ status, result }) => [status, result?.error]),
        [
          ["failed", "model_failed"],
          ["failed", "aborted"],
          ["completed", null],
        ],
      );
    });

    test("exists for a turn without a thread after its end, with its usage, and stays", async () => {
      const { runId } = await turn({});
      await turn({ thread_suffix: "deleted" });
      const before = await rowOf("deleted", 1);

      await process.bus.ask(threadAddress(tenantId, "deleted"), "erase", {});

      const tenant = store.tenant(tenantId);
      const alone = await runByKey(tenant, -1);
      assert.deepEqual(
        [alone?.run_id, alone?.thread_key, alone?.status, alone?.last_seq, alone?.result?.usage?.totalTokens],
        [runId, null, "completed", null, 12],
      );
      assert.equal(await runByKey(tenant, before.run_key), undefined);
    });
  });
