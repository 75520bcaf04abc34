import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import Database from "better-sqlite3";
import fc from "fast-check";
import { systemEnv } from "../../bus/env.ts";
import type { StoreConfig } from "../../storage/store/config.ts";
import { allStatements, type Param, type Statement, statementNamed } from "../../storage/store/statements.ts";
import type { Store, TenantStore } from "../../storage/store/store.ts";
import { sampledTables } from "../../storage/store/table.ts";
import { decideOps } from "../../storage/tables/approvals.ts";
import { draftArtifactOp, dropArtifactsOfThreadOps, shareArtifactsOps } from "../../storage/tables/artifacts.ts";
import { insertAuditOp } from "../../storage/tables/audit.ts";
import { indexText } from "../../storage/tables/corpus-words.ts";
import { outboxOps } from "../../storage/tables/deliveries.ts";
import { acceptDurableOp, endDurableOp } from "../../storage/tables/durable-rows.ts";
import { feedbackOp, labelOp } from "../../storage/tables/event-marks.ts";
import { appendOp } from "../../storage/tables/events.ts";
import { draftFileOp, dropFilesOfThreadOps, keepFileOp, shareFilesOps } from "../../storage/tables/files.ts";
import { claimKeyOp, settleKeyOp } from "../../storage/tables/idempotency.ts";
import { beginJobRunOps, endJobRunOp } from "../../storage/tables/job-runs.ts";
import { writeJob } from "../../storage/tables/jobs.ts";
import { StoredKeyValue } from "../../storage/tables/key-value.ts";
import { kvSetOp } from "../../storage/tables/kv.ts";
import { keepBodyOp } from "../../storage/tables/manifest-bodies.ts";
import { insertManifestVersionOp, setManifestPointerOp } from "../../storage/tables/manifests.ts";
import { addFactsOp } from "../../storage/tables/memory-pools.ts";
import { type CallFacts, modelCallOp } from "../../storage/tables/model-calls.ts";
import { keepFrameOp } from "../../storage/tables/model-frames.ts";
import { queueInputOp } from "../../storage/tables/queued-inputs.ts";
import { joinBudgetOps, openBudgetOps } from "../../storage/tables/run-budgets.ts";
import { endRunOp, insertRunOp, runBegun, runKey, suspendLiveRunOp } from "../../storage/tables/runs.ts";
import { searchEvents } from "../../storage/tables/search.ts";
import { markWords } from "../../storage/tables/search-words.ts";
import "../support/all-tables.ts";
import { takeLeaseOps } from "../../storage/tables/thread-leases.ts";
import { insertThreadOp } from "../../storage/tables/threads.ts";
import { insertUsageOp } from "../../storage/tables/usage.ts";
import { openWaitOp } from "../../storage/tables/waits.ts";
import { openApproval } from "../support/open-approval.ts";
import { onServer } from "../support/postgres-server.ts";
import { newRun } from "../support/rows.ts";
import { dialects, testStore } from "../support/stores.ts";
import { cleanup } from "../support/temp.ts";
import { unboundTables } from "../support/tenant-bounds.ts";

// One tenant's store against another tenant's rows: no parameters of any declared statement read or change them. The
// attacker knows the victim's keys and ids, and the victim's texts contain a canary.

const canary = "canary-of-the-victim";
const span = 2 ** 24;

