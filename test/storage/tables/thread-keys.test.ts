// Keys of new threads are reserved from the store in blocks.
import assert from "node:assert/strict";
import { test } from "node:test";
import { appendOp, eventsMax, type LogEvent, readEvents, runOfEvent } from "../../../storage/tables/events.ts";
import { ThreadKeys } from "../../../storage/tables/thread-keys.ts";
import { reserveThreadKeys, threadKeysEnd } from "../../../storage/tables/threads.ts";
import { dialects, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

for (const dialect of dialects) {
  test(`concurrent new threads each get a key of their own, block after block, on ${dialect}`, async (t) => {
    const { store, another } = await testStore(dialect, cleanup(t));
    const [keys, others] = [new ThreadKeys(store), new ThreadKeys(another())];

    const taken = await Promise.all(Array.from({ length: 2_500 }, () => keys.next()));
    const takenByOthers = await Promise.all(Array.from({ length: 10 }, () => others.next()));

    const first = taken[0] ?? 0;
    assert.deepEqual(
      taken,
      taken.map((_, at) => first + at),
    );
    assert.ok(takenByOthers.every((key) => key >= first + 3 * 1024 || key < first));
    assert.equal(new Set([...taken, ...takenByOthers]).size, 2_510);
  });

  test(`no thread key beyond exact event numbers is assigned, on ${dialect}`, async (t) => {
    const { store } = await testStore(dialect, cleanup(t));
    const tenant = store.tenant("acme");
    const first = await reserveThreadKeys(store.system, 1);
    await reserveThreadKeys(store.system, threadKeysEnd - first - 3);

    const full = { code: "storage_unavailable", details: { subject: "threads_full" } };
    await assert.rejects(reserveThreadKeys(store.system, 3), full);
    await assert.rejects(new ThreadKeys(store).next(), full);
    const last = (await reserveThreadKeys(store.system, 2)) + 1;
    await assert.rejects(reserveThreadKeys(store.system, 1), full);
    const event = (seq: number): LogEvent => {
      const said = { kind: "message", role: "user", content: `${seq}`, extra: null } as const;
      return { seq, parent_seq: seq - 1, ts: 1, ...said };
    };
    const seqs = [0, eventsMax - 2, eventsMax - 1];
    await tenant.write(seqs.map((seq) => appendOp(tenant, last, event(seq), seq)));

    assert.equal(last, threadKeysEnd - 1);
    assert.deepEqual(await readEvents(tenant, last, 0, eventsMax), seqs.map(event));
    assert.deepEqual(await Promise.all(seqs.map((seq) => runOfEvent(tenant, last, seq))), seqs);
  });
}
