import assert from "node:assert/strict";
import { test } from "node:test";
import { dropState } from "../../../actors/thread/open.ts";
import type { ThreadState } from "../../../actors/thread/thread-state.ts";
import { UnpublishedEvents } from "../../../actors/thread/unpublished-events.ts";
import { threadAddress, topicOf } from "../../../bus/address.ts";
import type { Bus } from "../../../bus/bus.ts";
import { SvcError } from "../../../bus/errors.ts";
import { appendOp } from "../../../storage/tables/events.ts";
import { insertThreadOp } from "../../../storage/tables/threads.ts";
import { threadRow } from "../../support/rows.ts";
import { testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

test("STREAM-022 listeners get unpublished events of the log once, each tenant its own", async (t) => {
  const { store } = await testStore("sqlite", cleanup(t));
  const published: [topic: string, ids: string[]][] = [];
  const bus = {
    hasSubscribers: (topic: string) => !topic.includes("quiet"),
    publish: (topic: string, text: string) => void published.push([topic, text.match(/^id: \d+$/gm) ?? []]),
  } as unknown as Bus;
  const unpublished = new UnpublishedEvents(bus);
  let key = 0;
  async function logOf(tenantId: string, suffix: string, events: number, content = "said") {
    const tenant = store.tenant(tenantId);
    const head = threadRow(++key, suffix, { next_seq: events, leaf_seq: events - 1 });
    const event = { ts: 1, kind: "message", role: "user", content, extra: null } as const;
    const appends = Array.from({ length: events }, (_, seq) =>
      appendOp(tenant, head.thread_key, { ...event, seq, parent_seq: seq - 1 }),
    );
    await tenant.write([insertThreadOp(tenant, head), ...appends]);
    const address = threadAddress(tenantId, suffix);
    return {
      ...{ store: tenant, threadId: address.key, topic: topicOf(address), head },
      ...{ committedSeq: 1, committedLeaf: 0, recent: null },
    };
  }
  const one = await logOf("one", "same", 3);
  const two = await logOf("two", "same", 2);
  const quiet = await logOf("one", "quiet", 3);

  unpublished.note(one);
  unpublished.note(quiet);
  for (const log of [two, quiet, one, one]) await unpublished.tell(log);

  assert.deepEqual(published.splice(0), [[one.topic, ["id: 2", "id: 3"]]]);

  // More than a page of the log, in order.
  const long = await logOf("one", "long", 9, "x".repeat(250_000));
  unpublished.note(long);
  for (const log of [long, long]) await unpublished.tell(log);

  assert.deepEqual(
    published.flatMap(([, ids]) => ids),
    Array.from({ length: 8 }, (_, at) => `id: ${at + 2}`),
  );
  assert.ok(published.length > 1);

  // After a conflict, another host has published the newer events.
  for (const [code, told] of [
    ["conflict", []],
    ["storage_unavailable", [[two.topic, ["id: 2"]]]],
  ] as const) {
    published.length = 0;
    const state = { ...two, replaced: false, opening: null } as unknown as ThreadState;
    const deps = { unpublished } as Parameters<typeof dropState>[1]["deps"];
    dropState(state, { deps, discard: () => {} }, new SvcError(code));
    await unpublished.tell(two);
    assert.deepEqual(published, told, code);
  }
});
