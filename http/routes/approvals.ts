import { runAddress } from "../../bus/address.ts";
import { type ErrorCode, SvcError } from "../../bus/errors.ts";
import { type Principal, principalId } from "../../bus/protocol/principal.ts";
import { Type } from "../../bus/type.ts";
import { argumentsProblem } from "../../governance/arguments-problem.ts";
import { auditOp } from "../../governance/audit.ts";
import { requestMs, type TenantStore } from "../../storage/store/store.ts";
import {
  type ApprovalRow,
  approvalById,
  approvalPage,
  type Decision,
  decideOps,
  decisionOf,
  lapseApprovals,
} from "../../storage/tables/approvals.ts";
import { waitsOfApproval } from "../../storage/tables/waits.ts";
import type { HttpContext } from "../context.ts";
import { jsonText } from "../exchange/reply.ts";
import { route } from "../route.ts";
import { EpochMs, nullable, OpenObject } from "../schemas/common.ts";
import { callIdExample, digestExample, noon } from "../schemas/example-values.ts";
import type { Tag } from "../tags.ts";
import { threadFilter } from "../thread-id.ts";

const tag: Tag = { name: "Approvals", description: "Tool calls that wait for an approval." };
const readScopes = ["approvals:read"];
const writeScopes = ["approvals:write"];
const statuses = ["pending", "approved", "denied", "expired"] as const;
const noteMax = 2048;
/** Max UTF-8 bytes of a result that a decider enters. */
const resultBytesMax = 64 * 1024;
/** Max characters of that result in the audit log. */
const auditedCharsMax = 2000;

const Status = Type.Union(statuses.map((status) => Type.Literal(status)));

const Approval = Type.Object({
  approval_id: Type.String({ examples: ["5d41402abc4b2a76b9719d911017c592"] }),
  id: Type.String({ description: "The same as approval_id.", examples: ["5d41402abc4b2a76b9719d911017c592"] }),
  tenant_id: Type.String({ examples: ["default"] }),
  manifest_id: Type.String({ examples: ["quick"] }),
  tool_name: Type.String({ examples: ["calculator"] }),
  call_signature: Type.String({
    description: "SHA-256 of the arguments and the rule; equal calls share a request.",
    examples: [digestExample],
  }),
  args: Type.Object(
    {},
    {
      additionalProperties: true,
      description: "With `preview`, a diff, if the tool has one.",
      examples: [{ expression: "6 * 7" }],
    },
  ),
  evidence: Type.Object(
    {
      effect: Type.String({ examples: ["once"] }),
      risk: Type.String({ examples: ["reads"] }),
      cost_usd: Type.Number(),
      tool_calls: Type.Integer(),
      outcome: Type.Optional(
        Type.Literal("unknown", { description: "The call may have run already: the question is its result." }),
      ),
    },
    { description: "The tool's risk and effect, and the usage of the run at the time of the request." },
  ),
  rule_id: Type.String({ examples: ["look-first"] }),
  reason: Type.String({
    description: "The reason in the rule.",
    examples: ["Calculations of this tenant are looked at first."],
  }),
  status: Status,
  principal_subj: Type.String({ description: "The principal of the run.", examples: ["ann"] }),
  thread_id: Type.String({
    description: "`{tenant}:{suffix}`, empty for a stateless turn.",
    examples: ["default:tour"],
  }),
  tool_call_id: Type.String({ examples: [callIdExample] }),
  created_at: EpochMs,
  ttl_seconds: nullable(Type.Number({ examples: [300] })),
  expires_at: nullable(EpochMs, { examples: [noon + 300_000] }),
  decided_at: nullable(EpochMs),
  decided_by: Type.String({ examples: ["ben"] }),
  decision_note: Type.String({ examples: ["Go ahead."] }),
  edited_args: nullable(OpenObject, { examples: [null] }),
  result: Type.Optional(Type.String({ description: "The result of the call, as the decider gave it." })),
  consumed_at: nullable(EpochMs, { examples: [null] }),
});

const ApprovalParams = Type.Object({
  approval_id: Type.String({ description: "Of the request.", examples: ["5d41402abc4b2a76b9719d911017c592"] }),
});

