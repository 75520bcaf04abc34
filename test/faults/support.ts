import assert from "node:assert/strict";
import { join } from "node:path";
import SqliteDatabase from "better-sqlite3";
import type { Dialect } from "../../storage/store/dialect.ts";
import { never, says } from "../support/chat.ts";
import type { HttpClient, RequestOptions, TestStream } from "../support/http-client.ts";
import type { Behaviour } from "../support/mock-model/behaviours.ts";
import { hasPostgresServer, migratedDatabase, needsServer } from "../support/postgres.ts";
import { onServer } from "../support/postgres-server.ts";
import type { Env } from "../support/server.ts";
import type { Frame } from "../support/sse-frames.ts";
import type { Cleanup } from "../support/temp.ts";

// Shared parts of the fault tests: a database of either engine that outlives its server, a model that obeys the user's
// message, and checks of the log.

/** The reason to skip the tests on Postgres, or false. */
export const skipPostgres = (await hasPostgresServer()) ? false : needsServer;

/** A database that outlives its servers, with a way to query it from outside. */
export interface Database {
  readonly env: Env;
  rows(query: string, dataDir: string): Promise<Record<string, unknown>[]>;
}

/** Returns a database of the engine at the newest revision. */
export async function databaseOf(dialect: Dialect, atEnd: Cleanup): Promise<Database> {
  if (dialect === "sqlite") return { env: {}, rows: async (query, dataDir) => sqliteRows(query, dataDir) };
  const { url } = await migratedDatabase(atEnd);
  return {
    env: { SVC_DATABASE_URL: url, SVC_DB_POOL_SIZE: "4", SVC_DB_MAX_OVERFLOW: "2" },
    rows: (query) => onServer(url, async (client) => (await client.query(query)).rows),
  };
}

/** Returns the rows of a query on the SQLite database of a data directory. */
export function sqliteRows(query: string, dataDir: string): Record<string, unknown>[] {
  const db = new SqliteDatabase(join(dataDir, "svc.db"), { timeout: 10_000 });
  try {
    return db.prepare<[], Record<string, unknown>>(query).all();
  } finally {
    db.close();
  }
}

/**
 * Obeys the last user message: `say WORDS` answers the words; `begin WORDS` answers them and then waits for `release`;
 * `calculate WORDS` calls the calculator first and then does the same as `begin`. Any other message is repeated.
 */
export function obedient(release: Promise<unknown> = never): Behaviour {
  return ({ body }) => {
    const messages = body.messages as readonly { role: string; content: string }[];
    const asked = messages.findLast(({ role }) => role === "user")?.content ?? "";
    const [verb, ...words] = asked.split(" ");
    const text = words.join(" ");
    if (verb === "say") return says(text);
    if (verb === "begin") return says(text, release);
    if (verb !== "calculate") return says(asked);
    if (messages.at(-1)?.role === "tool") return says(text, release);
    return { toolCalls: [{ id: "call_1", name: "calculator", arguments: '{"expression":"6*7"}' }] };
  };
}

/** An event of a transcript, as snapshots contain it. */
export interface Item {
  readonly id: string;
  readonly seq: number;
  readonly parentId: string | null;
  readonly kind: string;
  readonly role: string | null;
  readonly content: string;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly toolCallId?: string;
  readonly toolCalls?: readonly { readonly id: string; readonly name: string }[];
}

/**
 * Returns a thread's snapshot. Asserts that its events are numbered from 0 without gaps and that each follows the one
 * before.
 */
export async function snapshotOf(client: HttpClient, thread: string, options: RequestOptions = {}) {
  const { status, json } = await client.get(`/chat/sessions/${thread}`, options);
  assert.equal(status, 200, `the snapshot of ${thread}`);
  const transcript = json.transcript as Item[];
  assert.deepEqual(
    transcript.map(({ seq }) => seq),
    transcript.map((_, at) => at),
    `the numbers of ${thread}`,
  );
  assert.deepEqual(
    transcript.map(({ parentId }) => parentId),
    transcript.map((_, at) => transcript[at - 1]?.id ?? null),
    `the order of ${thread}`,
  );
  return { transcript, phase: json.phase as string, leafId: json.leafId as string | null, wake: json.wake };
}

/** A short text for an event. */
export function brief({ kind, role, content, metadata }: Item): string {
  if (kind === "message") return `${role}: ${content}`;
  return kind === "audit" ? String(metadata.type) : kind;
}

/** Resolves with the answer, or with undefined if the server dies. */
export function orLost<T>(asked: Promise<T>): Promise<T | undefined> {
  return asked.catch(() => undefined);
}

/** Returns the frames of a stream until it ends or is cut. */
export async function untilCut(stream: TestStream, onFrame: (frame: Frame) => void = () => {}): Promise<Frame[]> {
  const frames: Frame[] = [];
  try {
    for await (const frame of stream) {
      frames.push(frame);
      onFrame(frame);
    }
  } catch {
    // The server is gone.
  }
  return frames;
}

/** Events below this number are durable by the ids of the frames; 0 without ids. */
export function durableUpTo(frames: readonly Frame[]): number {
  return Math.max(0, ...frames.map(({ id }) => Number(id ?? 0)));
}