/** Inserts a row into every table. Keys are the same for every tenant, except globally unique numbers. */
async function fill(tenant: TenantStore, threadKey: number, text: string): Promise<void> {
  await tenant.write([
    insertThreadOp(tenant, {
      thread_key: threadKey,
      suffix: "t1",
      uid: "u".repeat(20),
      created_at: 5,
      updated_at: 5,
      next_seq: 2,
      leaf_seq: 1,
      bytes: 0,
      revision: 1,
      epoch: 0,
      manifest: "m",
      model_id: "r",
      session_name: text,
      preview: text,
      parent_session_id: null,
      meta: {},
    }),
    ...[0, 1].map((seq) =>
      appendOp(tenant, threadKey, {
        seq,
        parent_seq: seq - 1,
        ts: 5,
        kind: "message",
        role: "user",
        content: `${text} ${seq}`,
        extra: null,
      }),
    ),
    labelOp(tenant, threadKey, 0, text),
    feedbackOp(tenant, threadKey, 1, { rating: "up", note: text, at: 5 }),
    insertRunOp(
      tenant,
      newRun("run", {
        owner: text,
        manifest: text,
        idempotency_scope: text,
        a2a_context: text,
        a2a_owner: text,
        asked: { ...newRun("run").asked, request_id: text },
      }),
      { thread_key: threadKey, epoch: 0, first_seq: 0 },
    ),
    acceptDurableOp(tenant, runBegun(newRun("run"), { thread_key: threadKey, epoch: 0, first_seq: 0 }), "t1", 5),
    endDurableOp(tenant, "run", { final: text, error: text, expires_at: 5 }),
    // A dead run of another thread.
    insertRunOp(tenant, newRun("dead", { manifest: text }), { thread_key: threadKey - 3, epoch: 0, first_seq: 0 }),
    acceptDurableOp(tenant, runBegun(newRun("dead"), { thread_key: threadKey - 3, epoch: 0, first_seq: 0 }), "t2", 5),
    endRunOp(
      tenant,
      { run_key: runKey(threadKey - 3, 0), epoch: 0 },
      { status: "dead", stop_reason: null, error: null, usage: null, ended_at: 1, last_seq: 0 },
    ),
    endDurableOp(tenant, "dead", { final: null, error: text, expires_at: 5 }),
    // A waiting run of another thread.
    insertRunOp(tenant, newRun("run", { asked: { ...newRun("run").asked, request_id: text } }), {
      thread_key: threadKey - 2,
      epoch: 0,
      first_seq: 0,
    }),
    suspendLiveRunOp(
      tenant,
      { run_key: runKey(threadKey - 2, 0), epoch: 0 },
      { tool_calls: 0, input_tokens: 0, output_tokens: 0, cost_usd: 0, usage: null },
    ),
    ...takeLeaseOps(tenant, {
      thread_key: threadKey,
      token_hash: "row",
      mode: "exclusive",
      holder_id: text,
      token_hint: text,
      lastsMs: 1_000_000,
    }),
    openWaitOp(tenant, {
      wait_id: "row",
      thread_key: threadKey - 2,
      suffix: "t1",
      run_id: "run",
      asked_on: threadKey - 2,
      beside: 0,
      kind: "question",
      subject: text,
      may_answer: { scopes: [], principal: null, not_principal: null },
      call: { tool_call_id: "c", tool: "t", args: {}, control: null },
      opened_at: 5,
      deadline: null,
      approval_id: "run",
      frame: null,
      asked_as: text,
    }),
    ...openBudgetOps(
      tenant,
      {
        ...{ run_id: "run", root_key: threadKey, max_tool_calls: 5, max_hops: 5, max_input_tokens: 5 },
        ...{
          max_output_tokens: 5,
          max_cost_usd: 5,
          tool_calls: 1,
          hops: 1,
          input_tokens: 1,
          output_tokens: 1,
          cost_usd: 1,
        },
      },
      { input_tokens: 1, output_tokens: 1, cost_usd: 1 },
    ),
    ...joinBudgetOps(tenant, { run_id: "row", task_id: text, root_key: threadKey, budgets: ["run"] }, 1_000),
    queueInputOp(tenant, {
      thread_key: threadKey,
      number: 5,
      kind: "note",
      subject: text,
      content: text,
      sender: text,
      detail: { metadata: { type: text }, frame: null },
    }),
    claimKeyOp(
      tenant,
      { scope: "scope", fingerprint: text, owner: text, run_id: "run", answer: null, expires_at: 1000 },
      1,
    ),
    settleKeyOp(tenant, "scope", "run", text, 1000),
    insertManifestVersionOp(tenant, {
      name: "m",
      version: 1,
      manifest: text,
      digest: "d",
      created_at: 5,
      created_by: text,
      comment: text,
    }),
    setManifestPointerOp(tenant, {
      name: "m",
      version: 1,
      canary_version: null,
      canary_weight: 0,
      updated_at: 5,
      updated_by: text,
    }),
    // An existing file, a deleted one, and one that another thread shows.
    ...["row", text, "t1"].map((file_id) =>
      draftFileOp(tenant, {
        file_id,
        media_type: "image/png",
        size_bytes: 5,
        filename: text,
        created_at: 5,
        created_by: text,
        thread_key: file_id === "row" ? null : threadKey,
      }),
    ),
    ...["row", "t1"].map((file_id) => keepFileOp(tenant, file_id)),
    ...shareFilesOps(tenant, threadKey + 1, threadKey, ["t1"]),
    ...dropFilesOfThreadOps(tenant, threadKey),
    keepFrameOp(tenant, "row", text),
    modelCallOp(tenant, {
      run_id: "run",
      thread_key: threadKey,
      frame: "row",
      facts: { ...facts, agent: text },
      bodies: { row: text },
    }),
    kvSetOp(tenant, { key: "k", value: text, expires_at: 1000 }, 1),
    kvSetOp(tenant, { key: "m", value: text, expires_at: null }, 1),
    keepBodyOp(tenant, { digest: "m", body: text }),
    // Common and rare types and statuses.
    ...["user_input", "tool_call"].flatMap((event_type) =>
      ["ok", "denied"].map((status) =>
        insertAuditOp(tenant, {
          id: `${event_type} ${status}`,
          ts: 5,
          event_type,
          manifest_id: "m",
          principal_subj: text,
          status,
          payload: JSON.stringify({ tool: text, latency_ms: 1 }),
        }),
      ),
    ),
    // A row with guessable names and a row with unguessable ones.
    ...["t1", text].map((name) =>
      insertUsageOp(tenant, {
        id: name,
        ts: 5,
        manifest_id: name === "t1" ? "m" : name,
        model_id: text,
        wire_model_id: "w",
        kind: "tokens",
        tokens_input: 1,
        tokens_output: 1,
        cache_creation: 0,
        cache_read: 0,
        cost_usd: 1,
        thread_id: name,
        meta_json: text,
      }),
    ),
  ]);
  await tenant.write(sampledTables().map(({ name, row }) => tenant.op(addingTo(name), [...row({ text, threadKey })])));
  await tenant.write([
    tenant.op(statementNamed("push_subscribe"), [...["row", text, text, text], `{"sub":"${text}"}`, "row"]),
  ]);
  const first = threadKey * 2_048;
  await tenant.write([
    tenant.op(statementNamed("document_chunks_insert"), [first, JSON.stringify([text])]),
    tenant.op(statementNamed("document_search_insert"), [JSON.stringify([indexText(tenant.tenantId, text)]), first]),
  ]);
  await tenant.write([tenant.op(statementNamed("memory_search_insert"), [indexText(tenant.tenantId, text), "row"])]);
  const item = { user_input: text, rubric: text };
  await tenant.write([
    tenant.op(statementNamed("eval_items_add"), [
      ...["row", 0, 5],
      JSON.stringify(["k", "m", "t1"].map((item_id) => ({ ...item, item_id }))),
    ]),
    tenant.op(statementNamed("eval_scores_begin"), ["run", "row"]),
    tenant.op(statementNamed("eval_score_set"), ["pass", text, "run", 1]),
  ]);
  await tenant.write([addFactsOp(tenant, { manifest_id: "m", owner: text }, 1, 0)]);
  // An artifact that another thread shows, and a deleted one.
  const deleted = {
    artifact_id: text,
    manifest: text,
    tool: text,
    taint: [text],
    chars: 5,
    size_bytes: 5,
    created_at: 5,
  };
  await tenant.write([
    ...shareArtifactsOps(tenant, threadKey + 1, threadKey, ["row"]),
    draftArtifactOp(tenant, { ...deleted, thread_key: threadKey + 5 }),
    ...dropArtifactsOfThreadOps(tenant, threadKey + 5),
  ]);
  await writeJob(
    tenant,
    undefined,
    {
      name: "row",
      schedule: "* * * * *",
      manifest_id: text,
      payload: { prompt: text },
      enabled: 1,
      owner: ofJob(text),
    },
    { now: 5, next_run_at: 5, limit: 0, ops: [] },
  );
  const asked = { manifest_id: "m", prompt: text, owner: ofJob(text) };
  for (const [run_id, job_name] of [
    ["row", "row"],
    ["run", "m"],
  ] as const)
    await tenant.write(
      beginJobRunOps(tenant, {
        run_id,
        job_name,
        suffix: "t1",
        caused_by: "manual",
        requested_by: text,
        asked,
        started_at: 5,
      }),
    );
  await tenant.write([endJobRunOp(tenant, "run", { status: "ok", outcome: "completed", error: text, answer: text })]);
  await new StoredKeyValue(tenant).push("k", text);
  await searchEvents(tenant, "anything", 1, systemEnv());
  for (const [source, endpoint] of [
    ["tool", "call"],
    ["run", "m"],
  ] as const)
    await tenant.write(outboxOps(tenant, { source, type: "ok", body: text, endpoints: [endpoint] }));
  for (const [id, call_signature, decision] of [
    ["row", "m", "approved"],
    ["row 2", "ok", "denied"],
    ["run", "", null],
  ] as const) {
    await openApproval(tenant, {
      ...{ id, manifest_id: "m", tool_name: "m", call_signature, args: text, parameters: "{}", rule_id: "r" },
      ...{ reason: text, thread_id: "t1", tool_call_id: "c", principal_subj: text, bound_to: "", not_by: "" },
      ...{ one_shot: 0, ttl_seconds: null, lastsMs: 3_600_000 },
      evidence: { effect: "read", risk: "reads", cost_usd: 0, tool_calls: 0 },
    });
    if (decision !== null)
      await tenant.write(decideOps(tenant, id, { decision, note: text, edited_args: null }, "somebody"));
  }
}

