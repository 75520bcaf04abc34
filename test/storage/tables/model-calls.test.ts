import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import Database from "better-sqlite3";
import type { Store, TenantStore } from "../../../storage/store/store.ts";
import { deleteOldRuns } from "../../../storage/tables/expired.ts";
import {
  bodiesOfCall,
  type CallFacts,
  countModelCalls,
  modelCall,
  modelCallOp,
} from "../../../storage/tables/model-calls.ts";
import { deleteUnusedFrames, frameByDigest, keepFrameOp } from "../../../storage/tables/model-frames.ts";
import { insertEndedRunOp, insertRunOp } from "../../../storage/tables/runs.ts";
import { eraseOps } from "../../../storage/tables/unowned-logs.ts";
import { onServer } from "../../support/postgres-server.ts";
import { newRun } from "../../support/rows.ts";
import { dialects, type TestStore, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const facts: CallFacts = {
  purpose: "step",
  agent: "m",
  step: 1,
  at: 3,
  route: "r",
  parameters: { temperature: 0, max_tokens: null },
  digests: { system: "s", tools: null, answer: null, messages: "digest" },
  shown: [[0, 2], 5, { opening: 1 }, "digest"],
  messages: 5,
  chars: 2,
  tries: [{ route: "r", outcome: "ok", ms: 7 }],
  started: 5,
  first_token: 6,
  ended: 7,
  outcome: "ok",
  stop_reason: "end_turn",
  usage: { input: 1, output: 2, cacheRead: 0, cacheWrite: 0 },
  cost_usd: 0.5,
};

for (const dialect of dialects)
  describe(`context records of model calls, on ${dialect}`, () => {
    const atEnd = cleanup();
    let made: TestStore;
    let store: Store;
    let acme: TenantStore;
    before(async () => {
      made = await testStore(dialect, atEnd);
      ({ store } = made);
      acme = store.tenant("acme");
    });

    const call = (run_id: string, frame: string, bodies: Record<string, string> | null = null, of = acme) =>
      modelCallOp(of, { run_id, thread_key: 1, frame, facts, bodies });
    const run = (run_id: string, thread_key: number, epoch: number) =>
      insertRunOp(acme, newRun(run_id), { thread_key, epoch, first_seq: 0 });

    test("calls are numbered per run as they are written, also in one batch", async () => {
      const other = store.tenant("globex");
      await acme.write([call("a", "f"), call("a", "f"), call("b", "f")]);
      await Promise.all([acme.write([call("a", "f")]), other.write([call("a", "f", null, other)])]);

      const third = await modelCall(acme, "a", 3);

      assert.deepEqual(
        [await countModelCalls(acme, "a"), await countModelCalls(acme, "b"), await countModelCalls(other, "a")],
        [3, 1, 1],
      );
      assert.deepEqual(third?.facts, facts);
      assert.deepEqual([third?.frame, third?.bodies, third?.started_at, third?.thread_key], ["f", null, 5, 1]);
      assert.deepEqual([await modelCall(acme, "a", 4), await countModelCalls(acme, "c")], [undefined, 0]);
    });

    test("texts are found in the call's row or an earlier one, and never in a later one", async () => {
      const texts = (at: number) => ({ [`d${at}`]: `text ${at}` });
      await acme.write(Array.from({ length: 12 }, (_, at) => call("texts", "f", texts(at + 1))));

      const found = await bodiesOfCall(acme, { run_id: "texts", n: 10 }, new Set(["d1", "d10", "d11", "nothing"]));

      assert.deepEqual([...found].toSorted(), [
        ["d1", "text 1"],
        ["d10", "text 10"],
      ]);
    });

    test("context records are deleted with their thread's log, and others stay", async () => {
      await acme.write([run("gone", 41, 0), run("stays", 42, 0), call("gone", "f"), call("stays", "f")]);

      await acme.write(eraseOps(acme, { thread_key: 41, events: 1, runs: 1 }));

      assert.deepEqual([await countModelCalls(acme, "gone"), await countModelCalls(acme, "stays")], [0, 1]);
    });

    test("context records are deleted with their run's row, with or without a thread", async () => {
      const end = { status: "completed", stop_reason: null, error: null, usage: null, last_seq: null } as const;
      await acme.write([
        insertEndedRunOp(acme, newRun("old"), { ...end, ended_at: 100 }),
        insertEndedRunOp(acme, newRun("new"), { ...end, ended_at: 300 }),
        call("old", "f"),
        call("new", "f"),
      ]);

      const swept = await deleteOldRuns(store, 200);

      assert.equal(swept, 1);
      assert.deepEqual([await countModelCalls(acme, "old"), await countModelCalls(acme, "new")], [0, 1]);
    });

    test("shared texts are stored once and live as long as a call uses them, plus a day", async () => {
      const other = store.tenant("globex");
      await acme.write([keepFrameOp(acme, "used", "A"), keepFrameOp(acme, "unused", "B"), call("framed", "used")]);
      await acme.write([keepFrameOp(acme, "used", "A"), keepFrameOp(acme, "fresh", "C")]);
      await other.write([keepFrameOp(other, "used", "A")]);
      await agedBy(86_400_001, ["used", "unused"]);

      const deleted = await deleteUnusedFrames(store.system, 10);

      // The other tenant has no call that uses the text.
      assert.equal(deleted, 2);
      const found = await Promise.all(["used", "unused", "fresh"].map((digest) => frameByDigest(acme, digest)));
      assert.deepEqual(
        found.map((frame) => frame?.body),
        ["A", undefined, "C"],
      );
      assert.equal(await frameByDigest(other, "used"), undefined);
    });

    async function agedBy(ms: number, digests: readonly string[]): Promise<void> {
      const sql = `UPDATE model_frames SET touched_at = touched_at - ${ms} WHERE digest IN ('${digests.join("', '")}')`;
      const { config } = made;
      if (config.engine === "postgres") await onServer(config.postgres.url, (client) => client.query(sql));
      else {
        const db = new Database(config.path, { timeout: 10_000 });
        db.exec(sql);
        db.close();
      }
    }
  });
