// Upgrades of a database of the previous release. After 0023 its usage is in the sums, its text is searchable and its
// manifests are counted; after 0059 its short words are searchable.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { systemEnv } from "../../bus/env.ts";
import { migrate } from "../../storage/migrate.ts";
import type { StoreConfig } from "../../storage/store/config.ts";
import { statementNamed, tenantSql } from "../../storage/store/statements.ts";
import type { Store, TenantStore, WriteOp } from "../../storage/store/store.ts";
import { appendOp } from "../../storage/tables/events.ts";
import { draftFileOp, dropFilesOfThreadOps, keepFileOp, keptFile } from "../../storage/tables/files.ts";
import { indexEvents, searchEvents } from "../../storage/tables/search.ts";
import { markWords } from "../../storage/tables/search-words.ts";
import { storedBytes } from "../../storage/tables/stored-bytes.ts";
import type { ThreadRow } from "../../storage/tables/threads.ts";
import { insertUsageOp, usageSummary } from "../../storage/tables/usage.ts";
import { insertVersions, threadRow } from "../support/rows.ts";
import { dialects, emptyDatabase, runStore } from "../support/stores.ts";
import { type Cleanup, cleanup } from "../support/temp.ts";

const insertOldThread = tenantSql(
  "test_thread_of_before",
  `INSERT INTO threads (tenant_id, thread_key, suffix, uid, created_at, updated_at, next_seq, leaf_seq, revision, epoch, parent_session_id,
   indexed_seq) VALUES (:tenant, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
);

/** A thread with the columns that the table had before 0066. */
function insertOldThreadOp(tenant: TenantStore, row: ThreadRow): WriteOp {
  const { thread_key, suffix, uid, created_at, updated_at, next_seq, leaf_seq, revision, epoch } = row;
  const hidden = suffix.startsWith("task-") ? Number.MAX_SAFE_INTEGER : 0;
  const numbers = [thread_key, suffix, uid, created_at, updated_at, next_seq, leaf_seq, revision, epoch];
  return tenant.op(insertOldThread, [...numbers, row.parent_session_id, hidden]);
}

const before = { target: "0021", downgrade: false };
const head = { target: "head", downgrade: false };
const window = { since: 0, until: 10 };

/** Runs `work` with a store and closes it afterwards. */
async function withStore<T>(config: StoreConfig, work: (store: Store) => Promise<T>): Promise<T> {
  const works: (() => void | Promise<void>)[] = [];
  const atEnd: Cleanup = { after: (end) => void works.push(end) };
  const { store } = await runStore(config, atEnd);
  try {
    return await work(store);
  } finally {
    for (const end of works) await end();
  }
}

async function fill(store: Store, tenantId: string, key: number): Promise<void> {
  const tenant = store.tenant(tenantId);
  const usage = (id: string, model_id: string) =>
    insertUsageOp(tenant, {
      id,
      ts: 5,
      manifest_id: "m",
      model_id,
      wire_model_id: "w",
      kind: "tokens",
      tokens_input: 1,
      tokens_output: 2,
      cache_creation: 3,
      cache_read: 4,
      cost_usd: 0.5,
      thread_id: "t",
      meta_json: "{}",
    });
  await tenant.write([
    insertOldThreadOp(tenant, threadRow(key, "t", { next_seq: 1, leaf_seq: 0 })),
    appendOp(tenant, key, {
      seq: 0,
      parent_seq: -1,
      ts: 5,
      kind: "message",
      role: "user",
      content: "an old pelican",
      extra: null,
    }),
    usage("a", "fast"),
    usage("b", "fast"),
    usage("c", "slow"),
    ...insertVersions(tenant, "m", 1, 2),
  ]);
}

for (const dialect of dialects) {
  describe(`the database of the release before on ${dialect}`, () => {
    test("has its sums, words and counts after the migration, and loses nothing on the way back and forth", async (t) => {
      const config = await emptyDatabase(dialect, cleanup(t));
      await migrate(config, before);
      await withStore(config, async (store) => {
        await fill(store, "acme", 1);
        await fill(store, "globex", 2);
      });

      for (let round = 0; round < 2; round++) {
        await migrate(config, head);
        await withStore(config, async (store) => {
          const acme = store.tenant("acme");
          await indexEvents(store, 10, systemEnv());
          const { items, totals } = await usageSummary(acme, window, null);
          const hits = await searchEvents(acme, "pelican", 10, systemEnv());

          assert.deepEqual(
            items.map(({ model_id, calls, cache_read }) => [model_id, calls, cache_read]),
            [
              ["fast", 2, 8],
              ["slow", 1, 4],
            ],
          );
          assert.deepEqual([totals.calls, totals.cost_usd], [3, 1.5]);
          assert.deepEqual(
            hits.map(({ content }) => content),
            ["an old pelican"],
          );
          const bytes = 2 * ("{}".length + "made by a test".length);
          assert.deepEqual([await storedBytes(acme, "manifests"), await storedBytes(acme, "all")], [bytes, bytes]);
          assert.equal(await storedBytes(store.tenant("nobody"), "all"), 0);
        });
        await migrate(config, { target: "0021", downgrade: true });
      }
    });

    test("knows after 0062 which files the forks of before 0061 show", async (t) => {
      const config = await emptyDatabase(dialect, cleanup(t));
      await migrate(config, { target: "0061", downgrade: false });
      await withStore(config, async (store) => {
        const tenant = store.tenant("acme");
        const shows = (
          key: number,
          seq: number,
          files: readonly string[],
          metadata: object,
          kind: "message" | "custom" = "message",
        ) =>
          appendOp(tenant, key, {
            ...{ seq, parent_seq: seq - 1, ts: 5, kind, role: "user", content: "" },
            extra: {
              metadata: {
                attachments: files.map((id) => ({ url: `svc-file://${id}`, media_type: "image/png" })),
                ...metadata,
              },
            },
          });
        const copy = { forked_from: "0".repeat(32) };
        const file = (file_id: string, thread_key: number | null) => [
          draftFileOp(tenant, {
            file_id,
            media_type: "image/png",
            size_bytes: 1,
            filename: "",
            created_at: 5,
            created_by: "alice",
            thread_key,
          }),
          keepFileOp(tenant, file_id),
        ];
        const fork = { next_seq: 9, leaf_seq: 8, parent_session_id: "acme:source" };
        await tenant.write([
          ...[file("drawn", 1), file("other", 1), file("own", 2), file("upload", null)].flat(),
          insertOldThreadOp(tenant, threadRow(1, "source", { next_seq: 1, leaf_seq: 0 })),
          shows(1, 0, ["drawn", "other"], {}),
          insertOldThreadOp(tenant, threadRow(2, "fork", fork)),
          shows(2, 0, ["drawn", "upload"], copy),
          shows(2, 1, ["own"], copy),
          // Referred to by name and not copied.
          shows(2, 2, ["other"], { note: "forked_from" }, "custom"),
          appendOp(tenant, 2, {
            seq: 3,
            parent_seq: 2,
            ts: 5,
            kind: "message",
            role: "user",
            content: "",
            extra: { metadata: { ...copy, attachments: "svc-file://other" } },
          }),
          insertOldThreadOp(tenant, threadRow(3, "fork-of-fork", { ...fork, parent_session_id: "acme:fork" })),
          shows(3, 0, ["drawn", "own"], copy),
          insertOldThreadOp(tenant, threadRow(4, "task-0123456789abcdef", fork)),
          shows(4, 0, ["drawn"], copy),
        ]);
      });

      await migrate(config, head);

      await withStore(config, async (store) => {
        const tenant = store.tenant("acme");
        const stillThere = async () => {
          const found = await Promise.all(["drawn", "other", "own", "upload"].map((id) => keptFile(tenant, id)));
          return found.flatMap((row) => row ?? []).map(({ file_id, thread_key }) => [file_id, thread_key]);
        };
        await tenant.write(dropFilesOfThreadOps(tenant, 1));
        assert.deepEqual(await stillThere(), [
          ["drawn", 2],
          ["own", 2],
          ["upload", null],
        ]);
        await tenant.write(dropFilesOfThreadOps(tenant, 2));
        assert.deepEqual(await stillThere(), [
          ["drawn", 3],
          ["own", 3],
          ["upload", null],
        ]);
        await tenant.write(dropFilesOfThreadOps(tenant, 3));
        assert.deepEqual(await stillThere(), [["upload", null]]);
      });
    });

    test("finds short words as themselves after 0059, when its logs were indexed again", async (t) => {
      const config = await emptyDatabase(dialect, cleanup(t));
      await migrate(config, { target: "0057", downgrade: false });
      const find = async (store: Store, query: string) =>
        (await searchEvents(store.tenant("acme"), query, 10, systemEnv())).map(({ content }) => content);
      await withStore(config, async (store) => {
        const tenant = store.tenant("acme");
        await fill(store, "acme", 1);
        // The index rows of the previous release for "ox 10".
        await tenant.write([
          tenant.op(statementNamed("search_insert_words"), [markWords("acme", ["ox0", "100"]).join(" "), 2 ** 24]),
          tenant.op(statementNamed("search_move_mark"), [1, 1, 0], 1),
        ]);
        assert.deepEqual(await find(store, "100"), ["an old pelican"]);
      });

      await migrate(config, head);

      await withStore(config, async (store) => {
        assert.equal(await indexEvents(store, 10, systemEnv()), true);
        assert.deepEqual(await find(store, "100"), []);
        assert.deepEqual(await find(store, "an"), ["an old pelican"]);
      });
    });
  });
}
