import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import fc from "fast-check";
import type { Store, TenantStore } from "../../storage/store/store.ts";
import {
  appendOp,
  deleteEventsOp,
  eventId,
  eventSeq,
  eventsMax,
  type LogEvent,
  pageRows,
  readEvents,
  readEventsBefore,
  threadUid,
} from "../../storage/tables/events.ts";
import { enterHostOps } from "../../storage/tables/hosts.ts";
import {
  claimKeyOp,
  idempotencyKey,
  releaseAbandonedKeys,
  releaseKeyOp,
  settleKeyOp,
} from "../../storage/tables/idempotency.ts";
import {
  insertManifestVersionOp,
  manifestPointer,
  manifestPointers,
  manifestVersion,
  manifestVersions,
  setManifestPointerOp,
} from "../../storage/tables/manifests.ts";
import { endRunOp, insertRunOp, runKey } from "../../storage/tables/runs.ts";
import {
  deleteThreadOp,
  insertThreadOp,
  progressOp,
  recentThreads,
  reserveThreadKeys,
  type ThreadCursor,
  type ThreadRow,
  threadBySuffix,
} from "../../storage/tables/threads.ts";
import { insertVersions, newRun, threadRow } from "../support/rows.ts";
import { dialects, testStore } from "../support/stores.ts";
import { cleanup } from "../support/temp.ts";

function event(seq: number, changes: Partial<LogEvent> = {}): LogEvent {
  return {
    seq,
    parent_seq: seq - 1,
    ts: 1000 + seq,
    kind: "message",
    role: "user",
    content: `event ${seq}`,
    extra: null,
    ...changes,
  };
}

