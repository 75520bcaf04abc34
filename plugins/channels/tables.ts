import type { Migration } from "../../storage/store/migration.ts";
import { systemSql, tenantSql } from "../../storage/store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../../storage/store/store.ts";
import { integer, json, nullable, oneOf, type RowIn, table, text } from "../../storage/store/table.ts";
import type { ChannelMessage } from "./platform.ts";

// Messages of chat services, from their arrival to the answer, and the posts of each answer. A message has one row however often the service
// sends it.

/** The message for a run, with its files stored. */
export interface PreparedMessage {
  readonly content: string | readonly { readonly type: string; readonly text?: string; readonly file_id?: string }[];
  readonly quoted: readonly { readonly source: string; readonly note: string; readonly text: string }[];
}

export const messagesTable = table(
  "channels_messages",
  {
    /** Entry, channel and id of the message. */
    id: text,
    /** Entry, channel and thread. */
    conversation: text,
    /** Epoch milliseconds of the arrival. */
    ts: integer,
    sender: text,
    /** Null after the end. */
    message: nullable(json<ChannelMessage | null>()),
    /** Null until the files are stored, and after the end. */
    prepared: nullable(json<PreparedMessage | null>()),
    state: oneOf("queued", "running", "done"),
    run_id: nullable(text),
    ended_at: nullable(integer),
  },
  ({ text: given }) => ({
    ...{ id: "row", conversation: "row", ts: 5, sender: given, message: null, prepared: null },
    ...({ state: "done", run_id: null, ended_at: 5 } as const),
  }),
);

export const postsTable = table(
  "channels_posts",
  { message_id: text, piece: integer, post_id: text, ts: integer },
  ({ text: given }) => ({ message_id: "row", piece: 0, post_id: given, ts: 5 }),
);

/** A stored message. */
export type MessageRow = RowIn<typeof messagesTable>;

export const channelsMigration: Migration = {
  revision: "channels_0001",
  name: "messages",
  up: [
    `CREATE TABLE channels_messages (
      tenant_id TEXT NOT NULL,
      id TEXT NOT NULL,
      conversation TEXT NOT NULL,
      ts BIGINT NOT NULL,
      sender TEXT NOT NULL,
      message TEXT,
      prepared TEXT,
      state TEXT NOT NULL,
      run_id TEXT,
      ended_at BIGINT,
      PRIMARY KEY (tenant_id, id)
    )`,
    "CREATE INDEX channels_messages_open ON channels_messages (tenant_id, conversation, ts, id) WHERE ended_at IS NULL",
    "CREATE INDEX channels_messages_ended ON channels_messages (ended_at) WHERE ended_at IS NOT NULL",
    `CREATE TABLE channels_posts (
      tenant_id TEXT NOT NULL,
      message_id TEXT NOT NULL,
      piece BIGINT NOT NULL,
      post_id TEXT NOT NULL,
      ts BIGINT NOT NULL,
      PRIMARY KEY (tenant_id, message_id, piece)
    )`,
    "CREATE INDEX channels_posts_by_time ON channels_posts (ts)",
  ],
  down: ["DROP TABLE channels_posts", "DROP TABLE channels_messages"],
};

