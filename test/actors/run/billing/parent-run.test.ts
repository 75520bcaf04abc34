// What a resumed task learns of its parent run: it waits for the task, is gone, or its state is unknown.
import assert from "node:assert/strict";
import { test } from "node:test";
import { isThere, resumedUnder } from "../../../../actors/run/billing/parent-run.ts";
import { Cancellation } from "../../../../actors/runtime/cancellation.ts";
import type { Bus } from "../../../../bus/bus.ts";
import { systemEnv } from "../../../../bus/env.ts";
import { type ErrorCode, SvcError } from "../../../../bus/errors.ts";
import type { ParentRun } from "../../../../bus/protocol/task.ts";
import type { TenantStore } from "../../../../storage/store/store.ts";
import { ActorProcess, processSettings, tenantId } from "../../../support/actor-process.ts";
import { ScriptedModel } from "../../../support/scripted-model.ts";
import { testStore } from "../../../support/stores.ts";
import { cleanup } from "../../../support/temp.ts";
import { stillEnv } from "../../models/support.ts";

const parent = { run_id: "r", suffix: "s", task_id: "t" } as ParentRun;
/** A parent that is not durable is not read. */
const ofAcme = { tenantId: "acme" } as TenantStore;

/** The bus of a task whose parent gives these answers in turn, repeating the last one. */
function busUnder(answers: readonly (ErrorCode | "waits")[], alive: ErrorCode | boolean = true) {
  const { env, delays } = stillEnv();
  const cancellation = new Cancellation();
  let asked = 0;
  const said: Record<string, () => ErrorCode | object> = {
    alive: () => (typeof alive === "string" ? alive : { alive }),
    taskResumed: () => {
      const next = answers[Math.min(asked++, answers.length - 1)];
      return next === "waits" ? {} : (next as ErrorCode);
    },
  };
  const bus = {
    env,
    async ask(_to: unknown, type: string) {
      const answer = said[type]?.() ?? {};
      if (typeof answer === "string") throw new SvcError(answer);
      return answer;
    },
  } as unknown as Bus;
  const isExpected = () => resumedUnder(parent, ofAcme, bus, cancellation);
  return { isExpected, bus, delays, cancellation, asked: () => asked };
}

test("DEL-005 a task retries while its parent's store or thread is away", async () => {
  const { isExpected, delays } = busUnder(["storage_unavailable", "mailbox_full", "actor_lost", "waits"]);

  assert.equal(await isExpected(), true);
  assert.deepEqual(delays, [250, 500, 1_000]);
});

test("a task whose parent's state stays unknown is refused, not orphaned", async () => {
  const { isExpected, asked } = busUnder(["storage_unavailable"]);

  await assert.rejects(isExpected(), { code: "storage_unavailable" });
  assert.equal(asked(), 7);
});

test("a task learns at once that its parent is gone or does not know it", async () => {
  const over = busUnder(["actor_lost"], false);
  const forgotten = busUnder(["actor_lost"], true);

  assert.deepEqual([await over.isExpected(), over.asked()], [false, 1]);
  assert.deepEqual([await forgotten.isExpected(), forgotten.asked()], [false, 3]);
});

test("a stopped task asks no more", async () => {
  const { isExpected, cancellation, asked } = busUnder(["storage_unavailable"]);
  const expected = isExpected();
  cancellation.cancel();

  assert.equal(await expected, false);
  assert.equal(asked(), 1);
});

test("DEL-005 a resumed task assumes that its parent lives while its state is unknown", async () => {
  for (const [alive, is] of [
    ["storage_unavailable", true],
    ["actor_lost", true],
    ["internal_error", false],
    [false, false],
  ] as const) {
    const { bus } = busUnder([], alive);
    assert.equal(await isThere(parent, ofAcme, bus), is, String(alive));
  }
});

test("a task whose parent has ended is not expected", async (t) => {
  const atEnd = cleanup(t);
  const env = systemEnv();
  const { store } = await testStore("sqlite", atEnd);
  const model = new ScriptedModel(env, () => ({ text: [] }));
  const process = new ActorProcess({ env, store, settings: processSettings(atEnd, {}), model, bootId: env.id() });
  atEnd.after(() => process.close());
  const parent = { run_id: env.id(), suffix: "t", task_id: "a".repeat(16) } as ParentRun;

  const isExpected = await resumedUnder(parent, store.tenant(tenantId), process.bus, new Cancellation());

  assert.equal(isExpected, false);
});