for (const dialect of dialects) {
  describe(`repositories on ${dialect}`, () => {
    const atEnd = cleanup();
    let store: Store;
    let count = 0;
    before(async () => {
      ({ store } = await testStore(dialect, atEnd));
    });

    const freshTenant = (): TenantStore => store.tenant(`repositories-${++count}`);
    const nextKey = (): Promise<number> => reserveThreadKeys(store.system, 1);

    test("a thread is found by its exact suffix, in its own tenant only", async () => {
      const tenant = freshTenant();
      const written = threadRow(await nextKey(), "t1", {
        manifest: "m",
        meta: { rewound_at: 7 },
      });

      await tenant.write([insertThreadOp(tenant, written)]);

      assert.deepEqual(await threadBySuffix(tenant, "t1"), written);
      assert.equal(await threadBySuffix(tenant, "T1"), undefined);
      assert.equal(await threadBySuffix(freshTenant(), "t1"), undefined);
    });

    test("a suffix is taken once in a tenant, and free in another", async () => {
      const [one, two] = [freshTenant(), freshTenant()];
      await one.write([insertThreadOp(one, threadRow(await nextKey(), "t1"))]);

      const again = one.write([insertThreadOp(one, threadRow(await nextKey(), "t1"))]);

      await assert.rejects(again, { code: "conflict" });
      await two.write([insertThreadOp(two, threadRow(await nextKey(), "t1"))]);
    });

    test("progress moves a thread from its leaf and counts a revision, else is a conflict", async () => {
      const tenant = freshTenant();
      const key = await nextKey();
      const progress = (next_seq: number, before: number) =>
        progressOp(
          tenant,
          { epoch: 0, next_seq: before },
          {
            thread_key: key,
            updated_at: 9,
            next_seq,
            leaf_seq: next_seq - 1,
            bytes: 70,
            epoch: 0,
            manifest: "m",
            model_id: "r",
          },
        );
      const conflict = { code: "conflict", details: { subject: "thread_progress" } };
      await tenant.write([insertThreadOp(tenant, threadRow(key, "t1"))]);

      await tenant.write([progress(2, 0), progress(3, 2)]);
      await assert.rejects(tenant.write([progress(5, 4)]), conflict, "the batch before was not applied");
      await assert.rejects(tenant.write([progress(4, 2)]), conflict, "somebody else has gone on from there");
      const moved = await threadBySuffix(tenant, "t1");
      await tenant.write([deleteThreadOp(tenant, { thread_key: key, epoch: 0 })]);

      assert.deepEqual(
        moved,
        threadRow(key, "t1", {
          updated_at: 9,
          next_seq: 3,
          leaf_seq: 2,
          bytes: 70,
          manifest: "m",
          model_id: "r",
          revision: 2,
        }),
      );
      await assert.rejects(tenant.write([progress(4, 3)]), conflict);
    });

    test("a thread that another owner took is moved and deleted by that owner only", async () => {
      const tenant = freshTenant();
      const key = await nextKey();
      const progress = {
        thread_key: key,
        updated_at: 9,
        next_seq: 1,
        leaf_seq: 0,
        bytes: 0,
        manifest: null,
        model_id: null,
      };
      await tenant.write([insertThreadOp(tenant, threadRow(key, "t1"))]);
      const move = (epoch: number, before: number, to: number, next_seq = 1) =>
        tenant.write([progressOp(tenant, { epoch, next_seq: before }, { ...progress, next_seq, epoch: to })]);
      const take = (held: number) => move(held, 0, held + 1);

      await take(0);
      const again = take(0);

      await assert.rejects(again, { code: "conflict", details: { subject: "thread_progress" } });
      await assert.rejects(move(0, 1, 0), { code: "conflict" });
      await assert.rejects(tenant.write([deleteThreadOp(tenant, { thread_key: key, epoch: 0 })]), { code: "conflict" });
      await move(1, 1, 1, 2);
      assert.deepEqual((await threadBySuffix(tenant, "t1"))?.next_seq, 2);
      await tenant.write([deleteThreadOp(tenant, { thread_key: key, epoch: 1 })]);
      assert.equal(await threadBySuffix(tenant, "t1"), undefined);
    });

    test("threads are listed newest first, ties by suffix, by cursors without a gap", async () => {
      const tenant = freshTenant();
      const first = await reserveThreadKeys(store.system, 9);
      const rows = Array.from({ length: 9 }, (_, i) =>
        threadRow(first + i, `t${i}`, { updated_at: 1 + Math.floor(i / 3) }),
      );
      await tenant.write(rows.map((row) => insertThreadOp(tenant, row)));

      for (const limit of [1, 2, 4, 9, 20]) {
        const seen: string[] = [];
        let cursor: ThreadCursor | null = null;
        for (;;) {
          const page: ThreadRow[] = await recentThreads(tenant, cursor, limit);
          seen.push(...page.map(({ suffix }) => suffix));
          const last = page.at(-1);
          if (!last || page.length < limit) break;
          cursor = { updated_at: last.updated_at, suffix: last.suffix };
        }
        assert.deepEqual(seen, ["t8", "t7", "t6", "t5", "t4", "t3", "t2", "t1", "t0"], `pages of ${limit}`);
      }
    });

    test("events are read as written in both directions, with keys far beyond 2^31", async () => {
      const tenant = freshTenant();
      const events = [
        event(0, {
          extra: {
            name: "n",
            tool_call_id: "c",
            tool_calls: [{ id: "1", name: "x", args: { a: [1, null] } }],
            metadata: { usage: 1 },
          },
        }),
        event(1, { role: null, kind: "audit", content: "" }),
        event(2, { parent_seq: 0 }),
      ];
      for (const key of [await nextKey(), 2 ** 28 + count]) {
        await tenant.write(events.map((each) => appendOp(tenant, key, each)));

        assert.deepEqual(await readEvents(tenant, key, 0, 100), events);
        assert.deepEqual(await readEvents(tenant, key, 1, 2), [events[1]]);
        assert.deepEqual(await readEvents(tenant, key, 0, Number.MAX_SAFE_INTEGER), events);
        assert.deepEqual(await readEventsBefore(tenant, key, 2), [events[1], events[0]]);
        assert.deepEqual(await readEventsBefore(tenant, key, Number.MAX_SAFE_INTEGER, 1), [events[2]]);
        assert.deepEqual(await readEvents(tenant, key + 1, 0, 100), []);
        assert.deepEqual(await readEvents(freshTenant(), key, 0, 100), []);
      }
    });

    test("an event is appended once: the second time is a conflict, and the first stays", async () => {
      const tenant = freshTenant();
      const key = await nextKey();
      await tenant.write([appendOp(tenant, key, event(0))]);

      await assert.rejects(tenant.write([appendOp(tenant, key, event(0, { content: "other" }))]), { code: "conflict" });

      assert.deepEqual(await readEvents(tenant, key, 0, 10), [event(0)]);
    });

    test("a page of events is bounded, and no thread's last event starts the next thread", async () => {
      const tenant = freshTenant();
      const key = await reserveThreadKeys(store.system, 2);
      await tenant.write(Array.from({ length: pageRows + 5 }, (_, i) => appendOp(tenant, key, event(i))));
      await tenant.write([appendOp(tenant, key, event(eventsMax - 1)), appendOp(tenant, key + 1, event(0))]);

      const forward = await readEvents(tenant, key, 0, eventsMax);
      const backward = await readEventsBefore(tenant, key, eventsMax, 10_000);

      assert.deepEqual([forward.length, forward[0]?.seq], [pageRows, 0]);
      assert.deepEqual([backward.length, backward[0]?.seq], [pageRows, eventsMax - 1]);
      assert.deepEqual(
        (await readEvents(tenant, key + 1, 0, 10)).map(({ seq }) => seq),
        [0],
      );
    });

    test("deleting a thread's events keeps its neighbours'", async () => {
      const tenant = freshTenant();
      const key = await reserveThreadKeys(store.system, 3);
      for (const each of [key, key + 1, key + 2])
        await tenant.write([appendOp(tenant, each, event(0)), appendOp(tenant, each, event(1))]);

      await tenant.write([deleteEventsOp(tenant, key + 1)]);

      const left = await Promise.all([key, key + 1, key + 2].map((each) => readEvents(tenant, each, 0, 10)));
      assert.deepEqual(
        left.map(({ length }) => length),
        [2, 0, 2],
      );
    });

    test("an idempotency key is claimed once, then settled, and free once expired", async () => {
      const tenant = freshTenant();
      const key = { scope: "s", fingerprint: "f", owner: "o", run_id: "r1", answer: null, expires_at: 100 };

      await tenant.write([claimKeyOp(tenant, key, 10)]);
      await assert.rejects(tenant.write([claimKeyOp(tenant, { ...key, run_id: "r2" }, 99)]), { code: "conflict" });
      await tenant.write([
        settleKeyOp(tenant, "s", "another run", "wrong", 9_999),
        settleKeyOp(tenant, "s", "r1", "answer", 100),
      ]);
      const settled = await idempotencyKey(tenant, "s", 99);
      const lapsed = await idempotencyKey(tenant, "s", 100);
      await tenant.write([releaseKeyOp(tenant, "s", "r1")]);
      const afterRelease = await idempotencyKey(tenant, "s", 99);
      await tenant.write([claimKeyOp(tenant, { ...key, run_id: "r3", expires_at: 200 }, 100)]);
      const takenOver = await idempotencyKey(tenant, "s", 100);
      await tenant.write([releaseKeyOp(tenant, "s", "r3")]);

      assert.deepEqual(settled, { ...key, state: "done", answer: "answer" });
      assert.equal(lapsed, undefined);
      assert.deepEqual(afterRelease, settled, "a settled key is not released");
      assert.deepEqual(takenOver, { ...key, run_id: "r3", state: "in_progress", expires_at: 200 });
      assert.equal(await idempotencyKey(tenant, "s", 100), undefined);
    });

    test("claims of lost hosts and workers are deleted, unless settled or of open runs", async () => {
      const tenant = freshTenant();
      const runs = await reserveThreadKeys(store.system, 2);
      const over = { status: "failed", stop_reason: null, error: null, usage: null } as const;
      const claim = (scope: string, owner: string) =>
        claimKeyOp(tenant, { scope, fingerprint: "f", owner, run_id: scope, answer: null, expires_at: 100 }, 1);
      await tenant.write([
        claim("mine", "me:1:0"),
        claim("lost", "me:2:0"),
        claim("leased", "they:1:0"),
        claim("theirs", "ME:1:0"),
        claim("done", "them:1:0"),
        settleKeyOp(tenant, "done", "done", "{}", 100),
        claim("waits", "them:1:0"),
        insertRunOp(tenant, newRun("waits", { idempotency_scope: "waits" }), {
          thread_key: runs,
          epoch: 1,
          first_seq: 0,
        }),
        claim("over", "them:1:0"),
        insertRunOp(tenant, newRun("over", { idempotency_scope: "over" }), {
          thread_key: runs + 1,
          epoch: 1,
          first_seq: 0,
        }),
        endRunOp(tenant, { run_key: runKey(runs + 1, 1), epoch: 1 }, { ...over, ended_at: 1, last_seq: 0 }),
      ]);

      await store.system.write(enterHostOps(store.system, { id: "they", mode: "cluster", card: null }, 3_600_000));

      await releaseAbandonedKeys(store.system, { hostsBut: "me" });
      const states = async (): Promise<(string | undefined)[]> => {
        const scopes = ["mine", "lost", "leased", "theirs", "done", "waits", "over"];
        const keys = await Promise.all(scopes.map((scope) => idempotencyKey(tenant, scope, 1)));
        return keys.map((key) => key?.state);
      };
      const ofHosts = await states();
      await releaseAbandonedKeys(store.system, { worker: "me:2:0" });

      const left = ["done", "in_progress", undefined];
      assert.deepEqual(ofHosts, ["in_progress", "in_progress", "in_progress", undefined, ...left]);
      assert.deepEqual(await states(), ["in_progress", undefined, "in_progress", undefined, ...left]);
    });

    test("manifest versions and their pointer are read as written, newest first", async () => {
      const tenant = freshTenant();
      const version = {
        name: "m",
        version: 2,
        manifest: "{}",
        digest: "d",
        created_at: 5,
        created_by: "me",
        comment: "why",
      };
      const pointer = {
        name: "m",
        version: 2,
        canary_version: null,
        canary_weight: 0,
        updated_at: 6,
        updated_by: "me",
      };
      await tenant.write([
        ...insertVersions(tenant, "m", 1, 3),
        insertManifestVersionOp(tenant, version),
        setManifestPointerOp(tenant, pointer),
      ]);

      const moved = { ...pointer, version: 3, canary_version: 1, canary_weight: 10 };
      await tenant.write([
        setManifestPointerOp(tenant, moved),
        setManifestPointerOp(tenant, { ...pointer, name: "a" }),
      ]);

      assert.deepEqual(await manifestVersion(tenant, "m", 2), version);
      assert.equal(await manifestVersion(tenant, "m", 9), undefined);
      assert.deepEqual(
        (await manifestVersions(tenant, "m", 4, 10)).map((each) => each.version),
        [3, 2, 1],
      );
      assert.deepEqual(await manifestPointer(tenant, "m"), moved);
      assert.deepEqual(
        (await manifestPointers(tenant)).map(({ name }) => name),
        ["a", "m"],
      );
    });
  });
}

test("an event id names its thread and position, and nothing else does", () => {
  const uid = threadUid("0123456789abcdef0123456789abcdef");

  fc.assert(
    fc.property(fc.nat(eventsMax - 1), (seq) => {
      const id = eventId(uid, seq);
      assert.equal(id.length, 32);
      assert.equal(eventSeq(uid, id), seq);
      assert.equal(eventSeq("f".repeat(20), id), -1);
    }),
  );
  for (const id of [
    "",
    uid,
    `${uid}00000000000g`,
    `${uid}0000000000000`,
    `${uid.toUpperCase()}000000000000`,
    `${uid}-00000000001`,
  ])
    assert.equal(eventSeq(uid, id), -1, id);
});
