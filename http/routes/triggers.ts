import { SvcError } from "../../bus/errors.ts";
import type { TriggerDelivery } from "../../bus/protocol/run.ts";
import { Type } from "../../bus/type.ts";
import { Secrets } from "../../governance/secret-mask.ts";
import type { Trigger } from "../../governance/settings/triggers.ts";
import { requestMs } from "../../storage/store/store.ts";
import { kvCountOp } from "../../storage/tables/kv.ts";
import type { HttpContext } from "../context.ts";
import { json, type Reply } from "../exchange/reply.ts";
import { actorFails, type Route, type RouteRequest, route } from "../route.ts";
import { acceptTurn, admitStart } from "../streams/turns.ts";
import { earlierDelivery, keyOf, rememberDelivery } from "../triggers/deliveries.ts";
import { isRun, promptOf, readEvent, type TriggerEvent } from "../triggers/event.ts";
import { readSigned, type SignedDelivery, signingKey } from "../triggers/signature.ts";
import { hasWorkflow, startWorkflow } from "../triggers/workflow-start.ts";

// Signed requests of other systems that start a durable run. The checks run in this order: trigger, signature, manifest, earlier delivery,
// payload, rate. The sender's data reaches the model only through the tool trigger_event.

const bodyBytesMax = 256 * 1024;
/** Max characters of the payload in the tool's result. */
const payloadCharsMax = 64 * 1024;
/**
 * Max characters of the event's name in the tool's result. In the standard scheme the name is in the body, and may be as long as the body.
 */
const eventCharsMax = 255;
const minuteMs = 60_000;
const tool = "trigger_event";
const replayedHeader = { "idempotent-replayed": "true" };

const Accepted = Type.Object({
  status: Type.Literal("accepted"),
  run_id: Type.String({ description: "The run's token: see GET /chat/runs/{resume_token}." }),
});

const Ignored = Type.Object({ status: Type.Literal("ignored") });

const signatureHeaders = Type.Object({
  "webhook-id": Type.Optional(Type.String({ description: "Standard Webhooks: the delivery." })),
  "webhook-timestamp": Type.Optional(Type.String({ description: "Standard Webhooks: the time of the signature." })),
  "webhook-signature": Type.Optional(Type.String({ description: "Standard Webhooks: `v1,` and base64." })),
  "x-github-event": Type.Optional(Type.String({ description: "GitHub: the event." })),
  "x-github-delivery": Type.Optional(Type.String({ description: "GitHub: the delivery." })),
  "x-hub-signature-256": Type.Optional(Type.String({ description: "GitHub: `sha256=` and hex." })),
});

/** Returns the route of these triggers. */
export function triggerRoutes(triggers: readonly Trigger[]): readonly Route[] {
  const byId = new Map(triggers.map((trigger) => [trigger.id, trigger]));
  // Deliveries in progress on this thread. Between threads the store decides.
  const underWay = new Set<string>();

  const deliver = route({
    method: "POST",
    path: "/triggers/{trigger_id}",
    summary: "Starts a durable run, or a run of a workflow, by a signed request.",
    tag: { name: "Triggers", description: "Signed requests of other systems that start a run." },
    access: "public",
    params: Type.Object({ trigger_id: Type.String({ description: "Of SVC_TRIGGERS.", examples: ["deploys"] }) }),
    headers: signatureHeaders,
    bodyBytesMax,
    reply: { status: 202, description: "The run is stored, by this or an earlier delivery.", schema: Accepted },
    otherReplies: [{ status: 200, description: "An event that the trigger ignores.", schema: Ignored }],
    fails: [
      "invalid_signature",
      "trigger_unavailable",
      "delivery_in_progress",
      "delivery_id_reused",
      "invalid_payload",
      "shutting_down",
      "frozen",
      ...actorFails,
    ],
    async handle(request, context) {
      const trigger = byId.get(request.params.trigger_id);
      if (trigger === undefined) throw new SvcError("invalid_signature");
      const keys = await signingKeys(trigger, context);
      const { headers } = request.exchange.head;
      const signed = readSigned(trigger, keys, headers, request.rawBody, context.env.now());
      if (signed === null) throw new SvcError("invalid_signature");
      await checkManifest(trigger, context);
      const { scope } = keyOf(trigger, signed);
      if (underWay.has(scope)) throw new SvcError("delivery_in_progress");
      underWay.add(scope);
      try {
        return await take(trigger, signed, request, context);
      } finally {
        underWay.delete(scope);
      }
    },
  });
  return [deliver];
}

/** Returns the principal of the runs that a trigger starts. */
function principalOf({ id, tenant_id, scopes }: Trigger) {
  return { tenant_id, sub: `trigger:${id}`, scopes, scheme: "trigger", issuer: "" };
}

/** Returns the usable signing keys. Refuses with trigger_unavailable if there are none. */
async function signingKeys(trigger: Trigger, { settings, mask, log }: HttpContext): Promise<readonly Buffer[]> {
  const secrets = new Secrets(settings, mask);
  const found = await Promise.allSettled(trigger.secrets.map((text) => secrets.resolve(text)));
  const keys = found.flatMap((one) => (one.status === "fulfilled" ? (signingKey(one.value, trigger) ?? []) : []));
  if (keys.length > 0) return keys;
  log.warn({ trigger: trigger.id }, "the secret of a trigger does not resolve, or has fewer than 16 bytes");
  throw new SvcError("trigger_unavailable");
}

