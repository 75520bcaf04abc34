import { isDeepStrictEqual } from "node:util";
import { runAddress, runOfOnceSuffix, threadAddress } from "../bus/address.ts";
import { SvcError } from "../bus/errors.ts";
import { toJsonText } from "../bus/protocol/json-text.ts";
import type { Principal } from "../bus/protocol/principal.ts";
import { requestMs, type TenantStore } from "../storage/store/store.ts";
import { keepLateAnswerOp, type QueuedWait, queuedWait } from "../storage/tables/queued-waits.ts";
import { threadBySuffix } from "../storage/tables/threads.ts";
import { answerWaitOp, type WaitAnswer } from "../storage/tables/waits.ts";
import type { HttpContext } from "./context.ts";

// Answers of queue consumers to tool calls. The first answer to a call wins. The same answer again gets the same result; a different one is
// refused.

/**
 * `signaled` is true if a run waited for the answer. Otherwise `event_id` names the note in the log that holds it, null if there is none.
 */
export interface TakenAnswer {
  readonly signaled: boolean;
  readonly event_id: string | null;
}

/** The answer of a consumer. */
export interface ConsumerAnswer {
  readonly tool_call_id: string;
  readonly content: unknown;
  readonly error: boolean;
}

/** Max bytes of JSON in one answer, which is stored in its wait row. */
const answerBytesMax = 256 * 1024;
const by = "consumer";

/** Delivers an answer to its call. Refuses with already_recorded if the call has another answer, and with payload_too_large. */
export async function takeConsumerAnswer(
  context: HttpContext,
  tenantId: string,
  suffix: string,
  { tool_call_id, content, error }: ConsumerAnswer,
): Promise<TakenAnswer> {
  const value = { content, error };
  if (Buffer.byteLength(JSON.stringify(value)) > answerBytesMax) throw new SvcError("payload_too_large");
  const { bus, store } = context;
  const once = runOfOnceSuffix(suffix);
  if (once !== null) {
    const principal: Principal = { tenant_id: tenantId, sub: by, scopes: [], scheme: by, issuer: "" };
    const answer = { kind: "queue", asked_as: tool_call_id, value, principal } as const;
    const { outcome } = await bus.ask(runAddress(tenantId, null, once), "answer", answer);
    return { signaled: outcome === "accepted", event_id: null };
  }
  const tenant = store.tenant(tenantId);
  const thread = await threadBySuffix(tenant, suffix);
  if (thread === undefined) return unheard;
  const find = () => queuedWait(tenant, thread.thread_key, tool_call_id);
  const wait = await find();
  if (wait === undefined) return unheard;
  if (wait.state === "open" && (await isFirst(tenant, wait, { value, by }))) {
    // The wait row holds the answer; this message makes the run read it.
    bus.tell(runAddress(tenantId, wait.suffix, wait.run_id), "resume", { due: false });
    return { signaled: true, event_id: null };
  }
  return afterOthers(context, tenant, suffix, (await find()) ?? wait, { value, by });
}

const unheard: TakenAnswer = { signaled: false, event_id: null };

async function isFirst(store: TenantStore, { wait_id }: QueuedWait, answer: WaitAnswer): Promise<boolean> {
  return isDone(store.write([answerWaitOp(store, wait_id, answer)], requestMs));
}

/**
 * Handles an answer to a call that has an answer or has ended. A late answer is stored once as a note for people, which the model never
 * reads.
 */
async function afterOthers(
  { bus }: HttpContext,
  store: TenantStore,
  suffix: string,
  { wait_id, state, answer, tool }: QueuedWait,
  late: WaitAnswer,
): Promise<TakenAnswer> {
  if (answer !== null) {
    if (!isDeepStrictEqual(answer.value, late.value)) throw new SvcError("already_recorded");
    return { signaled: answer.late !== true, event_id: null };
  }
  // The wait has expired, but its run has not closed it yet.
  if (state !== "closed") return unheard;
  const kept = keepLateAnswerOp(store, wait_id, late);
  if (!(await isDone(store.write([kept], requestMs)))) return unheard;
  const { content, error } = late.value as Omit<ConsumerAnswer, "tool_call_id">;
  const { event_id } = await bus.ask(threadAddress(store.tenantId, suffix), "custom", {
    content: typeof content === "string" ? content : JSON.stringify(content),
    role: "system",
    in_context: false,
    metadata: toJsonText({ source: "queue", tool, error, late: true }),
  });
  return { signaled: false, event_id };
}

/** Returns false if another answer was first. */
async function isDone(written: Promise<unknown>): Promise<boolean> {
  try {
    await written;
    return true;
  } catch (error) {
    if (error instanceof SvcError && error.code === "conflict") return false;
    throw error;
  }
}
