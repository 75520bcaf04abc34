import assert from "node:assert/strict";
import { test } from "node:test";
import { threadAddress } from "../../bus/address.ts";
import { activeBranch } from "../../http/active-branch.ts";
import type { HttpContext } from "../../http/context.ts";
import { insertThreadOp, reserveThreadKeys } from "../../storage/tables/threads.ts";
import { threadRow } from "../support/rows.ts";
import { testStore } from "../support/stores.ts";
import { cleanup } from "../support/temp.ts";

test("the active branch includes stored events that the thread's actor lacks", async (t) => {
  const { store } = await testStore("sqlite", cleanup(t));
  const tenant = store.tenant("acme");
  const key = await reserveThreadKeys(store.system, 1);
  await tenant.write([insertThreadOp(tenant, { ...threadRow(key, "t"), next_seq: 3, leaf_seq: 2 })]);
  const asked: unknown[] = [];
  const bus = {
    ask: async (...words: unknown[]) => {
      asked.push(words);
      return { leaf_seq: 0, next_seq: 1 };
    },
  };
  const context: Partial<HttpContext> = { bus: bus as never, store };

  const { thread, branch } = await activeBranch(context as HttpContext, threadAddress("acme", "t"));

  assert.equal(thread?.leaf_seq, 2);
  assert.equal(branch.at(-1)?.to, 3);
  assert.equal(asked.length, 1, "the actor is asked first, which closes what a run that is gone has left");
});
