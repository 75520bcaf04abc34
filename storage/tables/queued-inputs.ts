import { tenantSql } from "../store/statements.ts";
import type { TenantStore, WriteOp } from "../store/store.ts";
import { insertInto, integer, json, nullable, oneOf, type RowIn, table, text } from "../store/table.ts";

// Messages to a thread outside its turns, which wait until its run reads them (decision 93: queued inputs are rows
// without expiry). They are rows of the thread, in their order of arrival. A row is deleted in the batch that appends
// its message to the log.

/** Fields of notes from the service, and of messages that controls have screened. */
export interface InputDetail {
  /** Metadata of the event; absent for a message. */
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** Frame that subscribers receive when the model is about to read the note; null or absent for none. */
  readonly frame?: { readonly name: string; readonly data: Readonly<Record<string, unknown>> } | null;
  /** The manifest whose controls have screened the message; absent for none. */
  readonly screened?: string;
}

const inputTable = table("queued_inputs", {
  thread_key: integer,
  /** Increasing number within the thread. */
  number: integer,
  kind: oneOf("steer", "follow_up", "note"),
  /** Topic of a note: only the newest note of a topic is kept. Empty for users' messages. */
  subject: text,
  content: text,
  /** Subject of the principal that sent it; empty for the service. */
  sender: text,
  detail: nullable(json<InputDetail>()),
});

/** A stored input. */
export type QueuedInput = RowIn<typeof inputTable>;
/** The same without its text. */
export type InputHead = Pick<QueuedInput, "number" | "kind" | "subject">;

const deleteInput = tenantSql(
  "queued_input_delete",
  "DELETE FROM queued_inputs WHERE tenant_id = :tenant AND thread_key = ? AND number = ?",
);
const deleteOfThread = tenantSql(
  "queued_inputs_delete",
  "DELETE FROM queued_inputs WHERE tenant_id = :tenant AND thread_key = ?",
);
const rewriteInput = tenantSql(
  "queued_input_rewrite",
  "UPDATE queued_inputs SET content = ?, detail = ? WHERE tenant_id = :tenant AND thread_key = ? AND number = ?",
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

/** Max queued messages of users for one thread. */
export const messagesMax = 64;
/** Max queued notes of the service for one thread. */
export const notesMax = 256;
const rowsMax = messagesMax + notesMax;
/** Max bytes of one message. */
export const messageBytesMax = 64 * 1024;

/** Adds an input. Refuses with conflict if the number is taken. */
export const queueInputOp = insertInto(inputTable);

/** Removes an input. Refuses with conflict if it does not exist. */
export function unqueueInputOp(store: TenantStore, threadKey: number, number: number): WriteOp {
  return store.op(deleteInput, [threadKey, number], 1);
}

/** Replaces the text of a message, which the controls of a manifest have screened. Refuses with conflict if it does not exist. */
export function rewriteInputOp(
  store: TenantStore,
  { thread_key, number, detail }: QueuedInput,
  content: string,
  screened: string,
): WriteOp {
  return store.op(rewriteInput, [content, JSON.stringify({ ...detail, screened }), thread_key, number], 1);
}

/** Deletes all queued inputs of a thread. */
export function deleteInputsOp(store: TenantStore, threadKey: number): WriteOp {
  return store.op(deleteOfThread, [threadKey]);
}

/** Returns the queued inputs without their texts, in order. */
export async function queuedHeads(store: TenantStore, threadKey: number): Promise<InputHead[]> {
  const rows = await store.read(selectHeads, threadKey, rowsMax);
  return rows as unknown as InputHead[];
}

/** Returns the queued inputs with these numbers, in order. */
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
