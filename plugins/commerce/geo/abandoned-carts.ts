import { auditOp } from "../../../governance/audit.ts";
import type { PluginAuditType } from "../../../governance/audit-types.ts";
import { text, unprefixed, url } from "../../../governance/settings/setting.ts";
import { settingOf } from "../../../governance/settings/settings.ts";
import { signatureOf } from "../../../governance/webhook-signature.ts";
import { systemSql } from "../../../storage/store/statements.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { insertInto, integer, table, text as textColumn } from "../../../storage/store/table.ts";
import { deliveryOps, wakeLane } from "../../outbox.ts";
import type { PluginOutbox, PluginRunServices } from "../../plugin.ts";
import { newestConsent } from "../orders/consents.ts";
import { type SessionRow, sessionTable } from "../orders/sessions.ts";

// Finds left carts: a thread with a cart and without a purchase that is idle for an hour. Each version of a cart is recorded
// once, in the batch with its delivery. The address of the shopper goes out only with a consent for marketing.

/** The address that gets left carts. */
export const recoveryWebhookSetting = unprefixed(
  url("COMMERCE_RECOVERY_WEBHOOK", "Address that gets carts which were left without a purchase; empty for none."),
);
/** The key of its signatures. */
export const recoverySecretSetting = unprefixed(
  text("COMMERCE_RECOVERY_SECRET", "", "Key of the signatures of those deliveries: any text, or whsec_ and base64.", {
    secret: true,
  }),
);

/** A left cart. */
export const cartAbandoned: PluginAuditType = {
  name: "cart_abandoned",
  help: "A cart was left without a purchase for an hour.",
};

/** The recorded versions of carts. */
export const abandonedTable = table(
  "commerce_abandoned_carts",
  { thread_id: textColumn, cart_version: integer, ts: integer },
  ({ text: thread_id }) => ({ thread_id, cart_version: 5, ts: 5 }),
);

const insertAbandoned = insertInto(abandonedTable);
const selectIdle = systemSql(
  "commerce_sessions_idle",
  `SELECT s.tenant_id, ${sessionTable.columns
    .split(", ")
    .map((name) => `s.${name}`)
    .join(", ")}
   FROM commerce_sessions s
   WHERE s.cart_items > 0 AND s.cart_at < ? AND s.cart_at >= ?
     AND NOT EXISTS (SELECT 1 FROM commerce_abandoned_carts a
       WHERE a.tenant_id = s.tenant_id AND a.thread_id = s.thread_id AND a.cart_version = s.cart_version)
     AND NOT EXISTS (SELECT 1 FROM commerce_orders o
       WHERE o.tenant_id = s.tenant_id AND o.thread_id = s.thread_id AND o.cart_version >= s.cart_version
         AND o.status IN ('paid', 'fulfilled'))
     AND NOT EXISTS (SELECT 1 FROM threads t
       WHERE t.tenant_id = s.tenant_id AND t.suffix = substr(s.thread_id, length(s.tenant_id) + 2) AND t.updated_at >= ?)
   ORDER BY s.cart_at LIMIT ?`,
);
const deleteOld = systemSql("commerce_abandoned_carts_delete", "DELETE FROM commerce_abandoned_carts WHERE ts < ?");

const hourMs = 3_600_000;
const minuteMs = 60_000;
/** A cart must be idle for this long. */
const idleMs = hourMs;
/** Older carts are not looked at any more, so their records can go after twice this time. */
const lookedMs = 7 * 24 * hourMs;
const pauseMs = 15 * minuteMs;
const pageRows = 200;
const outboxKind = "commerce_recovery";
const lane = "recovery";