/** The statement that inserts into a table. */
function addingTo(table: string): Statement {
  const names = [`${table}_insert`, `${table}_upsert`];
  return allStatements().find(({ name }) => names.includes(name)) ?? statementNamed(`${table}_insert`);
}

/** The context record of a call with an empty request. */
const facts: CallFacts = {
  purpose: "step",
  agent: "m",
  step: 1,
  at: 0,
  route: "r",
  parameters: { temperature: 0, max_tokens: null },
  digests: { system: "", tools: null, answer: null, messages: "digest" },
  shown: [],
  messages: 0,
  chars: 2,
  tries: [],
  started: 5,
  first_token: null,
  ended: 5,
  outcome: "ok",
  stop_reason: null,
  usage: null,
  cost_usd: null,
};

const ofJob = (sub: string) => ({ sub, scopes: [], scheme: "none", issuer: "" });

const victimKey = 7;
// The victim's words in their index form, which an attacker can derive and query.
const indexed = markWords("victim", ["canary"]).map((word) => `"${word}"`);
const texts = [
  "t1",
  "m",
  "k",
  "row",
  "run",
  "scope",
  "tool_call",
  "user_input",
  "ok",
  "denied",
  "running",
  ...indexed,
  "",
  null,
];
/** Likely values of columns that lists filter by. */
const likely = ["t1", "m", "tool_call", "user_input", "ok", "denied"];
const numbers = [0, 1, 5, victimKey, victimKey * span, (victimKey + 1) * span, Number.MAX_SAFE_INTEGER];
/** Cheap reads are tried often: the last test shows that this suffices to detect a working attack. */
const readTries = { sqlite: 2500, postgres: 100 };
const writeTries = 150;

