import { principalId, responsibleId } from "../../bus/protocol/principal.ts";
import type { ApprovalRule } from "../../manifests/sections/approvals.ts";
import { type ApprovalKey, type ApprovalRow, deadlineMark, type NewApproval } from "../../storage/tables/approvals.ts";
import type { GovernedCall, GovernedRun, TaintedText } from "./control.ts";
import { shownArguments } from "./guardrails.ts";
import type { Wait } from "./verdicts.ts";

/** Lifetime of an approval request whose rule has no ttl_seconds. */
const lastsMsDefault = 300_000;

/** The fields of a rule that shape its approval request. */
export type AskingRule = Pick<
  ApprovalRule,
  "id" | "description" | "ttl_seconds" | "one_shot" | "bind_principal" | "require_other"
> & { readonly wait?: boolean };

/** Returns the approval request for a call. */
export async function requestOf(
  run: GovernedRun,
  rule: AskingRule,
  call: GovernedCall,
  key: ApprovalKey,
  tainted: readonly TaintedText[] = [],
): Promise<NewApproval> {
  const { agent, budget, env, metrics } = run;
  const spec = agent.tools.find(({ name }) => name === call.tool);
  const preview = await call.preview(call.args).catch(() => {
    metrics.count("svc_approval_preview_failed_total", { tool: call.tool, rule: rule.id });
    return null;
  });
  const { cost_usd, tool_calls } = budget.spent;
  return {
    ...key,
    id: env.id(),
    args: JSON.stringify(preview === null ? call.args : { ...(call.args as object), preview }),
    parameters: JSON.stringify(spec?.parameters ?? {}),
    evidence: {
      ...{ effect: spec?.effect ?? "once", risk: spec?.risk ?? "speaks", cost_usd, tool_calls },
      ...(tainted.length > 0 && { tainted }),
    },
    rule_id: rule.id,
    reason: rule.description,
    thread_id: run.threadId,
    tool_call_id: run.threadId === "" ? "" : call.tool_call_id,
    principal_subj: call.principal.sub,
    bound_to: rule.bind_principal ? principalId(call.principal) : "",
    not_by: rule.require_other ? responsibleId(call.principal) : "",
    one_shot: rule.one_shot ? 1 : 0,
    ttl_seconds: rule.ttl_seconds,
    lastsMs: rule.ttl_seconds === null ? lastsMsDefault : rule.ttl_seconds * 1000,
  };
}

/** Returns the wait of a call for an approval request. The frame describes this call, even if another call made the request. */
export function waitFor(
  run: GovernedRun,
  rule: AskingRule,
  call: GovernedCall,
  row: Pick<ApprovalRow, "id" | "reason" | "rule_id" | "evidence" | "deadline" | "args" | "ttl_seconds">,
  expires: number | string = row.deadline,
): Wait {
  const { threadId } = run;
  const { id, reason, rule_id, evidence } = row;
  return {
    kind: "approval",
    subject: `${rule_id}: ${call.tool}`,
    deadline: row.deadline,
    may_answer: {
      scopes: ["approvals:write"],
      principal: null,
      not_principal: rule.require_other ? responsibleId(call.principal) : null,
    },
    approval_id: id,
    frame: {
      name: "approval_required",
      data: {
        approval_id: id,
        tool_name: call.tool,
        args: shownArguments(run, JSON.parse(row.args)),
        rule_id,
        reason,
        thread_id: threadId,
        tool_call_id: threadId === "" ? "" : call.tool_call_id,
        expires_at: row.ttl_seconds === null ? null : expires,
        evidence,
      },
    },
  };
}

/** Returns the wait of a call together with the new approval request that commits with it. */
export function askingWait(run: GovernedRun, rule: AskingRule, call: GovernedCall, request: NewApproval): Wait {
  const deadline = Math.ceil(run.env.now() + request.lastsMs);
  return { ...waitFor(run, rule, call, { ...request, deadline }, deadlineMark(request.id)), request };
}
