import { SvcError } from "../../../bus/errors.ts";
import { RedisRefusal, RedisUnavailable } from "../../../governance/egress/redis.ts";
import type { ToolCall } from "../../../storage/tables/events.ts";
import { pushedOp } from "../../../storage/tables/queued-waits.ts";
import type { NewWait, WaitPush } from "../../../storage/tables/waits.ts";
import { type QueuedCall, type ToolResult, toolError } from "../../tools/tool.ts";
import type { RunContext } from "../context/run-context.ts";

// A job is pushed after its wait is open, so that no answer comes too early. It is pushed once. If the tool's effect allows a
// repetition, the job is stored with the wait until the push has succeeded. A job whose process died before that is pushed again.

/** Returns the job that a consumer takes from the list. The envelope format is the specification's (U-27). */
export function jobOf({ spec }: RunContext, { list, sessionId }: QueuedCall, call: ToolCall, row: NewWait): WaitPush {
  const { tenant_id } = spec.principal;
  const suffix = sessionId.slice(tenant_id.length + 1);
  const envelope = {
    id: `job_${row.wait_id}`,
    tenant_id,
    session_id: sessionId,
    manifest_id: spec.agent.name,
    tool: call.name,
    tool_call_id: call.id,
    args: call.args,
    deadline_at: row.deadline,
    callback: `/internal/sessions/${tenant_id}:${encodeURIComponent(suffix).replaceAll("%3A", ":")}/events`,
  };
  return { list, text: JSON.stringify(envelope) };
}

/**
 * Pushes a job. Returns an error result if the push has certainly failed; null if it succeeded or its outcome is unknown, so that
 * the call waits.
 */
export async function pushJob(
  runContext: RunContext,
  { list, text }: WaitPush,
  row: NewWait,
): Promise<ToolResult | null> {
  const { deps, spec, store } = runContext;
  const { run_id } = spec;
  try {
    if (deps.redis === null) throw new RedisUnavailable("not_sent", new Error("SVC_REDIS_URL is not set"));
    await deps.redis.command("LPUSH", list, text);
  } catch (error) {
    const isKnown = error instanceof RedisRefusal || error instanceof RedisUnavailable;
    if (!isKnown) throw error;
    if (error instanceof RedisUnavailable && error.outcome === "unknown") return null;
    const reason = error instanceof RedisUnavailable ? "unavailable" : "refused";
    deps.log.warn({ run_id, queue: row.subject, reason }, "a tool call could not be pushed to its queue");
    return toolError("transport_unavailable", `the queue ${row.subject} cannot be reached; nothing was sent`);
  }
  // If this write is lost, the job may be pushed again, which the effect of the tool allows.
  if (row.push !== undefined) await store.write([pushedOp(store, row.wait_id)]).catch((error) => SvcError.from(error));
  return null;
}
