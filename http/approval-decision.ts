import { runAddress, workflowAddress } from "../bus/address.ts";
import { SvcError } from "../bus/errors.ts";
import { type Principal, responsibleId } from "../bus/protocol/principal.ts";
import { argumentsProblem } from "../governance/arguments-problem.ts";
import { auditOp } from "../governance/audit.ts";
import { requestMs, type TenantStore } from "../storage/store/store.ts";
import {
  type ApprovalRow,
  approvalById,
  type Decision,
  decideOps,
  lapseApprovals,
} from "../storage/tables/approvals.ts";
import { waitsOfApproval } from "../storage/tables/waits.ts";
import { wakeStepOps } from "../storage/tables/workflow-runs.ts";
import type { HttpContext } from "./context.ts";
import { reportNews } from "./news/report-news.ts";

// A decision about an approval request, for every route that takes one.

/** Max characters of a decider's result in the audit log. */
const auditedCharsMax = 2000;

/**
 * Decides a request. The caller has checked that the principal may do so. Wakes the runs that wait for it. Returns the request
 * as it is then. Refuses with not_found, approval_not_pending, approval_expired, same_principal and invalid_edited_args.
 */
export async function decideApproval(
  id: string,
  said: Decision,
  principal: Principal,
  context: HttpContext,
): Promise<ApprovalRow> {
  const { store, env, bus } = context;
  const tenant = store.tenant(principal.tenant_id);
  const row = await currentApproval(tenant, id, env.now());
  refuseDecided(row);
  refuseUnfit(row, said);
  await refuseAsker(tenant, row, principal);
  const parameters = JSON.parse(row.parameters) as Parameters;
  const decision = { ...said, edited_args: said.edited_args && ownArguments(said.edited_args, parameters) };
  const { edited_args } = decision;
  const problem = edited_args === null ? null : await argumentsProblem({ parameters }, edited_args, env);
  if (problem !== null) throw new SvcError("invalid_edited_args", { detail: problem });
  const asked = stepThatAsks(row);
  try {
    const ops = [
      ...decideOps(tenant, row.id, decision, responsibleId(principal)),
      ...(asked === null ? [] : wakeStepOps(tenant, asked.run_id, asked.step_id)),
    ];
    await tenant.write([...ops, decidedOp(tenant, context, row, decision, principal)], requestMs);
  } catch (error) {
    if (!(error instanceof SvcError) || error.code !== "conflict") throw error;
    await lapseApprovals(tenant);
    const now = await approvalById(tenant, row.id);
    if (now) refuseDecided(now);
    throw error;
  }
  // The rows hold the decision; these messages make the waiting runs read it.
  for (const { suffix, run_id } of await waitsOfApproval(tenant, row.id))
    bus.tell(runAddress(principal.tenant_id, suffix === "" ? null : suffix, run_id), "resume", { due: false });
  if (asked !== null)
    bus.tell(workflowAddress(principal.tenant_id, asked.run_id), "ended", { step_id: asked.step_id, item: -1 });
  reportNews(bus, principal.tenant_id, {
    kind: "approval",
    approval_id: row.id,
    thread_id: row.thread_id,
    status: decision.decision,
  });
  return (await approvalById(tenant, row.id)) ?? row;
}

/** Returns the request, marked as expired after its deadline. Refuses with not_found. */
export async function currentApproval(store: TenantStore, id: string, now: number): Promise<ApprovalRow> {
  let row = await approvalById(store, id);
  if (row?.status === "pending" && row.deadline <= now) {
    await lapseApprovals(store);
    row = await approvalById(store, id);
  }
  if (row === undefined) throw new SvcError("not_found");
  return row;
}

/** Returns the refusal of a field of a decision. */
export function invalidDecision(field: string, msg: string, type = "conflict"): SvcError {
  return new SvcError("invalid_request", { detail: [{ loc: ["body", field], msg, type }] });
}

type Parameters = Readonly<Record<string, unknown>> & { readonly properties?: object };

/** Returns the arguments without `preview`, which the server added for display, unless the tool has a parameter of this name. */
function ownArguments(edited: Readonly<Record<string, unknown>>, { properties = {} }: Parameters) {
  const { preview: _preview, ...args } = edited;
  return Object.hasOwn(properties, "preview") ? edited : args;
}

/** Refuses with invalid_request a result for a call that has not run, and edited arguments for a call that may have run. */
function refuseUnfit({ evidence }: ApprovalRow, { edited_args, result }: Decision): void {
  if (evidence.outcome === undefined && result !== undefined)
    throw invalidDecision("result", "result is only for a call with an unknown outcome");
  if (evidence.outcome !== undefined && edited_args !== null)
    throw invalidDecision("edited_args", "a call with an unknown outcome cannot have edited_args");
}

function refuseDecided({ status }: ApprovalRow): void {
  if (status === "expired") throw new SvcError("approval_expired", { detail: { current: status } });
  if (status !== "pending") throw new SvcError("approval_not_pending", { detail: { current: status } });
}

/** Refuses with same_principal if the rule requires another principal and the decider started one of the waiting calls. */
async function refuseAsker(store: TenantStore, { id, not_by }: ApprovalRow, principal: Principal): Promise<void> {
  const me = responsibleId(principal);
  if (not_by === me) throw new SvcError("same_principal");
  const waits = await waitsOfApproval(store, id);
  if (waits.some(({ may_answer }) => may_answer.not_principal === me)) throw new SvcError("same_principal");
}

function decidedOp(
  store: TenantStore,
  context: HttpContext,
  row: ApprovalRow,
  { decision, note, edited_args, result }: Decision,
  principal: Principal,
) {
  const { id: approval_id, tool_name: tool, rule_id, thread_id, tool_call_id, manifest_id } = row;
  const edited = edited_args === null ? {} : { edited_args };
  const told = result === undefined ? {} : { result: result.slice(0, auditedCharsMax) };
  const payload = { approval_id, tool, rule_id, thread_id, tool_call_id, decision, note, ...edited, ...told };
  const status = decision === "approved" ? "ok" : "denied";
  const principal_subj = principal.sub;
  return auditOp(store, context, { event_type: "approval_decided", status, manifest_id, principal_subj, payload });
}

/** Returns the step of a workflow that waits for a request; null for the request of a call. Only steps have no manifest. */
function stepThatAsks({ manifest_id, tool_name, tool_call_id }: ApprovalRow): WorkflowStep | null {
  const [run_id, step_id] = tool_call_id.split(":");
  const isStep = manifest_id === "" && tool_name === "workflow" && run_id !== undefined && step_id !== undefined;
  return isStep ? { run_id, step_id } : null;
}

interface WorkflowStep {
  readonly run_id: string;
  readonly step_id: string;
}
