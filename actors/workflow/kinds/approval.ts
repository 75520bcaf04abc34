import { createHash } from "node:crypto";
import { tellNews } from "../../../bus/protocol/news.ts";
import { responsibleId } from "../../../bus/protocol/principal.ts";
import { Type } from "../../../bus/type.ts";
import {
  approvalById,
  askApprovalOp,
  closeApprovalOps,
  decisionOf,
  lapseApprovals,
} from "../../../storage/tables/approvals.ts";
import type { StepKind, Unit } from "../step-kind.ts";

const ttlDefault = 300;
const ttlMax = 7 * 86_400;
/** Max characters of the message, and of a tainted value in it that deciders are shown. */
const messageMax = 16_384;
const shownMax = 200;

/** Asks a person. The request is bound to the step: no call shares it, and it grants nothing (decision 261). */
export const approval: StepKind = {
  kind: "approval",
  source: "builtin",
  description: "Asks a person for a decision, in /approvals. Denied and too late are `approved: false`.",
  config: Type.Object(
    {
      message: Type.String({ minLength: 1, maxLength: messageMax, description: "What the person decides about." }),
      ttl_seconds: Type.Optional(
        Type.Integer({ minimum: 1, maximum: ttlMax, description: "Time to decide; 300 by default." }),
      ),
      require_other: Type.Optional(Type.Boolean({ description: "True: the starter of the run may not decide." })),
    },
    { additionalProperties: false },
  ),
  inputs: null,
  outputs: [
    { name: "approved", type: "boolean", required: true },
    { name: "note", type: "text", required: true },
  ],
  forms: { ttl_seconds: "literal", require_other: "literal" },
  begin(unit, { store, env, mask }) {
    const { config, principal, run_id, step_id, workflow_id, taint } = unit;
    const ttl = typeof config.ttl_seconds === "number" ? config.ttl_seconds : ttlDefault;
    const deadline = env.now() + ttl * 1_000;
    const message = mask.sent.text(String(config.message).slice(0, messageMax));
    const id = approvalId(unit);
    const ask = askApprovalOp(store, {
      id,
      manifest_id: "",
      tool_name: "workflow",
      call_signature: createHash("sha256").update(`${run_id}:${step_id}:${unit.attempt}`).digest("hex"),
      args: JSON.stringify({ message, workflow_id, run_id, step_id }),
      parameters: JSON.stringify({ type: "object", properties: {}, additionalProperties: false }),
      evidence: {
        effect: "once",
        risk: "speaks",
        cost_usd: 0,
        tool_calls: 0,
        ...(taint.length > 0 && {
          tainted: taint.map((source) => ({ source, event_id: "", text: message.slice(0, shownMax) })),
        }),
      },
      rule_id: `workflow:${step_id}`,
      reason: message.slice(0, 1_000),
      thread_id: "",
      tool_call_id: `${run_id}:${step_id}`,
      principal_subj: principal.sub,
      bound_to: "",
      not_by: config.require_other === true ? responsibleId(principal) : "",
      one_shot: 1,
      ttl_seconds: ttl,
      deadline,
    });
    return {
      kind: "pending",
      status: "waiting",
      due_at: deadline,
      state: { deadline },
      ops: [ask],
    };
  },
  // Listeners ask for the row, so it is stored before they hear of it.
  async started(unit, { store, bus }) {
    const approval_id = approvalId(unit);
    tellNews(bus, store.tenantId, () => ({ kind: "approval", approval_id, thread_id: "", status: "pending" }));
  },
  async look(unit, { store, env }) {
    const id = approvalId(unit);
    let row = await approvalById(store, id);
    if (row?.status === "pending" && row.deadline <= env.now()) {
      await lapseApprovals(store);
      row = await approvalById(store, id);
    }
    if (row?.status === "pending")
      return { kind: "pending", status: "waiting", due_at: row.deadline, state: unit.state };
    const note = row === undefined ? "deleted" : row.status === "expired" ? "timeout" : (decisionOf(row)?.note ?? "");
    return { kind: "done", output: { approved: row?.status === "approved", note }, taint: [] };
  },
  cancelOps: (unit, { store }) => closeApprovalOps(store, approvalId(unit)),
};

function approvalId({ id }: Unit): string {
  return createHash("sha256").update(`approval ${id}`).digest("hex").slice(0, 32);
}
