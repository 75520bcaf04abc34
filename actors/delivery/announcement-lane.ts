import { principalId } from "../../bus/protocol/principal.ts";
import { approvalById } from "../../storage/tables/approvals.ts";
import { type DeliveryRow, outboxOps } from "../../storage/tables/deliveries.ts";
import { type Announcement, type PushDelivery, pushEndpoint } from "../../storage/tables/push-outbox.ts";
import { type PushSubscriptionRow, pushSubscriptionsOf } from "../../storage/tables/push-subscriptions.ts";
import { waitById } from "../../storage/tables/waits.ts";
import type { Attempted, Lane, LaneContext } from "./lane.ts";

/** Longer than the statements of an announcement take. */
const timeoutMs = 10_000;

/** Returns the lane of announcements, which are replaced by one delivery for each browser that should learn of them. */
export function announcementLane(context: LaneContext): Lane {
  return {
    ...{ label: "push", noun: "push", timeoutMs, cures: {} },
    attempt: (row) => fanOut(context, row),
  };
}

async function fanOut({ store, env }: LaneContext, row: DeliveryRow): Promise<Attempted> {
  const told = await lookUp(store, JSON.parse(row.body) as Announcement, env.now());
  if (told === null) return { failure: null };
  const { isFor, ...delivery } = told;
  const found = (await pushSubscriptionsOf(store)).filter(isFor);
  const ops = found.flatMap(({ id, endpoint }) => {
    const body = JSON.stringify({ ...delivery, subscription: id } satisfies PushDelivery);
    const endpoints = [pushEndpoint(new URL(endpoint).hostname)];
    return outboxOps(store, { source: `${row.id}_${id}`, type: row.type, body, endpoints });
  });
  const wakes = [...new Set(found.map(({ endpoint }) => pushEndpoint(new URL(endpoint).hostname)))];
  return { failure: null, ops, wakes };
}

type Told = Omit<PushDelivery, "subscription"> & { readonly isFor: (subscription: PushSubscriptionRow) => boolean };

/** Returns the notification of an announcement and its readers; null if the request or question has ended. */
async function lookUp(store: LaneContext["store"], announced: Announcement, now: number): Promise<Told | null> {
  if (announced.kind === "approval") {
    const { approval_id } = announced;
    const request = await approvalById(store, approval_id);
    if (request?.status !== "pending" || request.deadline <= now) return null;
    const { tool_name, thread_id, ttl_seconds, deadline } = request;
    const expires_at = ttl_seconds === null ? null : deadline;
    const payload = { kind: "approval", approval_id, tool_name, thread_id, expires_at };
    return { approval_id, wait_id: null, payload, deadline, isFor: () => true };
  }
  const { wait_id, thread_id, principal } = announced;
  const wait = await waitById(store, wait_id);
  const deadline = wait?.deadline ?? now + lastsMsDefault;
  if (wait?.state !== "open" || deadline <= now) return null;
  const isFor = (subscription: PushSubscriptionRow) => principalId(subscription.principal) === principal;
  return { approval_id: null, wait_id, payload: { kind: "question", thread_id }, deadline, isFor };
}

/** Lifetime of the notification of a question without a deadline. */
const lastsMsDefault = 300_000;
