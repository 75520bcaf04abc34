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

// What consumers of queues say of calls. The first answer to a call counts; the same once more is answered as it was, another one refused.

/** Whether a run has waited for it; else the note in the log that has it, null where there is none. */
export interface TakenAnswer {
  readonly signaled: boolean;
  readonly event_id: string | null;
}

/** What a consumer says. */
export interface ConsumerAnswer {
  readonly tool_call_id: string;
  readonly content: unknown;
  readonly error: boolean;
}

/** Bytes of JSON of one answer (decision 105). */
const answerBytesMax = 256 * 1024;
const by = "consumer";

/** Gives it to the call. Refuses with already_recorded when that has another answer, and with payload_too_large. */
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
    // The row says what was answered; the run is told to look.
    bus.tell(runAddress(tenantId, wait.suffix, wait.run_id), "resume", { due: false });
    return { signaled: true, event_id: null };
  }
  return afterOthers(context, tenant, suffix, (await find()) ?? wait, { value, by });
}

const unheard: TakenAnswer = { signaled: false, event_id: null };

async function isFirst(store: TenantStore, { wait_id }: QueuedWait, answer: WaitAnswer): Promise<boolean> {
  return isDone(store.write([answerWaitOp(store, wait_id, answer)], requestMs));
}

/** The call has an answer, or is over: then what came too late is kept for people, once, and the model never reads it. */
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
  // Its run has not seen yet that its time is over.
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

/** False when somebody else was first. */
async function isDone(written: Promise<unknown>): Promise<boolean> {
  try {
    await written;
    return true;
  } catch (error) {
    if (error instanceof SvcError && error.code === "conflict") return false;
    throw error;
  }
}
