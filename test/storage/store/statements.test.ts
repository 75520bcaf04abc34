import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import Database from "better-sqlite3";
import type { Client } from "pg";
import { migrate } from "../../../storage/migrate.ts";
import { guarded } from "../../../storage/postgres/guard.ts";
import {
  allStatements,
  type Statement,
  statementNamed,
  systemSql,
  tenantSql,
} from "../../../storage/store/statements.ts";
import "../../support/all-tables.ts";
import { onServer } from "../../support/postgres-server.ts";
import { emptyDatabase } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const declared = allStatements();
const isSelect = ({ text }: Statement) => /^\s*(SELECT|WITH)/i.test(text.sqlite);

/** Statements that may scan: their tables are small, or they run rarely. */
const scanning = [
  "audit_heads_newest",
  "backlog_runs",
  "budget_spending_delete",
  "document_hits",
  // An operator asks for the numbers of all tenants.
  "document_vectors_count",
  "fibers_hold",
  "freezes_all",
  "manifest_bodies_delete_unused",
  "memory_vectors_count",
  "rate_bucket_get",
  "run_outcomes",
  "run_outcomes_last",
  "schema_revisions",
  "schema_revisions_tables",
  "search_few_hits",
  "search_hits",
  "thread_bytes_by_tenant",
  "unowned_logs_abandoned",
  // Once at the start, as a long read.
  "vectors_other_model",
];

/** The service's own statements across tenants: recovery and sweeps. */
const acrossTenants = [
  "approvals_next_tenant",
  "artifacts_dropped",
  "artifacts_next_tenant",
  "audit_heads_newest",
  "audit_next_tenant",
  "audit_unsealed_tenants",
  "backlog_oldest_wait",
  "backlog_runs",
  "budget_spending_delete",
  "captures_due_tenants",
  "captures_release_of_lapsed_hosts",
  "captures_release_of_worker",
  "deliveries_ahead",
  "deliveries_delete_ended",
  "deliveries_release_of_lapsed_hosts",
  "deliveries_release_of_worker",
  "delivery_lanes",
  "delivery_move",
  "delivery_oldest",
  "document_files_dropped",
  "document_vectors_count",
  "document_vectors_last",
  "document_vectors_queue_missing",
  "eval_datasets_due",
  "eval_datasets_skip_due",
  "eval_runs_end_restored",
  "eval_runs_old",
  "eval_runs_open",
  "fiber_move",
  "fibers_ahead",
  "fibers_delete_ended",
  "fibers_due",
  "fibers_ended_alone",
  "fibers_expired",
  "fibers_hold",
  "fibers_open",
  "files_dropped",
  "freezes_all",
  "idempotency_delete_lapsed",
  "idempotency_release_of_lapsed_hosts",
  "idempotency_release_of_worker",
  "job_move",
  "job_runs_open_tenants",
  "jobs_due_tenants",
  "jobs_with_times",
  "kv_delete_lapsed",
  "manifest_bodies_delete_unused",
  "manifest_retention_page",
  "manifests_expecting_anonymous",
  "memories_lost",
  "memory_pools_due_tenants",
  "memory_vectors_count",
  "memory_vectors_last",
  "memory_vectors_queue_missing",
  "model_calls_delete_ended",
  "model_frames_delete_unused",
  "plans_lapsed",
  "quarantine_lapsed",
  "repo_checkout_ids",
  "repo_checkouts_lose",
  "repo_checkouts_old",
  "repo_checkouts_stuck",
  "repo_worktrees_idle",
  "run_outcomes",
  "run_outcomes_last",
  "run_rates_delete_unseen",
  "runs_delete_ended",
  "runs_of_lapsed_hosts",
  "runs_of_worker",
  "runtime_key_by_digest",
  "runtime_keys_changed",
  "runtime_keys_delete",
  "search_unindexed_threads",
  "shell_commands_delete_old",
  "shell_commands_lose",
  "sign_in_grants_delete",
  "sign_in_grants_since",
  "skill_trees_delete_old",
  "skill_upstreams_due",
  "skill_evals_claim",
  "skill_evals_end_restored",
  "skill_evals_old",
  "skill_evals_release_of_lapsed_hosts",
  "skill_evals_release_of_worker",
  "skill_feedback_claim",
  "skill_feedback_end_restored",
  "skill_feedback_release_of_lapsed_hosts",
  "skill_feedback_release_of_worker",
  "thread_bytes_by_tenant",
  "thread_leases_delete_lapsed",
  "threads_next_tenant",
  "threads_unsaid_next_tenant",
  "unowned_logs_abandoned",
  "uploads_next_tenant",
  "usage_days_next_tenant",
  "usage_next_tenant",
  "vector_queue_next_tenant",
  "vectors_other_model",
  "waits_due",
  "waits_of_lapsed_hosts",
  "waits_of_worker",
  "waits_unpushed",
  "workflow_runs_due",
  "workflow_runs_end_restored",
  "workflow_runs_old",
  "workflows_deleted_stored",
];

