import type { PermissionMode } from "../../bus/protocol/permission-mode.ts";
import { principalId } from "../../bus/protocol/principal.ts";
import { digestJson } from "../../manifests/canonical-json.ts";
import type { ApprovalRule } from "../../manifests/sections/approvals.ts";
import {
  type ApprovalKey,
  type ApprovalRow,
  claimGrantOp,
  decisionOf,
  liveGrant,
  pendingApproval,
  pendingForAnother,
} from "../../storage/tables/approvals.ts";
import { isExit } from "../auth/permission-modes.ts";
import { askingWait, requestOf, waitFor } from "./approval-request.ts";
import type { Control, GovernedCall, GovernedRun } from "./control.ts";
import { type CallVerdict, pass, type Wait } from "./verdicts.ts";

/** Max lookups of a grant. Another call may claim a one-shot grant between lookup and claim. */
const looksMax = 5;

/** spec.approvals: a call of a gated tool waits for a person, unless a live grant covers an equal call. */
export function approvals(run: GovernedRun): Control | null {
  const { agent } = run;
  if (agent.approvals.size === 0) return null;
  return {
    name: "approvals",
    async before(call) {
      const rule = agent.approvals.get(call.tool);
      if (rule === undefined || !rule.when_args.every((name) => carries(call.args, name))) return pass;
      if (isWaived(run, call.tool, rule)) return waived(run, call.tool, run.mode);
      if (!run.attended && rule.allow_unattended) return waived(run, call.tool, "unattended");
      if (!run.attended && !run.durable) return refused(rule, "unattended");
      try {
        return await gate(run, rule, call);
      } catch (error) {
        // If the request for approval fails, deny the call.
        run.failed(error);
        return refused(rule, "unavailable");
      }
    },
  };
}

/** Lets a call pass without an approval that a rule asks for; records this in audit and metrics. */
function waived(run: GovernedRun, tool: string, why: PermissionMode | "unattended"): CallVerdict {
  run.audit("approval_waived", why, { tool, manifest_id: run.agent.name });
  run.metrics.count("svc_approval_waived_total", { mode: why });
  return pass;
}

/**
 * True if the permission mode lets calls of the tool pass without approval. No mode waives the approval of a plan. Mode
 * accept_edits never waives a rule with `require_other`, because the caller itself may choose the mode.
 */
function isWaived({ mode, agent }: GovernedRun, tool: string, { require_other }: ApprovalRule): boolean {
  if (mode === "bypass") return !isExit(agent, tool);
  return mode === "accept_edits" && agent.permissions.edits.has(tool) && !require_other;
}

async function gate(run: GovernedRun, rule: ApprovalRule, call: GovernedCall): Promise<CallVerdict> {
  const { store, env } = run;
  const asker = principalId(call.principal);
  const { id, bind_principal, one_shot, require_other } = rule;
  const key: ApprovalKey = {
    manifest_id: run.agent.name,
    tool_name: call.tool,
    call_signature: digestJson([signedOf(run, call), id, bind_principal, one_shot, require_other]),
  };
  for (let look = 1; look <= looksMax; look++) {
    const grant = await liveGrant(store, key, asker);
    if (grant === undefined || (rule.require_other && grant.decision?.by === asker)) break;
    if (await taken(run, grant, call)) return granted(grant, rule);
  }
  const pending = await pendingApproval(store, key);
  if (pending === undefined || pending.deadline <= env.now())
    return asks(run, rule, call, askingWait(run, rule, call, await requestOf(run, rule, call, key)));
  if (pending.bound_to !== "" && pending.bound_to !== asker) return refused(rule, pendingForAnother);
  return asks(run, rule, call, waitFor(run, rule, call, pending));
}

function asks(run: GovernedRun, rule: ApprovalRule, call: GovernedCall, wait: Wait): CallVerdict {
  run.metrics.count("svc_approval_required_total", { tool: call.tool, rule: rule.id });
  return { verdict: "wait", rule: rule.id, wait };
}

/**
 * Returns the arguments that identify equal calls. A plan is bound to its thread, or to the single call if there is no thread.
 */
function signedOf(run: GovernedRun, { tool, tool_call_id, args }: GovernedCall): unknown {
  return isExit(run.agent, tool) ? [run.threadId || run.callKey(tool_call_id), args] : args;
}

/** True if the grant covers this call. A one-shot grant covers only the call that claims it first. */
async function taken(run: GovernedRun, { id, one_shot }: ApprovalRow, call: GovernedCall) {
  if (one_shot === 0) return true;
  const { store } = run;
  return store.write([claimGrantOp(store, id, run.callKey(call.tool_call_id))]).then(
    () => true,
    (error) => {
      if (error?.code === "conflict") return false;
      throw error;
    },
  );
}

function granted(grant: ApprovalRow, { id: rule }: ApprovalRule): CallVerdict {
  const edited = decisionOf(grant)?.edited_args ?? null;
  if (edited === null) return { ...pass, grant: grant.id };
  return { verdict: "replace", args: edited, rule, grant: grant.id, byPerson: true };
}

/** True if the argument is present, not null, and not an empty string, list or object. */
function carries(args: unknown, name: string): boolean {
  const value = Object.hasOwn(args as object, name) ? (args as Record<string, unknown>)[name] : undefined;
  if (value === undefined || value === null || value === "") return false;
  return typeof value !== "object" || Object.keys(value).length > 0;
}

function refused({ id }: ApprovalRule, note: string): CallVerdict {
  return { verdict: "deny", rule: id, detail: note };
}
