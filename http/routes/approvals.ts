import type { ErrorCode } from "../../bus/errors.ts";
import { Type } from "../../bus/type.ts";
import {
  type ApprovalRow,
  approvalPage,
  type Decision,
  decisionOf,
  lapseApprovals,
} from "../../storage/tables/approvals.ts";
import { currentApproval, decideApproval, invalidDecision } from "../approval-decision.ts";
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
      tainted: Type.Optional(
        Type.Array(
          Type.Object({
            source: Type.String({ examples: ["web:news.example"] }),
            event_id: Type.String({ description: "The event with the text; empty without a thread." }),
            text: Type.String({ description: "Its first 200 characters. It is third-party data." }),
          }),
          { description: "The untrusted texts because of which the rule asks." },
        ),
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
    const decided = await decideApproval(params.approval_id, readDecision(body), principal, context);
    return jsonText(approvalText(principal.tenant_id, decided));
  },
});

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
  if (said === undefined) throw invalidDecision("decision", "decision is missing", "missing");
  if (status !== undefined && status !== said) throw invalidDecision("status", "status differs from decision");
  if (result !== null && said === "approved") throw invalidDecision("result", "result needs the decision denied");
  if (result !== null && Buffer.byteLength(result) > resultBytesMax)
    throw invalidDecision("result", `result has more than ${resultBytesMax} bytes`, "string_too_long");
  if (edited_args === null || said === "denied") {
    if (edited_args !== null) throw invalidDecision("edited_args", "edited_args need the decision approved");
    return { decision: said, note, edited_args: null, ...(result !== null && { result }) };
  }
  return { decision: said, note, edited_args: edited_args as Record<string, unknown> };
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
