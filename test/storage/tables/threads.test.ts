import assert from "node:assert/strict";
import { test } from "node:test";
import { insertThreadOp, type ThreadRow, tasksOfThread } from "../../../storage/tables/threads.ts";
import { dialects, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

/** A thread with its parent; only its run writes to the thread of a task. */
const thread = (thread_key: number, suffix: string, updated_at: number): ThreadRow => ({
  ...{ thread_key, suffix, updated_at, created_at: 5, next_seq: 0, leaf_seq: -1, bytes: 0, revision: 0, epoch: 0 },
  ...{ uid: String(thread_key).padStart(20, "0"), manifest: null, model_id: null, session_name: null, preview: null },
  ...{ parent_session_id: "acme:t", meta: {} },
});

for (const dialect of dialects)
  test(`a conversation's tasks come in full pages, despite copies, on ${dialect}`, async (t) => {
    const { store } = await testStore(dialect, cleanup(t));
    const tenant = store.tenant("acme");
    const taskIds = ["a", "b", "c"].map((digit) => `task-${digit.repeat(16)}`);
    const copies = ["copy-1", "copy-2", `task-${"a".repeat(15)}b`, "zcopy"];
    await tenant.write([
      ...taskIds.map((suffix, at) => insertThreadOp(tenant, thread(1 + at, suffix, 0))),
      ...copies.map((suffix, at) => insertThreadOp(tenant, thread(10 + at, suffix, 5))),
    ]);

    const first = await tasksOfThread(tenant, "acme:t", "", 2);
    const next = await tasksOfThread(tenant, "acme:t", first.at(-1) ?? "", 2);

    assert.deepEqual([first, next], [taskIds.slice(0, 2), taskIds.slice(2)]);
    assert.deepEqual(await tasksOfThread(store.tenant("other"), "acme:t", "", 9), []);
  });
