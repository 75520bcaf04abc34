import { int, json, seconds } from "./setting.ts";
import { readWebhookEndpoints, type WebhookEndpoints } from "./webhook-endpoints.ts";

/** Settings of webhooks about durable runs. */
export const webhookSettings = {
  webhookEndpoints: json<WebhookEndpoints>(
    "WEBHOOK_ENDPOINTS",
    {},
    "Webhook endpoints that manifests name in spec.execution.webhooks: map of id to {url, secret, tenants, private?}.",
    readWebhookEndpoints,
    { secret: true },
  ),
  webhookTimeoutSeconds: seconds(
    "WEBHOOK_TIMEOUT_SECONDS",
    10,
    [0.001, 60],
    "Time for an endpoint to answer an attempt.",
  ),
  webhookMaxAttempts: int(
    "WEBHOOK_MAX_ATTEMPTS",
    8,
    [1, 100],
    "Attempts before a delivery is dead; the pauses between them start at a minute and double up to an hour.",
  ),
};
