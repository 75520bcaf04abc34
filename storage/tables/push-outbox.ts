import { tenantSql } from "../store/statements.ts";
import type { TenantStore, WriteOp } from "../store/store.ts";

// The outbox of push notifications: rows of `deliveries`, in two steps. An announcement commits with what it reports. Its sender replaces it
// by one delivery for each browser, whose endpoint id names the host of its push service.

/** The endpoint id of announcements. */
export const announcements = "push:*";

/** What an announcement reports. */
export type Announcement =
  | { readonly kind: "approval"; readonly approval_id: string }
  | { readonly kind: "question"; readonly wait_id: string; readonly thread_id: string; readonly principal: string };

/** The notification of one browser. */
export interface PushDelivery {
  readonly subscription: string;
  /** Null for a question. */
  readonly approval_id: string | null;
  readonly wait_id: string | null;
  /** What the browser decrypts. */
  readonly payload: Readonly<Record<string, unknown>>;
  /** Epoch milliseconds after which nothing is sent. */
  readonly deadline: number;
}

/** Milliseconds for which a question waits for a reader of its stream. */
const questionMs = 10_000;

const announce =
  "(tenant_id, id, endpoint_id, type, body, created_at, state, attempts, due_at, claim, claimed_by, ended_at)";
const hasBrowser = "EXISTS (SELECT 1 FROM push_subscriptions WHERE tenant_id = :tenant)";
const insertApproval = tenantSql(
  "push_announce_approval",
  `INSERT INTO deliveries ${announce}
   SELECT :tenant, ?, '${announcements}', 'push.approval', ?, :now, 'pending', 0, :now, 0, NULL, NULL
   WHERE ${hasBrowser} AND EXISTS (SELECT 1 FROM approvals WHERE tenant_id = :tenant AND id = ?)
   ON CONFLICT DO NOTHING`,
);
const insertQuestion = tenantSql(
  "push_announce_question",
  `INSERT INTO deliveries ${announce}
   SELECT :tenant, ?, '${announcements}', 'push.question', ?, :now, 'pending', 0, :now + ${questionMs}, 0, NULL, NULL
   WHERE ${hasBrowser}
   ON CONFLICT DO NOTHING`,
);

/** Announces an approval request, if the batch has stored it: an equal request that was pending is not announced again. */
export function announceApprovalOp(store: TenantStore, approval_id: string): WriteOp {
  const body: Announcement = { kind: "approval", approval_id };
  return store.op(insertApproval, [`push_${approval_id}`, JSON.stringify(body), approval_id]);
}

/** Announces a question, if it is still open after ten seconds. */
export function announceQuestionOp(store: TenantStore, question: Extract<Announcement, { kind: "question" }>): WriteOp {
  return store.op(insertQuestion, [`push_${question.wait_id}`, JSON.stringify(question)]);
}

/** Returns the endpoint id of the deliveries to one push service. */
export function pushEndpoint(host: string): string {
  return `push:${host}`;
}

/** True if an endpoint id is that of deliveries to a push service. */
export function isPushEndpoint(endpointId: string): boolean {
  return endpointId.startsWith("push:") && endpointId !== announcements;
}
