import type { PermissionMode } from "../../bus/protocol/permission-mode.ts";
import { principalId } from "../../bus/protocol/principal.ts";
import { digestJson } from "../../manifests/canonical-json.ts";
import { matchGlob } from "../../manifests/glob.ts";
import type { ApprovalRule } from "../../manifests/sections/approvals.ts";
import {
  type ApprovalKey,
  type ApprovalRow,
  claimGrantOp,
  decisionOf,
  liveGrant,
  pendingApproval,
  pendingForAnother,
  requestOps,
} from "../../storage/tables/approvals.ts";
import { isExit } from "../auth/permission-modes.ts";
import { type AskingRule, askingWait, requestOf, waitFor } from "./approval-request.ts";
import type { Control, GovernedCall, GovernedRun } from "./control.ts";
import { type CallVerdict, pass, type Wait } from "./verdicts.ts";

/** Max lookups of a grant. Another call may claim a one-shot grant between lookup and claim. */
const looksMax = 5;

/** spec.approvals: a call of a gated tool waits for a person, unless a live grant covers an equal call. */
export function approvals(run: GovernedRun): Control | null {
  const { agent } = run;
  if (agent.approvals.size + agent.conditionalApprovals.size === 0) return null;
  return {
    name: "approvals",
    async before(call) {
      const plain = agent.approvals.get(call.tool);
      const isPlain = plain?.when_args.every((name) => carries(call.args, name)) === true;
      const conditional = conditionalRule(run, call);
      if (conditional !== null) return askBecause(run, conditional, isPlain ? plain : null, call);
      if (!isPlain) return pass;
      const rule = plain;
      if (isWaived(run, call.tool, rule)) return waived(run, call.tool, run.mode);
      if (!run.attended && rule.allow_unattended) return waived(run, call.tool, "unattended");
      if (!run.attended && !run.durable && rule.wait) return refused(rule, "unattended");
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

/** A conditional rule that asks about a call, and the sources that it matches. */
interface Asking {
  readonly rule: ApprovalRule;
  readonly sources: readonly string[];
}

/** Returns the conditional rule that asks about a call; null for none (decision 182). */
function conditionalRule({ agent }: GovernedRun, { tool, args, taint }: GovernedCall): Asking | null {
  for (const rule of agent.conditionalApprovals.get(tool) ?? []) {
    if (!rule.when_args.every((name) => carries(args, name))) continue;
    const { when_tainted } = rule;
    if (when_tainted.length === 0) return { rule, sources: [] };
    const sources = taint.filter((source) => when_tainted.some((glob) => matchGlob(glob, source)));
    if (sources.length > 0) return { rule, sources };
  }
  return null;
}

/**
 * Makes a call wait because of a conditional rule. An approval holds for one call of the same caller on the same thread. Mode bypass
 * alone waives it. `plain` is the plain rule that asks about the call too; null for none.
 */
async function askBecause(
  run: GovernedRun,
  { rule, sources }: Asking,
  plain: ApprovalRule | null,
  call: GovernedCall,
): Promise<CallVerdict> {
  const refusal = (detail: string): CallVerdict => ({ ...refused(rule, detail), layer: "taint" }) as CallVerdict;
  if (run.mode === "bypass") return waived(run, call.tool, run.mode, sources);
  if (!run.attended && !run.durable) return refusal("unattended");
  const require_other = rule.require_other || plain?.require_other === true;
  const strict = { ...rule, one_shot: true, bind_principal: true, require_other };
  try {
    return await gate(run, strict, call, sources);
  } catch (error) {
    run.failed(error);
    return refusal("unavailable");
  }
}

/** Lets a call pass without an approval that a rule asks for; records this in audit and metrics. */
function waived(
  run: GovernedRun,
  tool: string,
  why: PermissionMode | "unattended",
  taint: readonly string[] | null = null,
): CallVerdict {
  run.audit("approval_waived", why, { tool, manifest_id: run.agent.name, ...(taint !== null && { taint }) });
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

/**
 * Lets a call pass with a live grant of the rule, or makes it wait for one. `sources` are those that a conditional rule
 * matches; null for any other rule.
 */
export async function gate(
  run: GovernedRun,
  rule: AskingRule,
  call: GovernedCall,
  sources: readonly string[] | null = null,
): Promise<CallVerdict> {
  const { store, env } = run;
  const asker = principalId(call.principal);
  const { id, bind_principal, one_shot, require_other } = rule;
  const key: ApprovalKey = {
    manifest_id: run.agent.name,
    tool_name: call.tool,
    call_signature: digestJson([
      ...[signedOf(run, call, sources !== null), id, bind_principal, one_shot, require_other],
    ]),
  };
  for (let look = 1; look <= looksMax; look++) {
    const grant = await liveGrant(store, key, asker);
    if (grant === undefined || (rule.require_other && grant.decision?.by === asker)) break;
    if (await taken(run, grant, call)) return granted(grant, rule);
  }
  const pending = await pendingApproval(store, key);
  const isOpen = pending !== undefined && pending.deadline > env.now();
  if (isOpen && pending.bound_to !== "" && pending.bound_to !== asker) return refused(rule, pendingForAnother);
  if (rule.wait === false) return asksWithoutWait(run, rule, call, key, isOpen ? pending : null);
  if (!isOpen)
    return asks(
      run,
      rule,
      call,
      askingWait(run, rule, call, await requestOf(run, rule, call, key, sources === null ? [] : run.tainted(sources))),
    );
  return asks(run, rule, call, waitFor(run, rule, call, pending));
}

/** Writes the request, unless an equal one is pending, and denies the call. The same call passes after the approval. */
async function asksWithoutWait(
  run: GovernedRun,
  rule: AskingRule,
  call: GovernedCall,
  key: ApprovalKey,
  pending: ApprovalRow | null,
): Promise<CallVerdict> {
  const { store, metrics } = run;
  metrics.count("svc_approval_required_total", { tool: call.tool, rule: rule.id });
  if (pending === null) await store.write(requestOps(store, await requestOf(run, rule, call, key)));
  const row = pending ?? (await pendingApproval(store, key));
  const { frame } = row === undefined ? { frame: null } : waitFor(run, rule, call, row);
  return { ...refused(rule, "required"), ...(frame !== null && { frame }) } as CallVerdict;
}

function asks(run: GovernedRun, rule: AskingRule, call: GovernedCall, wait: Wait): CallVerdict {
  run.metrics.count("svc_approval_required_total", { tool: call.tool, rule: rule.id });
  return { verdict: "wait", rule: rule.id, wait };
}

/**
 * Returns the arguments that identify equal calls. A plan and a call under a conditional rule (`isBound`) are bound to their
 * thread, or to the single call if there is no thread.
 */
function signedOf(run: GovernedRun, { tool, tool_call_id, args }: GovernedCall, isBound: boolean): unknown {
  return isBound || isExit(run.agent, tool) ? [run.threadId || run.callKey(tool_call_id), args] : args;
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

function granted(grant: ApprovalRow, { id: rule }: AskingRule): CallVerdict {
  const edited = decisionOf(grant)?.edited_args ?? null;
  if (edited === null) return { ...pass, grant: grant.id };
  return { verdict: "replace", args: edited, rule, grant: grant.id, byPerson: true };
}

/** True if the argument is present, not null, and not an empty string, list or object. */
export function carries(args: unknown, name: string): boolean {
  const value = Object.hasOwn(args as object, name) ? (args as Record<string, unknown>)[name] : undefined;
  if (value === undefined || value === null || value === "") return false;
  return typeof value !== "object" || Object.keys(value).length > 0;
}

function refused({ id }: Pick<AskingRule, "id">, note: string): CallVerdict {
  return { verdict: "deny", rule: id, detail: note };
}
