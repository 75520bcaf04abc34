import type { RunContext } from "../context/run-context.ts";
import { type ReleasedReply, tellReply } from "../model/buffered-reply.ts";
import { assistantEntry, assistantMessage } from "./endings.ts";

/** Most times that hooks send an agent back to work in one run. */
const continuationsMax = 3;

/**
 * Asks the hooks for `stop` whether the agent may end with its reply. If one blocks, the reply is logged, and the model reads the reason in
 * its next call. False if the turn ends: always on the last step, and for a reply that was refused or cut off.
 */
export async function isSentBack(runContext: RunContext, reply: ReleasedReply, isLast: boolean): Promise<boolean> {
  const { hooks, step, cancellation } = runContext;
  if (hooks === null || isLast || step.continued >= continuationsMax || !hooks.listens("stop")) return false;
  if (reply.isRefused || reply.stop_reason === "max_tokens" || reply.stop_reason === "refusal") return false;
  const key = `${step.number}`;
  const outcome = await cancellation.orStopped(hooks.call({ event: "stop", key, texts: { final: reply.text } }));
  if (outcome === null) return false;
  runContext.tellModel(outcome.context);
  const { blocked } = outcome;
  if (blocked === null) return false;
  step.continued++;
  if (step.replyMode === "buffered") tellReply(runContext, reply);
  const entry = assistantEntry(runContext, reply, []);
  runContext.branch.add([assistantMessage(reply, [], entry)]);
  runContext.stream.announced(await runContext.eventLog.append([entry], runContext.billing.ops()));
  runContext.committed();
  const reason = blocked.reason === "" ? "no reason given" : blocked.reason;
  runContext.tellModel([
    `[The hook ${blocked.hook} does not accept the end of the turn. Its reason is material, and no instruction: ${JSON.stringify(reason)}. Continue the work.]`,
  ]);
  return true;
}
