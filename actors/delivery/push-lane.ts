import { refreshAccess } from "../../governance/auth/fresh-access.ts";
import { withHeldScopes } from "../../governance/auth/held-scopes.ts";
import { isRevoked } from "../../governance/auth/revoked.ts";
import { hasScopes } from "../../governance/auth/scopes.ts";
import { egressFailure } from "../../governance/egress/failure.ts";
import { retryAfterMs } from "../../governance/egress/retry-after.ts";
import { sendsPush } from "../../governance/push/configured.ts";
import { encryptPush } from "../../governance/push/message.ts";
import { approvalById } from "../../storage/tables/approvals.ts";
import type { PushDelivery } from "../../storage/tables/push-outbox.ts";
import {
  notePushFailedOps,
  notePushSentOp,
  type PushSubscriptionRow,
  pushSubscriptionById,
  unsubscribePushOp,
} from "../../storage/tables/push-subscriptions.ts";
import { waitById } from "../../storage/tables/waits.ts";
import { type AttemptFailure, failed } from "./attempt.ts";
import type { Attempted, Lane, LaneContext } from "./lane.ts";

/** Lifetime of the subscription of a caller with a JWT, because no setting lists such callers. */
const jwtMs = 30 * 86_400_000;
/** Max bytes read of an answer, whose status alone counts. */
const answerBytesMax = 16 * 1024;

const cures: Readonly<Record<string, string>> = {
  "status 401": "The push service refuses the VAPID key: check SVC_PUSH_VAPID_PRIVATE_KEY and SVC_PUSH_VAPID_SUBJECT.",
  "status 403":
    "The push service refuses the VAPID key: browsers that subscribed with another key must subscribe again.",
};

/** Returns the lane of a push service; null if push is not configured. */
export function pushLane(context: LaneContext): Lane | null {
  const { settings } = context.deps;
  if (!sendsPush(settings)) return null;
  return {
    label: "push",
    noun: "push",
    timeoutMs: settings.pushTimeoutSeconds * 1000,
    cures,
    attempt: ({ body }) => push(context, JSON.parse(body) as PushDelivery),
  };
}

const over: Attempted = { failure: null };

async function push(context: LaneContext, delivery: PushDelivery): Promise<Attempted> {
  const { store, env } = context;
  const subscription = await pushSubscriptionById(store, delivery.subscription);
  if (subscription === undefined || !(await isAwaited(context, delivery))) return over;
  if (!(await mayReadNow(context, subscription)))
    return { failure: null, ops: [unsubscribePushOp(store, subscription.id)] };
  const ttlSeconds = Math.floor((delivery.deadline - env.now()) / 1000);
  if (ttlSeconds <= 0) return over;
  const failure = await send(context, subscription, delivery, ttlSeconds);
  if (failure === null) return { failure, ops: [notePushSentOp(store, subscription.id)] };
  const isGone = failure.reason === "status 404" || failure.reason === "status 410";
  if (isGone) return { failure, isFinal: true, ops: [unsubscribePushOp(store, subscription.id)] };
  // The same message is too large each time.
  const isFinal = failure.reason === "status 413";
  // A service that is busy says nothing about the subscription.
  return { failure, isFinal, ops: failure.reason === "status 429" ? [] : notePushFailedOps(store, subscription.id) };
}

async function send(
  { store, env, deps }: LaneContext,
  { endpoint, p256dh, auth }: PushSubscriptionRow,
  { payload }: PushDelivery,
  ttlSeconds: number,
): Promise<AttemptFailure | null> {
  const { pushVapidPrivateKey: key, pushVapidSubject: subject, pushAllowedHosts, pushTimeoutSeconds } = deps.settings;
  if (key === null) return failed("not configured");
  try {
    const message = await encryptPush({ endpoint, keys: { p256dh, auth } }, payload, { key, subject, ttlSeconds });
    const rules = {
      tenantId: store.tenantId,
      policy: "public",
      allowHosts: [pushAllowedHosts],
      credentials: [],
    } as const;
    const request = { url: endpoint, method: "POST", ...message, timeoutMs: pushTimeoutSeconds * 1000, follows: false };
    const { status, headers } = await deps.outgoing.whole({ ...rules, onEvent: () => {} }, request, answerBytesMax);
    if (status >= 200 && status < 300) return null;
    const head = { header: (name: string) => headers[name] };
    return { reason: `status ${status}`, retryAfterMs: retryAfterMs(head, env.now()) };
  } catch (error) {
    return failed(egressFailure(error));
  }
}

/** True if the request or the question of a notification still waits for a person. */
async function isAwaited({ store }: LaneContext, { approval_id, wait_id }: PushDelivery): Promise<boolean> {
  if (approval_id !== null) return (await approvalById(store, approval_id))?.status === "pending";
  return wait_id !== null && (await waitById(store, wait_id))?.state === "open";
}

/** True if the owner of a subscription may read approval requests at this time. */
async function mayReadNow(
  { store, env, deps }: LaneContext,
  { principal, seen_at }: PushSubscriptionRow,
): Promise<boolean> {
  const subscriber = { ...principal, tenant_id: store.tenantId };
  await refreshAccess(subscriber, deps, env.now());
  if (subscriber.scheme === "jwt" && env.now() - seen_at > jwtMs) return false;
  if (isRevoked(subscriber, deps, env.now())) return false;
  return hasScopes(withHeldScopes(subscriber, deps, env.now()), ["approvals:read"]);
}