const listApprovals = route({
  method: "GET",
  path: "/approvals",
  summary: "Approval requests, the newest first.",
  tag,
  access: readScopes,
  tenancy: [{ of: "thread", query: (id) => `thread_id=${id}` }],
  query: Type.Object({
    status: Type.Union(
      statuses.map((status) => Type.Literal(status)),
      { default: "pending", description: "Only requests of this status." },
    ),
    limit: Type.Integer({ minimum: 1, maximum: 200, default: 50, description: "Requests per page." }),
    cursor: Type.Optional(Type.String({ description: "`next_cursor` of the previous page." })),
    thread_id: Type.Optional(
      Type.String({ description: "Only of this thread: its suffix, or its full id; empty for stateless turns." }),
    ),
  }),
  reply: {
    description:
      "`items` and `requests` are the same list. A page may be shorter than `limit`; next_cursor is set if there are more.",
    schema: Type.Object({
      items: Type.Array(Approval),
      requests: Type.Array(Approval),
      next_cursor: nullable(Type.String(), { examples: [null] }),
    }),
  },
  fails: ["invalid_cursor", "invalid_thread_id", "storage_unavailable"],
  async handle({ query, principal }, { store, env }) {
    const { tenant_id } = principal;
    const { status, cursor = null, limit } = query;
    const tenant = store.tenant(tenant_id);
    const suffix = query.thread_id === "" ? null : threadFilter(query.thread_id, tenant_id);
    const filter = {
      status,
      ...(query.thread_id !== undefined && { thread_id: suffix === null ? "" : `${tenant_id}:${suffix}` }),
    };
    let page = await approvalPage(tenant, filter, cursor, limit);
    if (page.rows.some((row) => row.status === "pending" && row.deadline <= env.now())) {
      await lapseApprovals(tenant);
      page = await approvalPage(tenant, filter, cursor, limit);
    }
    const items = `[${page.rows.map((row) => approvalText(tenant_id, row)).join(",")}]`;
    return jsonText(`{"items":${items},"requests":${items},"next_cursor":${JSON.stringify(page.next_cursor)}}`);
  },
});

const getApproval = route({
  method: "GET",
  path: "/approvals/{approval_id}",
  summary: "One request for approval.",
  tag,
  access: readScopes,
  params: ApprovalParams,
  reply: { description: "The request.", schema: Approval },
  fails: ["not_found", "storage_unavailable"],
  async handle({ params, principal }, { store, env }) {
    const tenant = store.tenant(principal.tenant_id);
    return jsonText(approvalText(principal.tenant_id, await currentApproval(tenant, params.approval_id, env.now())));
  },
});

const decideFails: readonly ErrorCode[] = [
  "not_found",
  "approval_not_pending",
  "approval_expired",
  "same_principal",
  "invalid_edited_args",
  "storage_unavailable",
];