/** The types of every statement's parameters, as Postgres infers them. */
async function parameterTypes(url: string): Promise<Map<string, string[]>> {
  return onServer(url, async (client) => {
    const types = new Map<string, string[]>();
    for (const { name, text } of allStatements()) {
      await client.query(`PREPARE "${name}" AS ${text.postgres}`);
      const { rows } = await client.query(
        "SELECT parameter_types::text[] AS types FROM pg_prepared_statements WHERE name = $1",
        [name],
      );
      types.set(name, rows[0].types);
    }
    return types;
  });
}

/** The tables with a column for the tenant. */
async function tenantTables(config: StoreConfig): Promise<string[]> {
  if (config.engine === "postgres")
    return onServer(config.postgres.url, async (client) => {
      const { rows } = await client.query(
        "SELECT table_name FROM information_schema.columns WHERE column_name = 'tenant_id' AND table_schema = current_schema() ORDER BY 1",
      );
      return rows.map(({ table_name }) => table_name);
    });
  const db = new Database(config.path, { readonly: true });
  try {
    return db
      .prepare(
        "SELECT m.name FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table' AND c.name = 'tenant_id' ORDER BY 1",
      )
      .pluck()
      .all() as string[];
  } finally {
    db.close();
  }
}

/** All rows of the victim by table, read without the store. */
async function victimRows(config: StoreConfig, tables: readonly string[]): Promise<Record<string, unknown>> {
  if (config.engine === "postgres")
    return onServer(config.postgres.url, async (client) => {
      const ofTable = tables.map(
        (table) => `(SELECT json_agg(t ORDER BY t::text) FROM ${table} t WHERE tenant_id = 'victim') AS "${table}"`,
      );
      return (await client.query(`SELECT ${ofTable.join(", ")}`)).rows[0];
    });
  const db = new Database(config.path, { readonly: true });
  try {
    const rowsOf = (table: string) =>
      db.prepare(`SELECT * FROM ${table} WHERE tenant_id = 'victim' ORDER BY 2, 3`).all();
    return Object.fromEntries(tables.map((table) => [table, rowsOf(table)]));
  } finally {
    db.close();
  }
}