/** Records the carts that were left; returns the milliseconds until the next look. */
export async function recordAbandoned(services: PluginRunServices): Promise<number> {
  const { store, env, log } = services;
  const now = env.now();
  const rows = await store.system.read(selectIdle, now - idleMs, now - lookedMs, now - idleMs, pageRows);
  let recorded = 0;
  for (const row of rows) {
    const tenant = store.tenant(row.tenant_id as string);
    try {
      await recordOne(services, tenant, sessionTable.decode(row), now);
      recorded++;
    } catch (err) {
      // Another process recorded it first, or the store does not answer: the next look finds what is left.
      log.debug({ err }, "a left cart was not recorded");
    }
  }
  if (rows.length < pageRows) await store.system.write([store.system.op(deleteOld, [now - 2 * lookedMs])]);
  return rows.length === pageRows && recorded > 0 ? 0 : pauseMs;
}

async function recordOne(
  services: PluginRunServices,
  store: TenantStore,
  session: SessionRow,
  now: number,
): Promise<void> {
  const { env, mask, settings, count, bus } = services;
  const { thread_id, cart_version, cart_at, cart_items, cart_total_cents, currency, buyer_subject } = session;
  const consent = await newestConsent(store, thread_id);
  const mayContact = consent?.granted === 1 && consent.scopes.includes("marketing");
  const idle_minutes = Math.floor((now - cart_at) / minuteMs);
  const cart = { items: cart_items, total_cents: cart_total_cents, currency };
  const isDispatched = settingOf(settings, recoveryWebhookSetting) !== "";
  const body = {
    ...{ type: "abandoned_cart", tenant_id: store.tenantId, thread_id, cart_version, cart, idle_minutes },
    ...(mayContact && buyer_subject !== null && { customer_id: buyer_subject, email: buyer_subject }),
  };
  const source = `${thread_id}_${cart_version}`;
  const payload = { thread_id, cart_version, cart, idle_minutes, dispatched: isDispatched };
  const event = { event_type: cartAbandoned, status: "ok", manifest_id: "", principal_subj: "", payload };
  await store.write([
    insertAbandoned(store, { thread_id, cart_version, ts: now }),
    auditOp(store, { env, mask }, event),
    ...(isDispatched
      ? deliveryOps(store, { kind: outboxKind, lane, source, type: "cart.abandoned", body: JSON.stringify(body) })
      : []),
  ]);
  count("orchestrator_abandoned_carts_detected_total", {});
  if (isDispatched) wakeLane(bus, store.tenantId, outboxKind, lane);
}

const answerBytesMax = 1024;

/** Sends left carts to the address of the settings. */
export const recoveryOutbox: Readonly<Record<string, PluginOutbox>> = {
  [outboxKind]: {
    attemptsMax: 8,
    timeoutMs: 10_000,
    pauseMs: 5_000,
    async send({ id, tenant_id, body }, { settings, outgoing, env }) {
      const address = settingOf(settings, recoveryWebhookSetting);
      if (address === "") return { outcome: "dead", reason: "there is no address any more" };
      const secret = settingOf(settings, recoverySecretSetting);
      const timestamp = Math.floor(env.now() / 1_000);
      const signature = secret === "" ? null : signatureOf([keyOf(secret)], id, timestamp, body);
      const rules = { tenantId: tenant_id, policy: "operator", allowHosts: [], credentials: [], onEvent() {} } as const;
      const headers = {
        "content-type": "application/json",
        "user-agent": "svc",
        "webhook-id": id,
        "webhook-timestamp": String(timestamp),
        ...(signature !== null && { "webhook-signature": signature }),
      };
      const request = { url: address, method: "POST", headers, body, timeoutMs: 9_000, follows: false };
      const { status } = await outgoing.whole(rules, request, answerBytesMax);
      if (status >= 200 && status < 300) return { outcome: "sent" };
      if (status === 410) return { outcome: "dead", reason: "the receiver wants no more" };
      return { outcome: "failed", reason: `the receiver answers with the status ${status}` };
    },
  },
};

function keyOf(secret: string): Buffer {
  return secret.startsWith("whsec_") ? Buffer.from(secret.slice(6), "base64") : Buffer.from(secret, "utf8");
}
