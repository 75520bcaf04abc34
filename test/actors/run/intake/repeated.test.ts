import assert from "node:assert/strict";
import { test } from "node:test";
import type { OpenThread } from "../../../../actors/log/messages.ts";
import type { Intake } from "../../../../actors/run/intake/intake.ts";
import { repeatedTurn } from "../../../../actors/run/intake/repeated.ts";
import type { SubmitTurn } from "../../../../bus/protocol/run.ts";
import { appendOp, type LogEvent } from "../../../../storage/tables/events.ts";
import { endRunOp, insertRunOp, runKey } from "../../../../storage/tables/runs.ts";
import { compileSpec } from "../../../manifests/support.ts";
import { newRun } from "../../../support/rows.ts";
import { testStore } from "../../../support/stores.ts";
import { cleanup } from "../../../support/temp.ts";

for (const [results, refused] of [
  [2, false],
  [17, true],
] as const)
  test(`a failed turn of ${results} MiB that is sent again is ${refused ? "refused" : "counted, and continues"}`, async (t) => {
    const { store } = await testStore("sqlite", cleanup(t));
    const tenant = store.tenant("acme");
    const question = { kind: "message", role: "user", content: "Read.", extra: null } as const;
    const events = [
      question,
      ...Array.from(
        { length: results },
        () => ({ ...question, kind: "audit", role: null, content: "x".repeat(1_048_576) }) as const,
      ),
    ].map((event, seq): LogEvent => ({ ...event, seq, parent_seq: seq - 1, ts: 1 }));
    for (const event of events) await tenant.write([appendOp(tenant, 1, event)]);
    const end = { status: "failed", stop_reason: null, error: "model_provider_error", usage: null } as const;
    await tenant.write([
      insertRunOp(tenant, newRun("r", { started_at: 1 }), { thread_key: 1, epoch: 1, first_seq: 0 }),
      endRunOp(tenant, { run_key: runKey(1, 1), epoch: 1 }, { ...end, ended_at: 2, last_seq: results }),
    ]);
    const turn = { surface: "openai", messages: [{ role: "user", content: "Read." }] } as unknown as SubmitTurn;
    const intake = { entries: [question] } as unknown as Intake;
    const thread = { thread_key: 1, leaf_seq: results, next_seq: results + 1 } as OpenThread;
    const asked: number[] = [];
    const repeated = repeatedTurn(turn, intake, thread, compileSpec({}), tenant, (bytes) => {
      asked.push(bytes);
      return null;
    });

    if (refused) await assert.rejects(repeated, { code: "thread_too_large" });
    else assert.equal((await repeated)?.branch.length, 1);
    assert.deepEqual(
      asked.map((bytes) => Math.floor(bytes / 1_048_576)),
      refused ? [] : [results],
    );
  });