const statements = allStatements().filter(({ tenantAt }) => tenantAt.length > 0);
let types: Map<string, string[]>;

/** Parameters for a statement except the tenant's: arbitrary ones, or those that match the most rows. */
function params({ name, tenantAt }: Statement): fc.Arbitrary<Param[]> {
  const wanted = (types.get(name) as string[]).filter((_, i) => !tenantAt.includes(i));
  const any = wanted.map((type) => fc.constantFrom<Param>(...(type === "text" ? texts : numbers)));
  const firstText = wanted.indexOf("text");
  const generous = wanted.map((type, i) => {
    if (type !== "text") return fc.constantFrom<Param>(0, Number.MAX_SAFE_INTEGER);
    return i === firstText ? fc.constantFrom<Param>(...texts) : fc.constant<Param>(null);
  });
  // A page of a list: its filters, its last key, a window, and a limit.
  const lastText = wanted.lastIndexOf("text");
  const [before = 0, since = 0] = wanted.flatMap((type, i) => (type === "text" ? [] : [i]));
  const page = wanted.map((type, i) => {
    if (i === lastText) return fc.constant<Param>("");
    if (type === "text") return fc.constantFrom<Param>(...likely);
    return fc.constant<Param>(i === since && i !== before ? 0 : Number.MAX_SAFE_INTEGER);
  });
  return fc.oneof(fc.tuple(...any), fc.tuple(...generous), fc.tuple(...page));
}

/** True if the statement only reads. */
function isRead({ text }: Statement): boolean {
  return /^\s*SELECT/.test(text.sqlite);
}

const typesEnd = cleanup();
before(async () => {
  const { config } = await testStore("postgres", typesEnd);
  assert.ok(config.engine === "postgres");
  types = await parameterTypes(config.postgres.url);
});

const claimed = ["sqlite", "postgres"].flatMap((on) =>
  ["skill_evals", "skill_feedback"].map((table) => `${on} ${table}`),
);

/** Statements that separate tenants by another column, or whose rows belong to no tenant. */
const unboundByDesign: Readonly<Record<string, readonly string[]>> = {
  // A key below all existing ones.
  run_insert_threadless: ["sqlite runs"],
  // The keys of one conversation's runs.
  fibers_ended_alone: ["sqlite fibers", "postgres fibers"],
  // Each word contains its tenant's mark, and an event of the tenant is found first.
  search_hits: ["postgres event_search"],
  search_few_hits: ["postgres event_search"],
  search_insert_words: ["postgres event_search"],
  // The same for chunks of documents.
  document_hits: ["postgres document_search"],
  document_hits_filtered: ["postgres document_search"],
  memory_hits: ["postgres memory_search"],
  // The sweep of all tenants returns each job with its tenant.
  skill_evals_claim: claimed,
  skill_feedback_claim: claimed,
};