/** The index that serves each filter; without it SQLite would read all rows of the tenant. */
const byFilter = {
  audit_page: "PRIMARY KEY",
  audit_page_event_type: "PRIMARY KEY",
  audit_page_status: "PRIMARY KEY",
  audit_page_rare_event_type: "INDEX audit_by_type",
  audit_page_rare_status: "INDEX audit_by_status",
  audit_page_event_type_rare_status: "INDEX audit_by_status",
  audit_page_rare_event_type_status: "INDEX audit_by_type",
  audit_page_rare_event_type_rare_status_manifest_id: "INDEX audit_by_status",
  audit_tool_metrics: "INDEX audit_by_type",
  usage_page: "PRIMARY KEY",
  usage_page_manifest_id: "INDEX usage_by_manifest",
  usage_page_thread_id: "INDEX usage_by_thread",
  usage_page_manifest_id_thread_id: "INDEX usage_by_thread",
  approvals_page: "INDEX approvals_by_time",
  approvals_page_status: "INDEX approvals_by_status",
  approvals_page_thread_id: "INDEX approvals_by_thread",
  approvals_page_status_thread_id: "INDEX approvals_by_thread",
  approvals_lengths_status: "INDEX approvals_by_status",
  plans_page: "INDEX plans_by_time",
  plans_page_thread_id: "INDEX plans_by_thread",
};
/**
 * Statements that read all of a tenant's rows in an index, because the request needs them or their number is bounded.
 */
const ofWholeTenant = [
  // GET /audit/verify compares the numbers of rows, as a long read. `audit_heads` has one row for each tenant.
  "audit_base_move",
  "audit_count",
  "audit_head",
  "audit_head_advance",
  "audit_unsealed_count",
  "audit_unsealed_rows",
  "document_within_limit",
  "documents_nth",
  "eval_datasets_nth",
  // A tenant has few unfinished evaluations.
  "eval_runs_open_nth",
  "fibers_queued_nth",
  // A freeze ended.
  "fibers_wake_put_off",
  "freezes_of_tenant",
  "jobs_all",
  "jobs_due",
  "jobs_nth",
  // It reads the unfinished evaluations of each tenant.
  "manifest_bodies_delete_unused",
  "manifest_pointers",
  // Memories of every thread as of a turn, as a long read.
  "memories_as_of",
  // A tenant has at most 200 subscriptions.
  "push_announce_approval",
  "push_announce_question",
  "push_subscribe",
  "push_subscriptions_of",
  // A tenant has at most 20 checkouts, with eight worktrees each.
  "repo_checkout_clone",
  // A tenant has at most a thousand keys.
  "runtime_keys_insert",
  "runtime_keys_of_tenant",
  "search_unindexed_threads_of_tenant",
  "shell_commands_running",
  // One row for each tenant.
  "skill_catalog",
  "skill_catalog_advance",
  // One row, and few jobs that have not ended.
  "skill_job_count",
  "skill_job_lock",
  "skill_policy_set",
  "waits_open_nth",
  "workflow_runs_open_nth",
];

