// The answers of a parent run to its task: the parent is gone, or its state is unknown.
import assert from "node:assert/strict";
import { test } from "node:test";
import { isThere, parentBudgetOf } from "../../../../actors/run/billing/parent-budget.ts";
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
const reservation = { reservation_id: "l", input_tokens: 1, output_tokens: 1, cost_usd: 0 };
const wanted = { input_tokens: 1, output_tokens: 1 };

/** The lender of a task whose parent gives these answers in turn, repeating the last one. */
function budgetAbove(reserve: readonly (ErrorCode | "lent")[], alive: ErrorCode | boolean = true) {
  const { env, delays } = stillEnv();
  const cancellation = new Cancellation();
  let asked = 0;
  let gone = 0;
  const said: Record<string, () => ErrorCode | object> = {
    alive: () => (typeof alive === "string" ? alive : { alive }),
    reserve: () => {
      const next = reserve[Math.min(asked++, reserve.length - 1)];
      return next === "lent" ? { reservation } : (next as ErrorCode);
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
  const parentBudget = parentBudgetOf(parent, ofAcme, bus, cancellation, () => gone++);
  return { parentBudget, bus, delays, cancellation, asked: () => asked, gone: () => gone };
}

test("DEL-005 a task retries while its parent's store or thread is away", async () => {
  const { parentBudget, delays, gone } = budgetAbove(["storage_unavailable", "mailbox_full", "actor_lost", "lent"]);

  assert.deepEqual(await parentBudget.reserve(wanted, null), reservation);
  assert.deepEqual([delays, gone()], [[250, 500, 1_000], 0]);
});

test("a task whose parent's state stays unknown is refused, not orphaned", async () => {
  const { parentBudget, asked, gone } = budgetAbove(["storage_unavailable"]);

  await assert.rejects(parentBudget.reserve(wanted, null), { code: "storage_unavailable" });
  assert.deepEqual([asked(), gone()], [7, 0]);
});

test("a task learns at once that its parent is gone or does not know it", async () => {
  const over = budgetAbove(["actor_lost"], false);
  const forgotten = budgetAbove(["actor_lost"], true);

  assert.deepEqual([await over.parentBudget.reserve(wanted, null), over.asked(), over.gone()], [null, 1, 1]);
  assert.deepEqual(
    [await forgotten.parentBudget.reserve(wanted, null), forgotten.asked(), forgotten.gone()],
    [null, 3, 1],
  );
});

test("a stopped task asks no more", async () => {
  const { parentBudget, cancellation, asked, gone } = budgetAbove(["storage_unavailable"]);
  const lent = parentBudget.reserve(wanted, null);
  cancellation.cancel();

  assert.equal(await lent, null);
  assert.deepEqual([asked(), gone()], [1, 0]);
});

test("DEL-005 a resumed task assumes that its parent lives while its state is unknown", async () => {
  for (const [alive, is] of [
    ["storage_unavailable", true],
    ["actor_lost", true],
    ["internal_error", false],
    [false, false],
  ] as const) {
    const { bus } = budgetAbove([], alive);
    assert.equal(await isThere(parent, ofAcme, bus), is, String(alive));
  }
});

test("a task whose parent has ended reserves nothing and makes no call, each time", async (t) => {
  const atEnd = cleanup(t);
  const env = systemEnv();
  const { store } = await testStore("sqlite", atEnd);
  const model = new ScriptedModel(env, () => ({ text: [] }));
  const process = new ActorProcess({ env, store, settings: processSettings(atEnd, {}), model, bootId: env.id() });
  atEnd.after(() => process.close());
  const parent = { run_id: env.id(), suffix: "t", task_id: "a".repeat(16) } as ParentRun;
  let gone = 0;
  const parentBudget = parentBudgetOf(parent, store.tenant(tenantId), process.bus, new Cancellation(), () => gone++);

  const reservation = await parentBudget.reserve({ input_tokens: 1, output_tokens: 1 }, null);
  const call = await parentBudget.count("calculator");

  assert.deepEqual([reservation, call?.limit, gone], [null, "max_tool_calls", 2]);
});