/** Redundant tenant conditions: each concerns a row whose tenant another condition already checks. */
const saidTwice = [
  "delivery_move tenant_id = ?",
  "fiber_move tenant_id = ?",
  "job_move tenant_id = ?",
  "job_run_standing r.tenant_id = f.tenant_id",
  "memories_supersede t.tenant_id = ?",
  "memories_supersede_listed t.tenant_id = ?",
  "run_living_owner r.tenant_id = ?",
  "run_living_owner t.tenant_id = ?",
  "search_hits t.tenant_id = ?",
  "search_messages_to_index e.tenant_id = ?",
  "tasks_aside r.tenant_id = w.tenant_id",
];

for (const dialect of dialects) {
  test(`on ${dialect} each statement binds the tenant of each table that it names`, async (t) => {
    const { config } = await testStore(dialect, cleanup(t));
    const tables = new Set(await tenantTables(config));
    const found: Record<string, string[]> = {};
    const unseen: string[] = [];

    for (const { name, text, tenantAt } of allStatements()) {
      const unbound = unboundTables(text[dialect], tables, tenantAt);
      if (unbound.length > 0) found[name] = unbound.map((table) => `${dialect} ${table}`);
      for (const [condition, without] of withoutOneCondition(text[dialect]))
        if (unboundTables(without, tables, tenantAt).length <= unbound.length) unseen.push(`${name} ${condition}`);
    }

    const designed = Object.entries(unboundByDesign).flatMap(([name, which]) => {
      const here = which.filter((where) => where.startsWith(dialect));
      return here.length === 0 ? [] : [[name, here]];
    });
    assert.deepEqual(found, Object.fromEntries(designed));
    // The test detects the removal of every other condition.
    assert.deepEqual(unseen.toSorted(), saidTwice);
  });
}

/** Yields the statement without one of its tenant conditions, once for each condition. */
function* withoutOneCondition(text: string): Generator<[condition: string, without: string]> {
  for (const { 0: condition, index } of text.matchAll(/(?:\w+\.)?tenant_id = (?:\+?\?|\$\d+|\w+\.tenant_id)/g)) {
    const instead = condition.includes("?") ? "? IS NOT NULL" : "TRUE";
    const without = text.slice(0, index) + instead + text.slice(index + condition.length);
    yield [condition.replace(/\+\?|\$\d+/, "?"), without];
  }
}

for (const dialect of dialects) {
  describe(`two tenants on ${dialect}`, () => {
    const atEnd = cleanup();
    let store: Store;
    let config: StoreConfig;
    let tables: string[];
    before(async () => {
      ({ store, config } = await testStore(dialect, atEnd));
      tables = await tenantTables(config);
      await fill(store.tenant("victim"), victimKey, canary);
      await fill(store.tenant("attacker"), victimKey + 100, "harmless");
    });

    for (const statement of statements) {
      test(`${statement.name} neither shows nor changes another tenant's rows`, async () => {
        const attacker = store.tenant("attacker");
        const victim = store.tenant("victim");
        const rowsBefore = await victimRows(config, tables);
        const hitsBefore = await searchEvents(victim, "canary victim", 10, systemEnv());

        await fc.assert(
          fc.asyncProperty(params(statement), async (values) => {
            const answer = isRead(statement)
              ? attacker.read(statement, ...values)
              : attacker.write([attacker.op(statement, values)]);
            const rows = await answer.catch(() => []);
            assert.doesNotMatch(JSON.stringify(rows), new RegExp(canary));
          }),
          { numRuns: isRead(statement) ? readTries[dialect] : writeTries },
        );

        assert.deepEqual(await victimRows(config, tables), rowsBefore);
        assert.deepEqual(await searchEvents(victim, "canary victim", 10, systemEnv()), hitsBefore);
        assert.equal(hitsBefore.length, 2);
      });
    }
  });
}

