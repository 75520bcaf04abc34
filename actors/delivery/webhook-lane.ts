import { openEndpoint, signingKey, type WebhookEndpoint } from "../../governance/settings/webhook-endpoints.ts";
import { type OpenSpan, traceparentOf } from "../../governance/tracing/tracer.ts";
import { signatureOf } from "../../governance/webhook-signature.ts";
import type { DeliveryRow } from "../../storage/tables/deliveries.ts";
import { Attempt, failed } from "./attempt.ts";
import type { Attempted, Lane, LaneContext } from "./lane.ts";

const noSecret = "no usable secret";
const cures: Readonly<Record<string, string>> = {
  "status 410": "The endpoint says that it is gone for good: correct its url in SVC_WEBHOOK_ENDPOINTS, or remove it.",
  blocked: "The url leads to a private or reserved address: correct it, or set private: true in SVC_WEBHOOK_ENDPOINTS.",
  [noSecret]:
    "A secret of the endpoint is missing or too short: set the SVC_SECRET_ variable, or the file in SVC_SECRETS_DIR, that it names.",
};

/** Returns the lane of a webhook endpoint; null if the tenant may not use it. */
export function webhookLane(context: LaneContext, endpointId: string): Lane | null {
  const { settings } = context.deps;
  const endpoint = openEndpoint(settings.webhookEndpoints, endpointId, context.store.tenantId);
  if (endpoint === null) return null;
  return {
    label: endpointId,
    noun: "webhook",
    timeoutMs: settings.webhookTimeoutSeconds * 1000,
    cures,
    attempt: (row, span) => post(context, endpoint, row, span),
  };
}

async function post(
  { env, deps }: LaneContext,
  endpoint: WebhookEndpoint,
  { id, body }: DeliveryRow,
  span: OpenSpan | null,
): Promise<Attempted> {
  const keys: Buffer[] = [];
  for (const secret of endpoint.secrets) {
    const key = await deps.secrets.resolve(secret).then(signingKey, () => null);
    if (key === null) return { failure: failed(noSecret) };
    keys.push(key);
  }
  const timestamp = Math.floor(env.now() / 1000);
  const headers = [
    ...["content-type", "application/json"],
    ...["user-agent", deps.webhookAgent],
    ...["webhook-id", id],
    ...["webhook-timestamp", String(timestamp)],
    ...["webhook-signature", signatureOf(keys, id, timestamp, body)],
    ...(span === null ? [] : ["traceparent", traceparentOf(span)]),
  ];
  const timeoutMs = deps.settings.webhookTimeoutSeconds * 1000;
  const egress = deps.webhookEgress[endpoint.private ? "operator" : "public"];
  const attempt = new Attempt(env, egress, { url: endpoint.url, headers, body, timeoutMs });
  return { failure: await attempt.outcome, over: attempt.over };
}
