import { tenantSql } from "../store/statements.ts";
import type { TenantStore, WriteOp } from "../store/store.ts";
import { insertInto, integer, json, nullable, oneOf, type RowIn, table, text } from "../store/table.ts";

// What is said to a conversation beside its turns, and waits until its run takes it (decision 93): rows of the conversation, in the
// order in which they came, without expiry. A row goes in the batch that puts its message into the log.

/** What only notes of the service have. */
export interface NoteDetail {
  /** Of the event. */
  readonly metadata: Readonly<Record<string, unknown>>;
  /** What those who listen are told when the model is about to read it; null for nothing. */
  readonly frame: { readonly name: string; readonly data: Readonly<Record<string, unknown>> } | null;
}

const inputTable = table("queued_inputs", {
  thread_key: integer,
  /** In the conversation, growing. */
  number: integer,
  kind: oneOf("steer", "follow_up", "note"),
  /** What a note is about: only the newest of a subject waits. Empty for what people say. */
  subject: text,
  content: text,
  /** Subject of the principal who has said it; empty for the service. */
  sender: text,
  detail: nullable(json<NoteDetail>()),
});

/** What waits, as it is stored. */
export type QueuedInput = RowIn<typeof inputTable>;
/** The same without its words. */
export type InputHead = Pick<QueuedInput, "number" | "kind" | "subject">;

const deleteInput = tenantSql(
  "queued_input_delete",
  "DELETE FROM queued_inputs WHERE tenant_id = :tenant AND thread_key = ? AND number = ?",
);
const deleteOfThread = tenantSql(
  "queued_inputs_delete",
  "DELETE FROM queued_inputs WHERE tenant_id = :tenant AND thread_key = ?",
);
const selectHeads = tenantSql(
  "queued_inputs_heads",
  `SELECT number, kind, subject FROM queued_inputs WHERE tenant_id = :tenant AND thread_key = ?
   ORDER BY number LIMIT ?`,
);
const selectRange = tenantSql(
  "queued_inputs_range",
  `SELECT ${inputTable.columns} FROM queued_inputs
   WHERE tenant_id = :tenant AND thread_key = ? AND number >= ? AND number <= ?
   ORDER BY number LIMIT ?`,
);

/** Messages of people that wait for one conversation at most. */
export const messagesMax = 64;
/** Notes of the service that do. */
export const notesMax = 256;
const rowsMax = messagesMax + notesMax;
/** Bytes of one message. */
export const messageBytesMax = 64 * 1024;

/** Adds to what waits. Refuses with conflict when the number is taken. */
export const queueInputOp = insertInto(inputTable);

/** Something does not wait any more. Refuses with conflict when it did not. */
export function unqueueInputOp(store: TenantStore, threadKey: number, number: number): WriteOp {
  return store.op(deleteInput, [threadKey, number], 1);
}

/** Deletes all that waits for a conversation. */
export function deleteInputsOp(store: TenantStore, threadKey: number): WriteOp {
  return store.op(deleteOfThread, [threadKey]);
}

/** What waits, without its words, in its order. */
export async function queuedHeads(store: TenantStore, threadKey: number): Promise<InputHead[]> {
  const rows = await store.read(selectHeads, threadKey, rowsMax);
  return rows as unknown as InputHead[];
}

/** What waits with these numbers, in their order. */
export async function queuedInputs(
  store: TenantStore,
  threadKey: number,
  numbers: readonly number[],
): Promise<QueuedInput[]> {
  const wanted = new Set(numbers);
  const [first = 0, last = -1] = [numbers[0], numbers.at(-1)];
  const rows = await store.read(selectRange, threadKey, first, last, rowsMax);
  return rows.map((row) => inputTable.decode(row)).filter(({ number }) => wanted.has(number));
}
