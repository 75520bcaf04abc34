import type { StopReason } from "../../bus/protocol/model-reply.ts";
import type { Breach } from "../../governance/budget.ts";
import type { ToolCall } from "../../storage/tables/events.ts";
import type { ModelFailure, ModelReply } from "../models/provider.ts";
import { contextMessage } from "./context/message.ts";
import type { JournalEntry } from "./journal.ts";
import type { RunScope } from "./scope.ts";

/** How the loop of a turn was left: what the client is told and what is still to be written. */
export interface Ending {
  readonly final: string | null;
  readonly stop_reason: StopReason;
  /** The model's failure in words for the client. */
  readonly failure: string | null;
  readonly entries: readonly JournalEntry[];
  /** Whether the reply is what the turn was for. */
  readonly ok: boolean;
}

/** The model has answered. */
export function answered(scope: RunScope, reply: ModelReply): Ending {
  scope.remember([contextMessage({ role: "assistant", content: reply.text })]);
  return {
    final: reply.text,
    stop_reason: reply.stop_reason,
    failure: null,
    entries: [assistantEntry(scope, reply, [])],
    ok: !scope.endedOnDenial,
  };
}

/** The model asks for tools in its last step, and they were not run. */
export function outOfSteps(reply: ModelReply): Ending {
  return {
    final: reply.text === "" ? null : reply.text,
    stop_reason: "max_turns",
    failure: null,
    entries: [],
    ok: true,
  };
}

/** The provider failed; what it had said is kept (decision 33). */
export function failedCall(scope: RunScope, failure: ModelFailure): Ending {
  const { deps, plan } = scope;
  deps.log.warn({ run_id: plan.run_id, model: scope.route.id, cause: failure.message }, "model call failed");
  return {
    final: failure.partial === "" ? null : failure.partial,
    stop_reason: "unknown",
    failure: deps.mask.told.text(`model provider failed: ${failure.told}`).slice(0, 200),
    entries: partialEntries(scope, failure.partial, "error"),
    ok: false,
  };
}

/** Somebody stopped the run, or its time was over, while the model had said `partial`. */
export function stopped(scope: RunScope, partial: string): Ending {
  if (scope.abortReason === null) {
    const limit = "max_wall_clock_seconds";
    return limited(scope, { limit, detail: `${limit} (${scope.plan.agent.limits[limit]}) reached` }, partial);
  }
  const interrupted = scope.abortReason === "shutdown";
  const entries = partialEntries(scope, partial, interrupted ? "interrupted" : "aborted");
  return {
    final: partial === "" ? null : partial,
    stop_reason: "unknown",
    failure: null,
    entries: interrupted ? [...entries, interruptedEntry(scope.plan.run_id, "shutdown")] : entries,
    ok: false,
  };
}

/** A limit other than the one on tool calls is in the way: the reply says so, and the denial is audited. */
export function limited(scope: RunScope, breach: Breach, partial: string): Ending {
  const words = `run limit reached: ${breach.limit}`;
  const text = partial === "" ? words : `\n\n${words}`;
  scope.say(text);
  scope.audit("policy_deny", "denied", { control: "limits", reason: breach.detail });
  scope.metrics.count("svc_policy_deny_total", [scope.metrics.label, breach.limit, ""]);
  return {
    final: partial + text,
    stop_reason: "unknown",
    failure: null,
    entries: partialEntries(scope, partial + text, "limited"),
    ok: false,
  };
}

/** Marks a turn that did not end by itself; outside the model's context. */
export function interruptedEntry(runId: string, reason: string): JournalEntry {
  return {
    kind: "audit",
    role: null,
    content: "",
    extra: { metadata: { type: "run_interrupted", run_id: runId, reason } },
  };
}

/** The model's message for the log. */
export function assistantEntry(
  scope: RunScope,
  reply: ModelReply,
  calls: readonly ToolCall[],
  marks: Readonly<Record<string, unknown>> = {},
): JournalEntry {
  const metadata: Record<string, unknown> = { model: scope.route.id, stop_reason: reply.stop_reason, ...marks };
  if (reply.usage !== null) metadata.usage = reply.usage;
  if (reply.reasoning !== "") metadata.thinking = [{ type: "thinking", thinking: reply.reasoning }];
  if (scope.plan.origin !== null) metadata.origin_request = scope.plan.origin;
  return {
    kind: "message",
    role: "assistant",
    content: reply.text,
    extra: calls.length === 0 ? { metadata } : { tool_calls: calls, metadata },
  };
}

/** What was said before something went wrong, with its status. */
function partialEntries(scope: RunScope, text: string, status: string): JournalEntry[] {
  if (text === "") return [];
  scope.remember([contextMessage({ role: "assistant", content: text })]);
  const metadata: Record<string, unknown> = { model: scope.route.id, status };
  if (scope.plan.origin !== null) metadata.origin_request = scope.plan.origin;
  return [{ kind: "message", role: "assistant", content: text, extra: { metadata } }];
}