/** Refuses with trigger_unavailable if the trigger's principal cannot run its manifest, or its workflow does not exist. */
async function checkManifest(trigger: Trigger, { bus, log, store }: HttpContext): Promise<void> {
  const { id, manifest: name, tenant_id } = trigger;
  if (trigger.workflow !== null) {
    if (await hasWorkflow(store.tenant(tenant_id), trigger)) return;
    log.warn({ trigger: id, workflow: trigger.workflow }, "the workflow of a trigger, or its revision, does not exist");
    throw new SvcError("trigger_unavailable");
  }
  const asked = { name, principal: principalOf(trigger), tool };
  try {
    await bus.ask({ kind: "manifests", key: tenant_id }, "admit", asked);
  } catch (error) {
    const refusal = SvcError.from(error);
    if (isOfServer(refusal)) throw error;
    log.warn({ trigger: id, manifest: name, reason: refusal.code }, "the manifest of a trigger cannot be run");
    throw new SvcError("trigger_unavailable");
  }
}

async function take(
  trigger: Trigger,
  signed: SignedDelivery,
  { rawBody, requestId }: Pick<RouteRequest<unknown, unknown, unknown>, "rawBody" | "requestId">,
  context: HttpContext,
): Promise<Reply> {
  const store = context.store.tenant(trigger.tenant_id);
  const key = keyOf(trigger, signed);
  const earlier = await earlierDelivery(store, key, context.env.now());
  if (earlier !== null) return json(earlier.body, earlier.status, replayedHeader);
  const event = readEvent(rawBody, signed);
  if (!isRun(trigger, event)) {
    const ignored = { status: 200, body: { status: "ignored" } };
    await rememberDelivery(store, key, ignored, context);
    return json(ignored.body, ignored.status);
  }
  // The route is public, so the general check at shutdown skips it. The sender retries, and no part of the delivery is stored.
  admitStart(context);
  await countMinute(trigger, context);
  try {
    const { workflow } = trigger;
    if (workflow !== null) {
      const sent = { event, delivery: signed.delivery };
      const answer = await startWorkflow({ ...trigger, workflow }, principalOf(trigger), key, sent, context);
      return json(answer.body, answer.status);
    }
    const { resume_token: run_id, replayed } = await acceptTurn(
      {
        surface: "trigger",
        principal: principalOf(trigger),
        request_id: requestId,
        manifest: trigger.manifest,
        text: promptOf(trigger, event, signed.delivery),
        idempotency: { key: signed.key, fingerprint: signed.digest, until: key.until },
        trigger: deliveryOf(event, signed),
      },
      rawBody.length,
      context,
    );
    return json({ status: "accepted", run_id }, 202, replayed ? replayedHeader : undefined);
  } catch (error) {
    throw asDelivery(SvcError.from(error), trigger, context);
  }
}

/** Counts a run against the trigger's limit per minute. Refuses with rate_limited. */
async function countMinute({ id, tenant_id, rate_limit }: Trigger, { store, env }: HttpContext): Promise<void> {
  const now = env.now();
  const minute = Math.floor(now / minuteMs);
  const ends = (minute + 1) * minuteMs;
  const tenant = store.tenant(tenant_id);
  const entry = { key: `trigger-minute:${id}:${minute}`, expires_at: ends };
  try {
    await tenant.write([kvCountOp(tenant, entry, rate_limit, now)], requestMs);
  } catch (error) {
    if (SvcError.from(error).code !== "conflict") throw error;
    throw new SvcError("rate_limited", { retryAfterSeconds: Math.ceil((ends - now) / 1_000) });
  }
}

function deliveryOf({ name, payload }: TriggerEvent, { delivery }: SignedDelivery): TriggerDelivery {
  const is_cut = payload.length > payloadCharsMax;
  const event = name.slice(0, eventCharsMax).toWellFormed();
  return { event, delivery, payload: is_cut ? payload.slice(0, payloadCharsMax).toWellFormed() : payload, is_cut };
}

/** Translates a refusal of a turn into the error codes of deliveries. */
function asDelivery(error: SvcError, { id, manifest }: Trigger, { log }: Pick<HttpContext, "log">): SvcError {
  switch (error.code) {
    case "idempotency_key_reused":
      return new SvcError("delivery_id_reused");
    case "idempotency_in_progress":
      return new SvcError("delivery_in_progress");
    case "invalid_payload":
    case "delivery_in_progress":
      return error;
    case "too_many_workflow_runs":
    case "run_queue_full":
      return new SvcError("rate_limited", { retryAfterSeconds: 60 });
    default:
      if (isOfServer(error)) return error;
      log.warn({ trigger: id, manifest, reason: error.code }, "a trigger's delivery could not start a run");
      return new SvcError("trigger_unavailable");
  }
}

/** True for a refusal that is independent of the trigger and its delivery. */
function isOfServer({ code }: SvcError): boolean {
  return code === "internal_error" || code === "frozen" || actorFails.some((fail) => fail === code);
}
