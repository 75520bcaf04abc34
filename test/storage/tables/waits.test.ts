import assert from "node:assert/strict";
import { test } from "node:test";
import { closeWaitOp, openWaitOp, openWaitsOfThread } from "../../../storage/tables/waits.ts";
import { dialects, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

for (const dialect of dialects)
  test(`open questions of a conversation and its tasks are listed once, on ${dialect}`, async (t) => {
    const { store } = await testStore(dialect, cleanup(t));
    const tenant = store.tenant("acme");
    const wait = (wait_id: string, thread_key: number, asked_on: number, opened_at: number, deadline: number | null) =>
      openWaitOp(tenant, {
        ...{ wait_id, thread_key, asked_on, opened_at, deadline },
        ...{ suffix: `s${thread_key}`, run_id: `r${thread_key}`, beside: 0, kind: "question", subject: "s" },
        may_answer: { scopes: [], principal: null, not_principal: null },
        call: { tool_call_id: "c", tool: "t", args: {}, control: null },
        ...{ approval_id: null, frame: null, asked_as: null },
      });
    await tenant.write([
      wait("own", 1, 1, 20, Number.MAX_SAFE_INTEGER),
      wait("of-task", 2, 1, 10, null),
      wait("another", 3, 3, 15, null),
      wait("over", 2, 1, 5, 6),
      wait("closed", 1, 1, 5, null),
      closeWaitOp(tenant, "closed"),
    ]);

    const told = async (threadKey: number, limit = 9) =>
      (await openWaitsOfThread(tenant, threadKey, limit)).map(({ wait_id }) => wait_id);

    assert.deepEqual(await told(1), ["of-task", "own"]);
    assert.deepEqual(await told(1, 1), ["of-task"]);
    assert.deepEqual(await told(2), ["of-task"]);
    assert.deepEqual(await told(3), ["another"]);
    assert.deepEqual(await openWaitsOfThread(store.tenant("other"), 1, 9), []);
  });
