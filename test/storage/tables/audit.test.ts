import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import fc from "fast-check";
import type { Store, TenantStore } from "../../../storage/store/store.ts";
import {
  type AuditFilter,
  type AuditRow,
  auditExport,
  auditPage,
  auditToolMetrics,
  insertAuditOp,
} from "../../../storage/tables/audit.ts";
import { dialects, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

function row(id: string, ts: number, changes: Partial<AuditRow> = {}): AuditRow {
  return {
    id,
    ts,
    event_type: "user_input",
    manifest_id: "m",
    principal_subj: "me",
    status: "ok",
    payload: "{}",
    ...changes,
  };
}

function call(id: string, ts: number, tool: string, latency_ms: unknown, status = "ok"): AuditRow {
  return row(id, ts, { event_type: "tool_call", status, payload: JSON.stringify({ tool, latency_ms }) });
}

for (const dialect of dialects) {
  describe(`audit on ${dialect}`, () => {
    const atEnd = cleanup();
    let store: Store;
    let count = 0;
    before(async () => {
      ({ store } = await testStore(dialect, atEnd));
    });

    async function tenantWith(rows: readonly AuditRow[]): Promise<TenantStore> {
      const tenant = store.tenant(`audit-${++count}`);
      for (let i = 0; i < rows.length; i += 200)
        await tenant.write(rows.slice(i, i + 200).map((each) => insertAuditOp(tenant, each)));
      return tenant;
    }

    async function allPages(tenant: TenantStore, filter: AuditFilter, limit: number): Promise<string[][]> {
      const pages: string[][] = [];
      let cursor: string | null = null;
      do {
        const page: Awaited<ReturnType<typeof auditPage>> = await auditPage(tenant, filter, cursor, limit);
        pages.push(page.rows.map(({ id }) => id));
        cursor = page.next_cursor;
      } while (cursor !== null);
      return pages;
    }

    const ids = async (tenant: TenantStore, filter: AuditFilter): Promise<string[]> =>
      (await allPages(tenant, filter, 100)).flat();

    test("AUDIT-006 pages go newest first, ties by id, complete and without repeats", async () => {
      const tenant = await tenantWith([row("a", 1), row("b", 2), row("d", 2), row("c", 2), row("e", 3)]);

      assert.deepEqual(await allPages(tenant, {}, 2), [["e", "d"], ["c", "b"], ["a"]]);
      assert.deepEqual(await allPages(tenant, {}, 5), [["e", "d", "c", "b", "a"]]);
      assert.deepEqual(await allPages(await tenantWith([]), {}, 5), [[]]);
    });

    test("AUDIT-006 a row is read as it was written", async () => {
      const written = row("a", 1_700_000_000_000, {
        payload: '{"tool":"x"}',
        status: "denied",
        event_type: "policy_deny",
      });
      const tenant = await tenantWith([written]);

      const { rows } = await auditPage(tenant, {}, null, 1);

      assert.deepEqual(rows, [written]);
    });

    test("AUDIT-006 each filter works, alone and combined", async () => {
      const rows = ["user_input", "tool_call"].flatMap((event_type) =>
        ["ok", "error"].flatMap((status) =>
          ["m", "n"].map((manifest_id, i) =>
            row(`${event_type}-${status}-${manifest_id}`, 10 + i, { event_type, status, manifest_id }),
          ),
        ),
      );
      const tenant = await tenantWith(rows);

      assert.equal((await ids(tenant, { event_type: "tool_call" })).length, 4);
      assert.equal((await ids(tenant, { status: "error" })).length, 4);
      assert.equal((await ids(tenant, { manifest_id: "n" })).length, 4);
      assert.deepEqual(await ids(tenant, { event_type: "tool_call", status: "ok", manifest_id: "m" }), [
        "tool_call-ok-m",
      ]);
      assert.deepEqual(await ids(tenant, { event_type: "tool_call", since: 11 }), [
        "tool_call-ok-n",
        "tool_call-error-n",
      ]);
    });

    test("AUDIT-006 AUDIT-011 since is included and until is not, so that consecutive windows fit together", async () => {
      const tenant = await tenantWith(
        Array.from({ length: 40 }, (_, i) => row(`r${String(i).padStart(2, "0")}`, 100 + (i >> 2))),
      );
      const all = await ids(tenant, {});

      await fc.assert(
        fc.asyncProperty(fc.integer({ min: 101, max: 109 }), fc.integer({ min: 1, max: 7 }), async (split, limit) => {
          const late = (await allPages(tenant, { since: split, until: 200 }, limit)).flat();
          const early = (await allPages(tenant, { since: 100, until: split }, limit)).flat();
          assert.deepEqual([...late, ...early], all);
        }),
        { numRuns: 20 },
      );
    });

    test("AUDIT-010 a reversed window is invalid_window, for a page and for an export", async () => {
      const tenant = await tenantWith([row("a", 1)]);

      for (const [since, until] of [
        [5, 5],
        [5, 4],
        [0, 0],
      ] as const) {
        await assert.rejects(auditPage(tenant, { since, until }, null, 10), { code: "invalid_window" });
        await assert.rejects(auditExport(tenant, { since, until }).next(), { code: "invalid_window" });
      }
    });

    test("AUDIT-014 an event type is matched literally, and an unknown one has an empty page", async () => {
      const tenant = await tenantWith([row("a", 1, { event_type: "skill_published" })]);

      for (const event_type of ["nope", "skill%", "skill_publishe_", "SKILL_PUBLISHED", "' OR '1'='1"])
        assert.deepEqual(await ids(tenant, { event_type }), [], event_type);
    });

    test("a cursor that this list did not return is invalid_cursor", async () => {
      const tenant = await tenantWith([row("a", 1), row("b", 2)]);
      const { next_cursor } = await auditPage(tenant, {}, null, 1);
      const encode = (key: unknown) => Buffer.from(JSON.stringify(key)).toString("base64url");

      assert.equal((await auditPage(tenant, {}, next_cursor, 1)).rows[0]?.id, "a");
      for (const cursor of [
        "",
        "x",
        "%%%",
        `${next_cursor}=`,
        ` ${next_cursor}`,
        encode([1]),
        encode(["1", "a"]),
        encode([1, "a", 2]),
        encode({ 0: 1, 1: "a" }),
        encode([1.5, "a"]),
        encode([null, "a"]),
        "A".repeat(10_000),
      ])
        await assert.rejects(auditPage(tenant, {}, cursor, 1), { code: "invalid_cursor" }, cursor);
    });

    test("AUDIT-007 an export has every row of its window, newest first, in pages of at most 500", async () => {
      const tenant = await tenantWith(
        Array.from({ length: 1203 }, (_, i) => row(`r${String(i).padStart(4, "0")}`, 1000 + i)),
      );

      const pages: AuditRow[][] = [];
      for await (const page of auditExport(tenant, { since: 1001 })) pages.push(page);

      assert.deepEqual(
        pages.map((page) => page.length),
        [500, 500, 202],
      );
      const times = pages.flat().map(({ ts }) => ts);
      assert.deepEqual(
        times,
        Array.from({ length: 1202 }, (_, i) => 2202 - i),
      );
    });

    test("AUDIT-012 an export does not have what is written while it runs", async () => {
      const tenant = await tenantWith(Array.from({ length: 600 }, (_, i) => row(`r${i}`, 1000)));
      const pages = auditExport(tenant, {});

      const first = await pages.next();
      await tenant.write([insertAuditOp(tenant, row("late", 2000))]);
      const rest: AuditRow[] = [];
      for await (const page of pages) rest.push(...page);

      assert.equal((first.value as AuditRow[]).length, 500);
      assert.equal(rest.length, 100);
      assert.equal(
        rest.some(({ id }) => id === "late"),
        false,
      );
    });

    test("an export of nothing has no page", async () => {
      const tenant = await tenantWith([row("a", 1)]);

      assert.deepEqual(await auditExport(tenant, { since: 2 }).next(), { done: true, value: undefined });
    });

    test("AUDIT-008 AUDIT-009 tools are counted, the most called first, with the true mean of their latencies", async () => {
      const tenant = await tenantWith([
        call("1", 10, "search", 10),
        call("2", 10, "search", 20),
        call("3", 11, "search", 33, "error"),
        call("4", 11, "fetch", 0.5),
        call("5", 11, "fetch", 1),
        call("6", 11, "untimed", undefined),
        call("7", 11, "also", 5),
        call("8", 9, "too_old", 5),
        row("9", 11, { event_type: "policy_deny", payload: JSON.stringify({ tool: "search", latency_ms: 9000 }) }),
        row("10", 11, { event_type: "tool_call", payload: "cut through" }),
        row("11", 11, { event_type: "tool_call", payload: "null" }),
      ]);

      const metrics = await auditToolMetrics(tenant, 10, 200);

      assert.deepEqual(metrics, [
        { tool: "search", calls: 3, errors: 1, avg_latency_ms: 21 },
        { tool: "fetch", calls: 2, errors: 0, avg_latency_ms: 0.75 },
        { tool: "also", calls: 1, errors: 0, avg_latency_ms: 5 },
        { tool: "untimed", calls: 1, errors: 0, avg_latency_ms: 0 },
      ]);
      assert.deepEqual(
        (await auditToolMetrics(tenant, 10, 1)).map(({ tool }) => tool),
        ["search"],
      );
      assert.deepEqual(await auditToolMetrics(await tenantWith([]), 0, 10), []);
    });
  });
}