describe("declared statements on sqlite", () => {
  const atEnd = cleanup();
  let db: Database.Database;
  before(async () => {
    const config = await emptyDatabase("sqlite", atEnd);
    assert.ok(config.engine === "sqlite");
    await migrate(config, { target: "head", downgrade: false });
    db = new Database(config.path);
    atEnd.after(() => void db.close());
  });

  for (const statement of declared) {
    test(`${statement.name} is valid, and answers rows as it declares`, () => {
      const prepared = db.prepare(statement.text.sqlite);

      assert.equal(prepared.reader, statement.returnsRows);
      assert.equal(db.prepare(`EXPLAIN ${statement.text.sqlite}`).all(fakeParams(statement)).length > 0, true);
    });
  }

  test("each finds its rows by an index, but those that may scan", () => {
    const found = declared.filter((statement) => {
      const plan = db.prepare<unknown[], { detail: string }>(`EXPLAIN QUERY PLAN ${statement.text.sqlite}`);
      // The table of hosts has a handful of rows; the other names are not tables.
      return plan
        .all(fakeParams(statement))
        .some(
          ({ detail }) =>
            /^SCAN (?!hosts\b|wanted\b|parts\b|found\b|sizes\b|counted\b|\(subquery-|CONSTANT ROW)/.test(detail) &&
            !/USING (COVERING )?INDEX|VIRTUAL TABLE INDEX/.test(detail),
        );
    });

    assert.deepEqual(found.map(({ name }) => name).toSorted(), scanning);
  });

  for (const [name, index] of Object.entries(byFilter))
    test(`${name} starts at its first row, by ${index}`, () => {
      const { text } = statementNamed(name);

      const [plan] = db
        .prepare<unknown[], { detail: string }>(`EXPLAIN QUERY PLAN ${text.sqlite}`)
        .all(fakeParams(statementNamed(name)));

      assert.match(plan?.detail ?? "", new RegExp(` USING ${index} \\(tenant_id=\\? AND .*ts>\\?`));
    });

  for (const name of ["workflow_revisions_unneeded", "workflow_revision_delete"])
    test(`${name} looks for runs of a revision by their index`, () => {
      const { text } = statementNamed(name);

      const plan = db
        .prepare<unknown[], { detail: string }>(`EXPLAIN QUERY PLAN ${text.sqlite}`)
        .all(fakeParams(statementNamed(name)));

      assert.ok(
        plan.some(({ detail }) => detail.includes("INDEX workflow_runs_by_revision (tenant_id=? AND workflow_id=?")),
      );
    });

  test("none scans the rows of a whole tenant, but those that may", () => {
    const walks = declared.filter((statement) => {
      const plan = db.prepare<unknown[], { detail: string }>(`EXPLAIN QUERY PLAN ${statement.text.sqlite}`);
      return plan.all(fakeParams(statement)).some(({ detail }) => /(INDEX \w+|KEY) \(tenant_id=\?\)/.test(detail));
    });

    assert.deepEqual(walks.map(({ name }) => name).toSorted(), ofWholeTenant);
  });

  test("keys above 2^31, which the driver binds as floats, still use the primary key", () => {
    const key = 200 * 2 ** 24 + 7;
    const insert = db.prepare(statementNamed("events_insert").text.sqlite);
    insert.run(["acme", key, -1, 1_700_000_000_000, "message", "user", "hello", null, null]);
    const select = statementNamed("events_forward").text.sqlite;

    const rows = db.prepare(select).all(["acme", key, key + 1, 10]);
    const plan = db
      .prepare<unknown[], { detail: string }>(`EXPLAIN QUERY PLAN ${select}`)
      .all(["acme", key, key + 1, 10]);
    const type = db.prepare("SELECT typeof(event_key) AS type, typeof(ts) AS time FROM events").get();

    assert.equal(rows.length, 1);
    assert.deepEqual(
      plan.map(({ detail }) => detail),
      ["SEARCH events USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"],
    );
    assert.deepEqual(type, { type: "integer", time: "integer" });
  });

  test("a statement on a tenant's table names the tenant, except in the service's sweeps", () => {
    const tables = db
      .prepare<[], string>(
        "SELECT m.name FROM sqlite_schema m JOIN pragma_table_info(m.name) c WHERE m.type = 'table' AND c.name = 'tenant_id'",
      )
      .pluck()
      .all();
    const owned = new RegExp(`\\b(${[...tables, "event_search", "document_search"].join("|")})\\b`);

    const strays = declared.filter(({ text, tenantAt }) => owned.test(text.sqlite) && tenantAt.length === 0);
    const mute = declared.filter(({ text, tenantAt }) => tenantAt.length > 0 && !owned.test(text.sqlite));

    assert.ok(tables.includes("threads") && tables.includes("events") && tables.length >= 10, tables.join());
    assert.deepEqual(strays.map(({ name }) => name).toSorted(), acrossTenants.toSorted());
    // The lock names the tenant and no table.
    assert.deepEqual(
      mute.map(({ name }) => name),
      ["tenant_lock"],
    );
  });

  test("a tenant's table has the tenant as its first column", () => {
    const tables = db
      .prepare<[], { name: string; first: string }>(
        `SELECT m.name, c.name AS first FROM sqlite_schema m JOIN pragma_table_info(m.name) c ON c.cid = 0
         WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND m.name NOT LIKE '%_search%'`,
      )
      .all();

    const others = tables.filter(({ first }) => first !== "tenant_id").map(({ name }) => name);

    assert.deepEqual(others.toSorted(), ["cluster", "counters", "hosts", "rate_buckets", "schema_revisions"]);
  });
});

describe("declared statements on postgres", () => {
  const atEnd = cleanup();
  let url: string;
  before(async () => {
    const config = await emptyDatabase("postgres", atEnd);
    assert.ok(config.engine === "postgres");
    await migrate(config, { target: "head", downgrade: false });
    url = config.postgres.url;
  });

  test("each is valid, with its guard too, and has as many parameters as it declares", async () => {
    await onServer(url, async (client) => {
      for (const statement of declared) {
        const { name, text, paramCount } = statement;
        await client.query(`PREPARE "${name}" AS ${text.postgres}`).catch(named(name));
        await client.query(`PREPARE "${name}!" AS ${guarded(statement)}`).catch(named(`${name}!`));
        const { rows } = await client.query(
          "SELECT name, coalesce(array_length(parameter_types, 1), 0) AS count FROM pg_prepared_statements WHERE name LIKE $1 ORDER BY name",
          [`${name}%`],
        );
        assert.deepEqual(
          rows.map((row) => row.count),
          [paramCount, paramCount + 1],
          name,
        );
        await client.query("DEALLOCATE ALL");
      }
    });
  });

  test("each finds its rows by an index, but those that may scan", async () => {
    const found: string[] = [];
    await onServer(url, async (client) => {
      // The tables are empty, so Postgres would rightly scan them without this.
      await client.query("SET enable_seqscan = off");
      // The table of hosts has a handful of rows.
      for (const statement of declared)
        if (/Seq Scan on (?!hosts\b)/.test(await explain(client, statement))) found.push(statement.name);
    });

    assert.deepEqual(
      found.filter((name) => !scanning.includes(name)),
      [],
    );
  });

  test("a search uses the index of words", async () => {
    await onServer(url, async (client) => {
      await client.query("SET enable_seqscan = off");

      const plan = await explain(client, statementNamed("search_hits"));

      assert.match(plan, /Bitmap Index Scan on event_search_document/);
    });
  });
});

test("a statement is never declared twice, without tenant, or with other parameters", () => {
  assert.throws(() => tenantSql("threads_insert", "SELECT :tenant"), /twice/);
  assert.throws(() => tenantSql("test_no_tenant", "SELECT 1"), /does not name :tenant/);
  assert.throws(() => systemSql("test_tenant", "SELECT :tenant"), /names :tenant/);
  assert.throws(
    () => tenantSql("test_order", { sqlite: "SELECT :tenant, ?", postgres: "SELECT ?, :tenant" }),
    /in the same order on both engines/,
  );
  assert.throws(() => systemSql("x".repeat(61), "SELECT 1"), /too long/);
  assert.throws(() => statementNamed("test_nowhere"), /no statement/);
});

test("every SELECT is a read: none of them changes rows", () => {
  for (const statement of declared.filter(isSelect))
    assert.doesNotMatch(statement.text.sqlite, /\b(INSERT|UPDATE|DELETE|RETURNING)\b/, statement.name);
});

test("SQLite parses a statement only once for all its parameters", () => {
  for (const { name, text } of declared)
    assert.doesNotMatch(text.sqlite, /(?<![<>])(=|\bIS|\bLIKE|\bGLOB|\bLIMIT)\s*\?/i, name);
  assert.match(statementNamed("events_forward").text.postgres, /= \$1 /);
});

test("a statement's text for Postgres names no index", () => {
  assert.match(statementNamed("files_gone").text.sqlite, / INDEXED BY files_unkept\b/);
  for (const { name, text } of declared) assert.doesNotMatch(text.postgres, /\bINDEXED\b/, name);
});

function fakeParams({ paramCount }: Statement): number[] {
  return new Array(paramCount).fill(1);
}

async function explain(client: Client, { name, text, paramCount }: Statement): Promise<string> {
  await client.query(`PREPARE "${name}" AS ${text.postgres}`);
  const params = paramCount === 0 ? "" : ` (${new Array(paramCount).fill("'1'").join(", ")})`;
  const { rows } = await client.query(`EXPLAIN EXECUTE "${name}"${params}`);
  return rows.map((row) => row["QUERY PLAN"]).join("\n");
}

function named(name: string): (error: unknown) => never {
  return (error) => {
    throw new Error(`${name}: ${(error as Error).message}`);
  };
}
