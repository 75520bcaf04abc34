// A trigger's runs in a minute are counted: only a full minute refuses, and an unavailable store does not.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { before, test } from "node:test";
import pino from "pino";
import { systemEnv } from "../../bus/env.ts";
import { SlotSet } from "../../bus/slot-map.ts";
import { SecretMask } from "../../governance/secret-mask.ts";
import type { Trigger } from "../../governance/settings/triggers.ts";
import type { HttpContext } from "../../http/context.ts";
import type { RouteRequest } from "../../http/route.ts";
import { triggerRoutes } from "../../http/routes/triggers.ts";
import type { Store } from "../../storage/store/store.ts";
import { processSettings } from "../support/actor-process.ts";
import { refusingStore } from "../support/refusing-store.ts";
import { testStore } from "../support/stores.ts";
import { cleanup } from "../support/temp.ts";

const secret = "a secret of some length";
const trigger: Trigger = {
  ...{ id: "rare", tenant_id: "acme", manifest: "agent", prompt: "Go.", scheme: "standard", secrets: [secret] },
  ...{ events: [], scopes: [], rate_limit: 1, workflow: null, revision: null, inputs: {} },
};

const atEnd = cleanup();
let store: Store;
before(async () => {
  ({ store } = await testStore("sqlite", atEnd));
});

test("TRIG-010 a delivery that the store cannot count is 503, one above the minute's limit 429", async () => {
  const refusing = refusingStore(store);
  // Twenty seconds into its minute.
  let now = 1_700_000_000_000;
  const env = { ...systemEnv(), now: () => now };
  const bus = { ask: async () => ({}), channel: () => ({ close() {} }) };
  const context = {
    ...{ store: refusing, env, bus, mask: new SecretMask([]), log: pino({ level: "silent" }) },
    ...{ settings: processSettings(atEnd, { agent: {} }, {}), turns: new SlotSet(), closing: () => false },
  } as unknown as HttpContext;
  const deliver = (id: string) => {
    const rawBody = Buffer.from(JSON.stringify({ type: "deploy", id }));
    const at = String(Math.floor(env.now() / 1000));
    const hash = createHmac("sha256", secret).update(`${id}.${at}.`).update(rawBody).digest("base64");
    const headers = { "webhook-id": id, "webhook-timestamp": at, "webhook-signature": `v1,${hash}` };
    const request = { params: { trigger_id: "rare" }, rawBody, requestId: id, exchange: { head: { headers } } };
    const [route] = triggerRoutes([trigger]);
    return Promise.resolve(route?.handle(request as unknown as RouteRequest<never, never, never>, context));
  };

  refusing.refused = "kv_count";
  await assert.rejects(deliver("away"), { code: "storage_unavailable" });
  refusing.refused = null;
  await deliver("first").catch(() => {});

  await assert.rejects(deliver("second"), { code: "rate_limited", details: { retryAfterSeconds: 40 } });
  now += 39_500;
  await assert.rejects(deliver("third"), { code: "rate_limited", details: { retryAfterSeconds: 1 } });
});
