import Database from "better-sqlite3";
import { migrate } from "../../storage/migrate.ts";
import type { StoreConfig } from "../../storage/store/config.ts";
import { onServer } from "./postgres-server.ts";

/** The newest revision of release 0.1.0. */
const revision = "0005";
const startedAt = 1_700_000_000_000;
const span = 2 ** 24;

/** A conversation that was going on when its process was killed, and what it has said. */
export interface LeftOpen {
  readonly suffix: string;
  /** The name under which its idempotency key is kept, if the request came with one. */
  readonly idempotencyScope: string | null;
  readonly answer: "nothing" | "open call";
}

/**
 * Makes the database that release 0.1.0 has left when it was killed, as that release has written it, row by row: the schema by the
 * migrations that it had, and the rest by hand, as the code of then is gone. `run-<suffix>` are the runs.
 */
export async function leaveAsFirstRelease(
  config: StoreConfig,
  tenantId: string,
  open: readonly LeftOpen[],
): Promise<void> {
  await migrate(config, { target: revision, downgrade: false });
  await change(config, [
    `UPDATE counters SET value = ${open.length + 1} WHERE name = 'thread_key'`,
    ...open.flatMap((left, at) => rowsOf(tenantId, left, at + 1)),
  ]);
}

function rowsOf(tenantId: string, { suffix, idempotencyScope, answer }: LeftOpen, key: number): string[] {
  const run = `run-${suffix}`;
  const origin = idempotencyScope === null ? {} : { origin_request: run };
  const calls = { tool_calls: [{ id: "c1", name: "calculator", args: { expression: "1+1" } }] };
  const events: [kind: string, role: string | null, content: string, extra: object | null][] = [
    ["message", "user", "go", idempotencyScope === null ? null : { metadata: origin }],
  ];
  if (answer === "open call")
    events.push(
      ["message", "assistant", "", { ...calls, metadata: { model: "scripted", stop_reason: "tool_use", ...origin } }],
      ["tool_call", null, "", { name: "calculator", tool_call_id: "c1", metadata: { effect: "read", ...origin } }],
    );
  const texts = (values: readonly (string | number | null)[]) => values.map(literal).join(", ");
  return [
    `INSERT INTO threads (tenant_id, thread_key, suffix, uid, created_at, updated_at, next_seq, leaf_seq, indexed_seq, revision,
       manifest, model_id, session_name, preview, parent_session_id, meta)
     VALUES (${texts([tenantId, key, suffix, String(key).padStart(20, "0"), startedAt, startedAt, events.length, events.length - 1, 0, 1, "agent", "scripted", null, "go", null, null])})`,
    ...events.map(
      ([kind, role, content, extra], seq) =>
        `INSERT INTO events (tenant_id, event_key, parent_seq, ts, kind, role, content, extra)
         VALUES (${texts([tenantId, key * span + seq, seq - 1, startedAt, kind, role, content, extra && JSON.stringify(extra)])})`,
    ),
    `INSERT INTO live_runs (tenant_id, thread_key, suffix, run_id, owner, started_at, idempotency_scope)
     VALUES (${texts([tenantId, key, suffix, run, "0123456789abcdef:1:0", startedAt, idempotencyScope])})`,
    ...(idempotencyScope === null
      ? []
      : [
          `INSERT INTO idempotency (tenant_id, scope, fingerprint, state, owner, run_id, answer, expires_at)
           VALUES (${texts([tenantId, idempotencyScope, "f", "in_progress", "0123456789abcdef:1:0", run, '{"from_seq":0,"to_seq":-1,"error":null}', startedAt * 2])})`,
        ]),
  ];
}

function literal(value: string | number | null): string {
  return typeof value === "string" ? `'${value.replaceAll("'", "''")}'` : String(value);
}

async function change(config: StoreConfig, statements: readonly string[]): Promise<void> {
  if (config.engine === "postgres")
    return onServer(config.postgres.url, async (client) => {
      for (const statement of statements) await client.query(statement);
    });
  const db = new Database(config.path);
  for (const statement of statements) db.exec(statement);
  db.close();
}

/** What a database has, past the store. */
export async function rowsIn(config: StoreConfig, query: string): Promise<Record<string, unknown>[]> {
  if (config.engine === "postgres")
    return onServer(config.postgres.url, async (client) => (await client.query(query)).rows);
  const db = new Database(config.path, { readonly: true });
  try {
    return db.prepare<[], Record<string, unknown>>(query).all();
  } finally {
    db.close();
  }
}
