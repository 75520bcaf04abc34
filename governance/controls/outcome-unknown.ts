import { digestJson } from "../../manifests/canonical-json.ts";
import type { NewApproval } from "../../storage/tables/approvals.ts";
import { type AskingRule, requestOf, waitFor } from "./approval-request.ts";
import type { GovernedCall, GovernedRun } from "./control.ts";
import type { Wait } from "./verdicts.ts";

/** The rule by which a person is asked what came of a call (decision 91). A manifest may have one of this name: it asks something else. */
const outcomeUnknown = "outcome-unknown";

const ttlSeconds = 7 * 86_400;
const reason =
  "The process has ended while this call was being made, and nobody knows whether it has run. Approved, it is run again with the same " +
  "key. Denied, the model is told that the outcome is unknown, or reads the result that comes with the decision.";

/** The request, which is to be written when the wait is opened: so it is never there without a call that waits for it. */
export interface AskedOutcome {
  readonly request: Omit<NewApproval, "lastsMs"> & { readonly deadline: number };
  readonly wait: Wait;
}

/** Asks what came of a call. No other call shares the request, and it lets none pass. */
export async function askOutcome(run: GovernedRun, call: GovernedCall): Promise<AskedOutcome> {
  const { agent, env, metrics } = run;
  const rule: AskingRule = {
    id: outcomeUnknown,
    description: reason,
    ttl_seconds: ttlSeconds,
    one_shot: true,
    bind_principal: false,
    // Who may not let the call pass may not let it pass a second time.
    require_other: agent.approvals.get(call.tool)?.require_other ?? false,
  };
  const key = { manifest_id: agent.name, tool_name: call.tool, call_signature: "" };
  const { lastsMs, ...asked } = await requestOf(run, rule, call, key);
  const request = {
    ...asked,
    // Each time that a call is cut off is a question of its own.
    call_signature: digestJson([asked.id, run.callKey(call.tool_call_id)]),
    evidence: { ...asked.evidence, outcome: "unknown" },
    deadline: env.now() + lastsMs,
  } as const;
  metrics.count("svc_approval_required_total", { tool: call.tool, rule: outcomeUnknown });
  return { request, wait: waitFor(run, rule, call, request) };
}