test("a successful attack would be seen: the victim's own store shows the canary", async (t) => {
  const { store, config } = await testStore("sqlite", cleanup(t));
  const victim = store.tenant("victim");
  await fill(victim, victimKey, canary);
  const silent: string[] = [];
  for (const statement of statements.filter(isRead)) {
    let shown = false;
    for (const values of fc.sample(params(statement), { numRuns: readTries.sqlite, seed: 1 })) {
      const rows = await victim.read(statement, ...values).catch(() => []);
      shown ||= JSON.stringify(rows).includes(canary);
    }
    if (!shown) silent.push(statement.name);
  }

  const rows = await victimRows(config, await tenantTables(config));
  const empty = Object.entries(rows).flatMap(([table, found]) => ((found as unknown[]).length === 0 ? [table] : []));
  // Logs in deletion, and vectors, which test/storage/tables/vectors.test.ts stores.
  assert.deepEqual(empty, ["unowned_logs", "vector_bits", "vector_queue", "vectors"]);
  // These statements return numbers and names only.
  assert.deepEqual(silent.toSorted(), [
    "a2a_tasks_count",
    // It needs a caller, a time, a context and a state of one run.
    "a2a_tasks_page",
    "approvals_lengths",
    "approvals_lengths_status",
    "approvals_lengths_status_thread_id",
    "approvals_lengths_thread_id",
    "audit_count",
    // Its parameter is a list of keys.
    "audit_sealed_rows",
    "audit_unsealed_count",
    "budget_shares_sharers",
    "budget_shares_tasks",
    "budget_spending_of",
    "budget_spending_period",
    "deliveries_of_source",
    "delivery_next_due",
    // Its keys are a JSON array, which no sampled text is.
    "document_chunks_of_keys",
    // No file of a document is dropped here.
    "document_files_gone",
    "document_files_of_documents",
    "document_hits",
    "document_hits_filtered",
    "document_vectors_embedded",
    // No text waits for a vector.
    "document_vectors_queued",
    "documents_lengths",
    "documents_nth",
    "eval_datasets_nth",
    // These return ids and outcomes of items.
    "eval_items_taken",
    "eval_outcomes_of_run",
    "eval_runs_open_nth",
    "event_bytes",
    // It needs the kind of an audit record.
    "event_newest_record",
    "event_parents_backward",
    "event_run",
    "event_sizes_backward",
    "event_sizes_forward",
    "event_sizes_of_branch",
    "fiber_may_go_on",
    "fiber_rests",
    "fibers_held_page",
    "fibers_left",
    "fibers_left_manifest",
    "fibers_queued_nth",
    "file_gone",
    "jobs_nth",
    "kv_list_count",
    "manifest_pins_moved",
    "manifest_retention_idle",
    "memories_of_principal",
    "memories_of_thread",
    // They need a status and a position.
    "memories_page",
    "memories_page_of_thread",
    "memory_hits",
    // It shows a pool with enough new facts only.
    "memory_pools_due",
    "memory_vectors_of_keys",
    "memory_vectors_queued",
    "model_call_last",
    "plans_nth",
    "run_any",
    "run_budgets_by_run_id",
    "run_living_owner",
    "run_rates_by_manifest",
    "search_few_hits",
    "search_unindexed_threads_of_tenant",
    "shell_command_owners",
    "shell_commands_running",
    "skill_drafts_of_agents",
    "skill_eval_for_gate",
    "skill_eval_open",
    "skill_evals_of_version",
    // They need one of three states.
    "skill_feedback_of_name",
    "skill_feedback_of_status",
    "skill_feedback_pending",
    // It returns a time.
    "skill_trees_by_repository_id_tree_hash",
    // It returns names and times.
    "skills_live_marks",
    "skills_nth",
    "stored_bytes_of_kind",
    "task_waiting",
    "tasks_aside",
    "tenant_lock",
    "threads_idle",
    "threads_tasks",
    "threads_unsaid",
    "usage_threads_totals",
    "vectors_count",
    "wait_asked",
    "wait_queued",
    "waits_approvals_of_run",
    "waits_open_nth",
    "workflow_items_of_step",
    "workflow_revisions_unneeded",
    "workflow_run_version",
    "workflow_runs_lengths",
    "workflow_runs_lengths_workflow_id",
    "workflow_runs_open_nth",
    "workflow_steps_by_run_id_step_id_item",
    "workflow_steps_worked",
    "workflows_live_nth",
    "workflows_page_state",
  ]);
});
