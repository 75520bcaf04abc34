import { type Address, isTaskSuffix, runAddress, runOfOnceSuffix } from "../bus/address.ts";
import { SvcError } from "../bus/errors.ts";
import { type Principal, principalId } from "../bus/protocol/principal.ts";
import { requestMs } from "../storage/store/store.ts";
import { type AskedWait, openWaitAs } from "../storage/tables/asked-waits.ts";
import { threadBySuffix } from "../storage/tables/threads.ts";
import { answerWaitOp } from "../storage/tables/waits.ts";
import type { HttpContext } from "./context.ts";

/** Max bytes of JSON in one answer, which is stored in its wait row. */
const answerBytesMax = 256 * 1024;

/** An answer of a client. */
interface GivenAnswer {
  readonly asked: AskedWait;
  readonly value: unknown;
  /**
   * Returns the answer as the controls let it through. Called for an open wait only. `run` is the run that asked, if it has no thread.
   */
  readonly screened?: (run: Address<"run"> | null) => Promise<unknown>;
}

/**
 * Delivers an answer to the waiting run of a thread or of one of its tasks; any connection and principal of the tenant may answer. Returns
 * false if no wait is open: the answer is late, not the first, or matches no question. Refuses with payload_too_large, and with
 * invalid_thread_id for the thread of a task, because its questions are asked on its conversation.
 */
export async function answerAsked(
  { bus, store }: HttpContext,
  principal: Principal,
  suffix: string,
  { asked, value: given, screened }: GivenAnswer,
): Promise<boolean> {
  if (Buffer.byteLength(JSON.stringify(given)) > answerBytesMax) throw new SvcError("payload_too_large");
  if (isTaskSuffix(suffix)) throw new SvcError("invalid_thread_id");
  const { tenant_id } = principal;
  const once = runOfOnceSuffix(suffix);
  if (once !== null) {
    const address = runAddress(tenant_id, null, once);
    const answer = { ...asked, value: screened ? await screened(address) : given, principal };
    return (await bus.ask(address, "answer", answer)).outcome === "accepted";
  }
  const tenant = store.tenant(tenant_id);
  const thread = await threadBySuffix(tenant, suffix);
  const wait = thread && (await openWaitAs(tenant, thread.thread_key, asked));
  if (wait === undefined) return false;
  const value = screened ? await screened(null) : given;
  try {
    await tenant.write([answerWaitOp(tenant, wait.wait_id, { value, by: principalId(principal) })], requestMs);
  } catch (error) {
    // Another answer was first, or the wait has expired.
    if (error instanceof SvcError && error.code === "conflict") return false;
    throw error;
  }
  // The wait row holds the answer; this message makes the run read it.
  bus.tell(runAddress(tenant_id, wait.suffix, wait.run_id), "resume", { due: false });
  return true;
}