const decide = route({
  method: "POST",
  path: "/approvals/{approval_id}/decide",
  summary: "Approves or denies a call and all equal ones that wait; or gives the result of an interrupted call.",
  tag,
  access: writeScopes,
  params: ApprovalParams,
  body: Type.Object(
    {
      decision: Type.Optional(
        Type.Union([Type.Literal("approved"), Type.Literal("denied")], { examples: ["approved"] }),
      ),
      status: Type.Optional(
        Type.Union([Type.Literal("approved"), Type.Literal("denied")], { description: "The same as decision." }),
      ),
      note: Type.String({ default: "", maxLength: noteMax, description: "For the model, if the call is denied." }),
      edited_args: Type.Optional(
        nullable(
          Type.Object(
            {},
            {
              additionalProperties: true,
              description:
                "Arguments that replace those of the call, and of all equal calls until the approval expires.",
            },
          ),
        ),
      ),
      result: Type.Optional(
        nullable(
          Type.String({
            maxLength: resultBytesMax,
            description:
              `The result of a call with an unknown outcome, for the model; only with denied, at most ${resultBytesMax} bytes. ` +
              "Other requests refuse it.",
          }),
        ),
      ),
    },
    { additionalProperties: false },
  ),
  reply: { description: "The request as it is now.", schema: Approval },
  fails: decideFails,
  async handle({ params, body, principal }, context) {
    const { store, env, bus } = context;
    const tenant = store.tenant(principal.tenant_id);
    const said = readDecision(body);
    const row = await currentApproval(tenant, params.approval_id, env.now());
    refuseDecided(row);
    refuseUnfit(row, said);
    await refuseAsker(tenant, row, principal);
    const parameters = JSON.parse(row.parameters) as Parameters;
    const decision = { ...said, edited_args: said.edited_args && ownArguments(said.edited_args, parameters) };
    const { edited_args } = decision;
    const problem = edited_args === null ? null : await argumentsProblem({ parameters }, edited_args, env);
    if (problem !== null) throw new SvcError("invalid_edited_args", { detail: problem });
    try {
      const ops = decideOps(tenant, row.id, decision, principalId(principal));
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
    const decided = (await approvalById(tenant, row.id)) ?? row;
    return jsonText(approvalText(principal.tenant_id, decided));
  },
});

/** Returns the request, marked as expired after its deadline. Refuses with not_found. */
async function currentApproval(store: TenantStore, id: string, now: number): Promise<ApprovalRow> {
  let row = await approvalById(store, id);
  if (row?.status === "pending" && row.deadline <= now) {
    await lapseApprovals(store);
    row = await approvalById(store, id);
  }
  if (row === undefined) throw new SvcError("not_found");
  return row;
}

interface DecideBody {
  readonly decision?: Decision["decision"] | undefined;
  readonly status?: Decision["decision"] | undefined;
  readonly note: string;
  readonly edited_args?: object | null | undefined;
  readonly result?: string | null | undefined;
}

/** Refuses a missing or contradictory decision with invalid_request. */
function readDecision({ decision, status, note, edited_args = null, result = null }: DecideBody): Decision {
  const said = decision ?? status;
  if (said === undefined) throw invalid("decision", "decision is missing", "missing");
  if (status !== undefined && status !== said) throw invalid("status", "status differs from decision");
  if (result !== null && said === "approved") throw invalid("result", "result needs the decision denied");
  if (result !== null && Buffer.byteLength(result) > resultBytesMax)
    throw invalid("result", `result has more than ${resultBytesMax} bytes`, "string_too_long");
  if (edited_args === null || said === "denied") {
    if (edited_args !== null) throw invalid("edited_args", "edited_args need the decision approved");
    return { decision: said, note, edited_args: null, ...(result !== null && { result }) };
  }
  return { decision: said, note, edited_args: edited_args as Record<string, unknown> };
}

type Parameters = Readonly<Record<string, unknown>> & { readonly properties?: object };

/** Returns the arguments without `preview`, which the server added for display, unless the tool has a parameter of this name. */
function ownArguments(edited: Readonly<Record<string, unknown>>, { properties = {} }: Parameters) {
  const { preview: _preview, ...args } = edited;
  return Object.hasOwn(properties, "preview") ? edited : args;
}

function invalid(field: string, msg: string, type = "conflict"): SvcError {
  return new SvcError("invalid_request", { detail: [{ loc: ["body", field], msg, type }] });
}

/** Refuses with invalid_request a result for a call that has not run, and edited arguments for a call that may have run. */
function refuseUnfit({ evidence }: ApprovalRow, { edited_args, result }: Decision): void {
  if (evidence.outcome === undefined && result !== undefined)
    throw invalid("result", "result is only for a call with an unknown outcome");
  if (evidence.outcome !== undefined && edited_args !== null)
    throw invalid("edited_args", "a call with an unknown outcome cannot have edited_args");
}

function refuseDecided({ status }: ApprovalRow): void {
  if (status === "expired") throw new SvcError("approval_expired", { detail: { current: status } });
  if (status !== "pending") throw new SvcError("approval_not_pending", { detail: { current: status } });
}

/** Refuses with same_principal if the rule requires another principal and the decider started one of the waiting calls. */
async function refuseAsker(store: TenantStore, { id, not_by }: ApprovalRow, principal: Principal): Promise<void> {
  const me = principalId(principal);
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

/** Returns the JSON of a request. Its arguments are JSON text already. */
function approvalText(tenant_id: string, row: ApprovalRow): string {
  const { id, ts, ttl_seconds, args, decision, ...rest } = row;
  const said = decisionOf(row);
  const head = {
    approval_id: id,
    id,
    tenant_id,
    manifest_id: rest.manifest_id,
    tool_name: rest.tool_name,
    call_signature: rest.call_signature,
    evidence: rest.evidence,
    rule_id: rest.rule_id,
    reason: rest.reason,
    status: rest.status,
    principal_subj: rest.principal_subj,
    thread_id: rest.thread_id,
    tool_call_id: rest.tool_call_id,
    created_at: ts,
    ttl_seconds,
    expires_at: ttl_seconds === null ? null : rest.deadline,
    decided_at: rest.decided_at,
    decided_by: subjectOf(decision?.by ?? ""),
    decision_note: said?.note ?? "",
    edited_args: said?.edited_args ?? null,
    ...(said?.result !== undefined && { result: said.result }),
    consumed_at: rest.consumed_at,
  };
  return `${JSON.stringify(head).slice(0, -1)},"args":${args}}`;
}

/** Returns the subject of a stored principal id. */
function subjectOf(by: string): string {
  return by.startsWith("[") ? ((JSON.parse(by) as string[])[2] ?? "") : by;
}

export const approvalRoutes = [listApprovals, getApproval, decide];
