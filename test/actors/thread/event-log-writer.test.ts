import assert from "node:assert/strict";
import { test } from "node:test";
import { EventLogWriter } from "../../../actors/thread/event-log-writer.ts";
import type { EventLogState } from "../../../actors/thread/log-state.ts";
import { threadAddress, topicOf } from "../../../bus/address.ts";
import type { Bus } from "../../../bus/bus.ts";
import { systemEnv } from "../../../bus/env.ts";
import { SvcError } from "../../../bus/errors.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { insertThreadOp } from "../../../storage/tables/threads.ts";
import { threadRow } from "../../support/rows.ts";
import { testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

/** Lets a store apply its next batch, and report that the outcome is unknown. */
function loseReply(tenant: TenantStore): void {
  const write = tenant.write.bind(tenant);
  let isFirst = true;
  tenant.write = async (...args) => {
    const isLost = isFirst;
    isFirst = false;
    const rows = await write(...args);
    if (isLost) throw new SvcError("storage_unavailable");
    return rows;
  };
}

test("STREAM-022 events of a batch whose reply is lost are published once, with the next batch that is applied", async (t) => {
  const { store } = await testStore("sqlite", cleanup(t));
  const tenant = store.tenant("one");
  const address = threadAddress("one", "talk");
  const head = threadRow(1, "talk", { epoch: 0, next_seq: 0, leaf_seq: -1 });
  await tenant.write([insertThreadOp(tenant, head)]);
  const published: string[][] = [];
  const bus = {
    hasSubscribers: () => true,
    publish: (_: string, text: string) => void published.push(text.match(/^id: \d+$/gm) ?? []),
  } as unknown as Bus;
  const log: EventLogState = {
    ...{ store: tenant, threadId: address.key, topic: topicOf(address), head },
    ...{ committedSeq: 0, committedLeaf: -1, recent: [] },
  };
  loseReply(tenant);
  // SQLite keeps the order of batches that are in flight.
  assert.ok(log.store.inOrder);
  const writer = new EventLogWriter("run", log, systemEnv(), bus, () => {});
  const say = (content: string) => writer.append([{ kind: "message", role: "user", content, extra: null }], []);

  // All three are in flight before the first reply is missed.
  const outcomes = await Promise.allSettled([say("one"), say("two"), say("three")]);

  assert.deepEqual(
    outcomes.map(({ status }) => status),
    ["rejected", "fulfilled", "fulfilled"],
  );
  assert.deepEqual(published, [["id: 1", "id: 2"], ["id: 3"]]);
  assert.deepEqual(
    log.recent?.map(({ content }) => content),
    ["one", "two", "three"],
  );
  assert.equal(log.committedSeq, 3);
  assert.ok(writer.failure);
  await assert.rejects(say("four"), { message: "storage_unavailable" });
});
