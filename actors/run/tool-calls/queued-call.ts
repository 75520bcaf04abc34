import { SvcError } from "../../../bus/errors.ts";
import { RedisRefusal, RedisUnavailable } from "../../../governance/egress/redis.ts";
import type { ToolCall } from "../../../storage/tables/events.ts";
import { pushedOp } from "../../../storage/tables/queued-waits.ts";
import type { NewWait, WaitPush } from "../../../storage/tables/waits.ts";
import { type QueuedCall, type ToolResult, toolError } from "../../tools/tool.ts";
import type { RunContext } from "../context/run-context.ts";

// A call goes to its list when the question is open, so that no answer comes too early. It is pushed once; only what may be done twice by
// its tool's effect is kept with the question until it surely was, and pushed again when the process was lost meanwhile.

/** What a consumer takes from a list (U-27). */
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

/** Pushes it. Answers what to tell the model where that has surely failed; who does not know waits for a consumer all the same. */
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
  // What is pushed once more when this is lost may be.
  if (row.push !== undefined) await store.write([pushedOp(store, row.wait_id)]).catch((error) => SvcError.from(error));
  return null;
}