const { columns } = messagesTable;
const ofId = "tenant_id = :tenant AND id = ?";
const insertMessage = tenantSql(
  "channels_message_insert",
  `INSERT INTO channels_messages (tenant_id, ${columns}) VALUES (:tenant, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
);
const selectMessage = tenantSql("channels_message", `SELECT ${columns} FROM channels_messages WHERE ${ofId}`);
const selectOpen = tenantSql(
  "channels_messages_open",
  `SELECT ${columns} FROM channels_messages WHERE tenant_id = :tenant AND conversation = ? AND ended_at IS NULL
   ORDER BY ts, id LIMIT ?`,
);
const editMessage = tenantSql(
  "channels_message_edit",
  `UPDATE channels_messages SET message = ?, prepared = NULL WHERE ${ofId} AND state = 'queued'`,
);
const prepareMessage = tenantSql(
  "channels_message_prepare",
  `UPDATE channels_messages SET prepared = ? WHERE ${ofId} AND state = 'queued' AND message = ?`,
);
const beginMessage = tenantSql(
  "channels_message_begin",
  `UPDATE channels_messages SET state = 'running', run_id = ? WHERE ${ofId} AND state = 'queued' AND prepared IS NOT NULL`,
);
const endMessage = tenantSql(
  "channels_message_end",
  `UPDATE channels_messages SET state = 'done', message = NULL, prepared = NULL, ended_at = :now
   WHERE ${ofId} AND ended_at IS NULL`,
);
const selectPosts = tenantSql(
  "channels_posts_of_message",
  `SELECT ${postsTable.columns} FROM channels_posts WHERE tenant_id = :tenant AND message_id = ? ORDER BY piece`,
);
const insertPost = tenantSql(
  "channels_post_insert",
  `INSERT INTO channels_posts (tenant_id, ${postsTable.columns}) VALUES (:tenant, ?, ?, ?, :now)
   ON CONFLICT (tenant_id, message_id, piece) DO UPDATE SET post_id = excluded.post_id`,
);
const selectConversations = systemSql(
  "channels_conversations_open",
  `SELECT DISTINCT tenant_id, conversation FROM channels_messages
   WHERE ended_at IS NULL AND (tenant_id, conversation) > (?, ?) ORDER BY tenant_id, conversation LIMIT ?`,
);
const deleteMessages = systemSql(
  "channels_messages_delete_ended",
  `DELETE FROM channels_messages WHERE (tenant_id, id) IN
     (SELECT tenant_id, id FROM channels_messages WHERE ended_at <= ? ORDER BY ended_at LIMIT ?) RETURNING id`,
);
const deletePosts = systemSql(
  "channels_posts_delete_old",
  `DELETE FROM channels_posts WHERE (tenant_id, message_id, piece) IN
     (SELECT tenant_id, message_id, piece FROM channels_posts p WHERE ts <= ? AND NOT EXISTS
        (SELECT 1 FROM channels_messages m WHERE m.tenant_id = p.tenant_id AND m.id = p.message_id AND m.ended_at IS NULL)
      ORDER BY ts LIMIT ?) RETURNING message_id`,
);

/** Stores a new message; has no effect if it is stored already. */
export function insertMessageOp(
  store: TenantStore,
  { id, conversation, ts, sender, message }: Pick<MessageRow, "id" | "conversation" | "ts" | "sender" | "message">,
): WriteOp {
  const row = { id, conversation, ts, sender, message, prepared: null, state: "queued", run_id: null, ended_at: null };
  return store.op(insertMessage, messagesTable.encode(row as MessageRow));
}

/** Returns a message. */
export async function messageById(store: TenantStore, id: string): Promise<MessageRow | undefined> {
  const [row] = await store.read(selectMessage, id);
  return row && messagesTable.decode(row);
}

/** Returns the first open messages of a conversation, in the order of their arrival. */
export async function openMessages(store: TenantStore, conversation: string, limit: number): Promise<MessageRow[]> {
  return (await store.read(selectOpen, conversation, limit)).map((row) => messagesTable.decode(row));
}

/** Replaces a message that waits. */
export function editMessageOp(store: TenantStore, id: string, message: ChannelMessage): WriteOp {
  return store.op(editMessage, [JSON.stringify(message), id]);
}

/** Stores the prepared form of a message that waits, unless it was edited since. */
export function prepareMessageOp(store: TenantStore, { id, message }: MessageRow, prepared: PreparedMessage): WriteOp {
  return store.op(prepareMessage, [JSON.stringify(prepared), id, JSON.stringify(message)]);
}

/** Gives a message its run. Refuses with conflict if it does not wait. */
export function beginMessageOp(store: TenantStore, id: string, run_id: string): WriteOp {
  return store.op(beginMessage, [run_id, id], 1);
}

/** Ends a message. Refuses with conflict if it has ended. */
export function endMessageOp(store: TenantStore, id: string): WriteOp {
  return store.op(endMessage, [id], 1);
}

/** Returns the posts that answer a message: the id of each piece. */
export async function postsOf(store: TenantStore, messageId: string): Promise<ReadonlyMap<number, string>> {
  const rows = (await store.read(selectPosts, messageId)).map((row) => postsTable.decode(row));
  return new Map(rows.map(({ piece, post_id }) => [piece, post_id]));
}

/** Stores the id of a posted piece. */
export function postOp(store: TenantStore, messageId: string, piece: number, postId: string): WriteOp {
  return store.op(insertPost, [messageId, piece, postId]);
}

/** Returns conversations with open messages, in pages. */
export async function openConversations(
  store: Scope,
  after: { readonly tenant_id: string; readonly conversation: string },
  limit: number,
): Promise<{ tenant_id: string; conversation: string }[]> {
  const rows = await store.readLong(selectConversations, after.tenant_id, after.conversation, limit);
  return rows as unknown as { tenant_id: string; conversation: string }[];
}

/**
 * Deletes up to `limit` messages that have ended, and as many posts, of this time and before. The posts of a message that has not ended stay:
 * its answer edits them. Returns the greater number.
 */
export async function deleteEnded(store: Scope, until: number, limit: number): Promise<number> {
  const [messages, posts] = await store.write([
    store.op(deleteMessages, [until, limit]),
    store.op(deletePosts, [until, limit]),
  ]);
  return Math.max(messages?.length ?? 0, posts?.length ?? 0);
}
