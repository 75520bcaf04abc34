import { digestJson } from "../../manifests/canonical-json.ts";
import type { NewApproval } from "../../storage/tables/approvals.ts";
import { type AskingRule, requestOf, waitFor } from "./approval-request.ts";
import type { GovernedCall, GovernedRun } from "./control.ts";
import type { Wait } from "./verdicts.ts";

/**
 * Id of the built-in rule that asks a person for the outcome of an interrupted call (decision 91: a `once` call is never
 * repeated without a person's approval). A manifest's rule of the same name is independent.
 */
const outcomeUnknown = "outcome-unknown";

const ttlSeconds = 7 * 86_400;
const reason =
  "The process has ended while this call was being made, and nobody knows whether it has run. Approved, it is run again with the same " +
  "key. Denied, the model is told that the outcome is unknown, or reads the result that comes with the decision.";

/** The request and its wait. Both commit together, so that no request exists without a waiting call. */
export interface AskedOutcome {
  readonly request: Omit<NewApproval, "lastsMs"> & { readonly deadline: number };
  readonly wait: Wait;
}

/** Asks for the outcome of an interrupted call. The request belongs to this call alone and grants no other. */
export async function askOutcome(run: GovernedRun, call: GovernedCall): Promise<AskedOutcome> {
  const { agent, env, metrics } = run;
  const rule: AskingRule = {
    id: outcomeUnknown,
    description: reason,
    ttl_seconds: ttlSeconds,
    one_shot: true,
    bind_principal: false,
    // A principal who may not approve the call may not approve its repetition.
    require_other: agent.approvals.get(call.tool)?.require_other ?? false,
  };
  const key = { manifest_id: agent.name, tool_name: call.tool, call_signature: "" };
  const { lastsMs, ...asked } = await requestOf(run, rule, call, key);
  const request = {
    ...asked,
    // Each interruption of a call is a separate question, so the signature is unique.
    call_signature: digestJson([asked.id, run.callKey(call.tool_call_id)]),
    evidence: { ...asked.evidence, outcome: "unknown" },
    deadline: env.now() + lastsMs,
  } as const;
  metrics.count("svc_approval_required_total", { tool: call.tool, rule: outcomeUnknown });
  return { request, wait: waitFor(run, rule, call, request) };
}
