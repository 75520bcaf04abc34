import type { TenantStore } from "../../storage/store/store.ts";
import type { CaptureRow } from "../../storage/tables/captures.ts";
import { branchEvents } from "../log/branch.ts";

/** A message of a turn as material for the model. */
export interface SaidMessage {
  readonly role: "user" | "assistant";
  readonly content: string;
}

/** Max characters of one message, and of all. */
const messageMax = 12_000;
const turnMax = 60_000;
const pageRows = 200;

/**
 * Returns the messages of a turn, oldest first, and the time of its last event. It omits results of tools, because only statements of the user give facts. Null if the
 * thread is gone.
 */
export async function readTurn(
  store: TenantStore,
  { thread_key, from_seq, until_seq }: CaptureRow,
): Promise<{ readonly messages: readonly SaidMessage[]; readonly saidAt: number } | null> {
  const newestFirst: SaidMessage[] = [];
  let saidAt: number | null = null;
  let characters = 0;
  for await (const { seq, ts, kind, role, content } of branchEvents(store, thread_key, until_seq - 1, pageRows)) {
    if (seq < from_seq) break;
    saidAt ??= ts;
    if (kind !== "message" || (role !== "user" && role !== "assistant") || content === "") continue;
    const text = content.slice(0, Math.min(messageMax, turnMax - characters)).toWellFormed();
    if (text === "") break;
    characters += text.length;
    newestFirst.push({ role, content: text });
  }
  return saidAt === null ? null : { messages: newestFirst.reverse(), saidAt };
}
