import { dashedId } from "../../bus/dashed-id.ts";
import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import { requestMs, type TenantStore, type WriteOp } from "../../storage/store/store.ts";
import {
  decideFeedbackOp,
  insertFeedbackOp,
  pendingFeedback,
  pendingFeedbackMax,
  type SkillFeedbackRow,
  storedFeedback,
} from "../../storage/tables/skill-feedback.ts";
import { countSkillJobOps } from "../../storage/tables/skill-jobs.ts";
import { storedSkill } from "../../storage/tables/skills.ts";
import { writeStored } from "../../storage/tables/stored-bytes.ts";
import { unlessChanged } from "../../storage/tables/unless-changed.ts";
import { auditOp } from "../audit.ts";
import type { SecretMask } from "../secret-mask.ts";
import { limitsOf, type SkillJobLimits } from "./evaluations.ts";
import { jobOwner } from "./job-owner.ts";
import type { Librarian } from "./library.ts";

/** Services of feedback. */
export interface FeedbackDeps {
  readonly env: Env;
  readonly mask: SecretMask;
  readonly settings: SkillJobLimits;
}

/** What its author writes. */
export type WrittenFeedback = Pick<
  SkillFeedbackRow,
  "library" | "name" | "body" | "suggested_patch" | "target_version"
>;

/** Identifies feedback in a library. */
export type FeedbackId = Pick<SkillFeedbackRow, "library" | "id">;

const rowBytes = 512;

/** Stores feedback on a skill. Refuses with not_found and feedback_cap_reached. */
export async function submitFeedback(
  store: TenantStore,
  by: Librarian,
  written: WrittenFeedback,
  deps: FeedbackDeps,
): Promise<SkillFeedbackRow> {
  const { library, name, body, suggested_patch } = written;
  const skill = await storedSkill(store, library, name);
  if (skill === undefined || skill.is_deleted === 1) throw new SvcError("not_found");
  if ((await pendingFeedback(store, written)) >= pendingFeedbackMax) throw new SvcError("feedback_cap_reached");
  const { env, settings } = deps;
  const row: SkillFeedbackRow = {
    ...written,
    ...{ id: dashedId(env), ts: env.now(), source: by.agent === null ? "human" : "agent" },
    ...{ author: by.agent?.manifest ?? by.sub, principal: by.agent === null ? null : by.sub },
    ...{ status: "pending", decided_at: null, decided_by: null, decision_note: null },
    ...{ improve: 0, asked: null, claimed_by: null, claimed_at: null, heartbeat_at: null, attempts: 0, due_at: null },
    ...{ result_version: null, model: null, error: null },
    bytes: rowBytes + Buffer.byteLength(body) + Buffer.byteLength(suggested_patch ?? ""),
  };
  const ops = [insertFeedbackOp(store, row), moveOp(store, "skill_feedback_submitted", by, row, deps)];
  await writeStored(store, { kind: "skills", bytes: row.bytes }, settings.tenantStoredBytes, ops);
  return row;
}

/** Rejects feedback that waits. Refuses with not_found and feedback_conflict. */
export async function rejectFeedback(
  store: TenantStore,
  at: FeedbackId,
  by: Librarian,
  note: string,
  deps: FeedbackDeps,
): Promise<SkillFeedbackRow> {
  const before = await waiting(store, at);
  const row = { ...before, ...decided("rejected", note, by.sub, deps) };
  return decide(store, row, [moveOp(store, "skill_feedback_rejected", by, row, deps)]);
}

/**
 * Accepts feedback that waits; with `improve`, a worker rewrites the skill into a draft. Refuses with not_found, feedback_conflict and
 * skill_jobs_cap_reached.
 */
export async function acceptFeedback(
  store: TenantStore,
  at: FeedbackId,
  principal: Principal,
  { improve, note }: { readonly improve: boolean; readonly note: string | null },
  deps: FeedbackDeps,
): Promise<SkillFeedbackRow> {
  const before = await waiting(store, at);
  const { env, settings } = deps;
  const row = {
    ...{ ...before, ...decided("accepted", note, principal.sub, deps) },
    ...{ improve: improve ? 1 : 0, asked: improve ? jobOwner(principal) : null },
  };
  const by = { sub: principal.sub, owner: "", agent: null };
  return decide(store, row, [
    ...(improve ? countSkillJobOps(store, env.now(), limitsOf(settings)) : []),
    moveOp(store, "skill_feedback_accepted", by, row, deps),
  ]);
}

async function waiting(store: TenantStore, { library, id }: FeedbackId): Promise<SkillFeedbackRow> {
  const row = await storedFeedback(store, id);
  if (row?.library !== library) throw new SvcError("not_found");
  if (row.status !== "pending") throw new SvcError("feedback_conflict");
  return row;
}

function decided<S extends "accepted" | "rejected">(
  status: S,
  note: string | null,
  sub: string,
  { env }: FeedbackDeps,
) {
  return { status, decision_note: note, decided_by: sub, decided_at: env.now() };
}

async function decide(store: TenantStore, row: SkillFeedbackRow, ops: readonly WriteOp[]): Promise<SkillFeedbackRow> {
  if (await unlessChanged(() => store.write([decideFeedbackOp(store, row), ...ops], requestMs))) return row;
  const now = await storedFeedback(store, row.id);
  throw new SvcError(now?.status === "pending" ? "skill_jobs_cap_reached" : "feedback_conflict");
}

/** Returns the record of feedback. */
export function feedbackView(row: SkillFeedbackRow) {
  const {
    ts,
    bytes: _bytes,
    library: _library,
    improve,
    asked: _asked,
    claimed_by: _claim,
    due_at: _due,
    ...shown
  } = row;
  return { ...shown, improve: improve === 1, created_at: ts };
}

/** Returns the audit row of the end of a rewrite. */
export function feedbackEndOp(store: TenantStore, row: SkillFeedbackRow, deps: Pick<FeedbackDeps, "env" | "mask">) {
  const { id, library, name, status, asked, result_version, error } = row;
  return auditOp(store, deps, {
    event_type: status === "applied" ? "skill_feedback_applied" : "skill_feedback_failed",
    ...{ status: status === "applied" ? "ok" : "error", manifest_id: "", principal_subj: asked?.sub ?? "" },
    payload: {
      ...{ skill: name, library: library || "org", feedback_id: id },
      ...(status === "applied" ? { version: result_version } : { error }),
    },
  });
}

function moveOp(
  store: TenantStore,
  event_type: "skill_feedback_submitted" | "skill_feedback_accepted" | "skill_feedback_rejected",
  { sub, agent }: Librarian,
  { id, library, name }: SkillFeedbackRow,
  deps: Pick<FeedbackDeps, "env" | "mask">,
) {
  return auditOp(store, deps, {
    ...{ event_type, status: "ok", manifest_id: agent?.manifest ?? "", principal_subj: sub },
    payload: {
      ...{ skill: name, library: library || "org", feedback_id: id },
      ...(agent !== null && agent.session_id !== null && { thread_id: agent.session_id }),
    },
  });
}
