import { int, json, seconds } from "./setting.ts";
import { readWebhookEndpoints, type WebhookEndpoints } from "./webhook-endpoints.ts";

/** Who is told when a durable run ends, and how. */
export const webhookSettings = {
  webhookEndpoints: json<WebhookEndpoints>(
    "WEBHOOK_ENDPOINTS",
    {},
    "Map of endpoint id to {url, secret, tenants, private?}, which manifests name in spec.execution.webhooks.",
    readWebhookEndpoints,
    { secret: true },
  ),
  webhookTimeoutSeconds: seconds(
    "WEBHOOK_TIMEOUT_SECONDS",
    10,
    [0.001, 60],
    "How long an endpoint may take to answer an attempt.",
  ),
  webhookMaxAttempts: int(
    "WEBHOOK_MAX_ATTEMPTS",
    8,
    [1, 100],
    "Attempts after which a delivery is dead; between them is a minute at first, doubling to an hour.",
  ),
};
