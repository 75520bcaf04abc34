import { type Address, runAddress, threadAddress } from "../bus/address.ts";
import { orderedId } from "../bus/env.ts";
import { SvcError } from "../bus/errors.ts";
import type { Principal } from "../bus/protocol/principal.ts";
import type { ScreenedText } from "../bus/protocol/run.ts";
import type { SteerThread } from "../bus/protocol/thread.ts";
import type { HttpContext } from "./context.ts";

// Messages of callers to a thread, outside of a turn. The controls of the thread's agent screen them before they are stored.

/** Max milliseconds for the controls of a message, which may ask a model. */
const screenMs = 60_000;

/** The sender of a message. */
interface Sender {
  readonly principal: Principal;
  readonly requestId: string;
}

/** Passes a text through the controls of the thread's agent. Refuses with content_screening_denied and the like. */
export function screenMessage(
  text: string,
  thread_suffix: string,
  { principal, requestId: request_id }: Sender,
  { bus, env }: Pick<HttpContext, "bus" | "env">,
  run: Address<"run"> | null = null,
): Promise<ScreenedText> {
  const address = run ?? runAddress(principal.tenant_id, thread_suffix, orderedId(env));
  return bus.ask(address, "screen", { principal, request_id, text, thread_suffix }, { deadlineMs: screenMs });
}

/** Screens the answer of a caller to a question. `run` is the run that asked, if it has no thread. Refuses as `screenMessage` does. */
export async function screenAnswer(
  value: unknown,
  suffix: string,
  run: Address<"run"> | null,
  sender: Sender,
  context: Pick<HttpContext, "bus" | "env">,
): Promise<unknown> {
  if (value === null || value === "" || typeof value === "boolean" || typeof value === "number") return value;
  const text = typeof value === "string" ? value : JSON.stringify(value);
  const screened = await screenMessage(text, suffix, sender, context, run);
  return screened.text === text ? value : screened.text;
}

/** Screens and queues a message. Refuses as `screenMessage` and the thread do. */
export async function queueMessage(
  { text, kind, run_id }: Pick<SteerThread, "text" | "kind" | "run_id">,
  suffix: string,
  sender: Sender,
  context: Pick<HttpContext, "bus" | "env">,
): Promise<SteerThread["kind"]> {
  const { principal } = sender;
  const address = threadAddress(principal.tenant_id, suffix);
  const asked = { kind, principal, ...(run_id !== undefined && { run_id }) };
  for (let attempt = 1; ; attempt++) {
    const { text: shown, manifest } = await screenMessage(text, suffix, sender, context);
    try {
      const { queued } = await context.bus.ask(address, "steer", { ...asked, text: shown, screened: manifest });
      return queued;
    } catch (error) {
      // The thread has got another manifest in the meantime.
      if (attempt > 1 || SvcError.from(error).code !== "conflict") throw error;
    }
  }
}

/** Refusals of the controls of a message. */
export const screenFails = [
  "content_screening_denied",
  "content_screening_oversize",
  "content_screening_unavailable",
] as const;
