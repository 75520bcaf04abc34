import { SvcError } from "../../bus/errors.ts";
import { Type } from "../../bus/type.ts";
import { checkSubscription, subscriptionId } from "../../governance/push/endpoint.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import { requestMs } from "../../storage/store/store.ts";
import { subscribePush, unsubscribePushOp } from "../../storage/tables/push-subscriptions.ts";
import { json } from "../exchange/reply.ts";
import { actorFails, type Route, route } from "../route.ts";
import { EpochMs } from "../schemas/common.ts";
import type { Tag } from "../tags.ts";

const tag: Tag = { name: "Push", description: "Notifications of browsers about approvals and questions." };
const access = ["approvals:read"];

const endpoint = Type.String({
  minLength: 1,
  maxLength: 2048,
  description: "The URL of the push service, as the browser gives it.",
  examples: ["https://updates.push.services.mozilla.com/wpush/v2/gAAAAAB"],
});

const publicKey = route({
  method: "GET",
  path: "/push/vapid-public-key",
  summary: "The key with which browsers subscribe.",
  tag,
  access,
  reply: {
    description: "A new private key ends all subscriptions.",
    schema: Type.Object({
      public_key: Type.String({
        description: "`applicationServerKey` of `PushManager.subscribe`, in base64url.",
        examples: ["BA1Hxzyi1RUM1b5wjxsn7nGxAszw2u61m164i3MrAIxHF6YK5h4SDYic-dRuU_RCPCfA5aq9ojSwk5Y2EmClBPs"],
      }),
    }),
  },
  fails: ["push_not_configured"],
  handle: (_request, { settings }) => json({ public_key: keyOf(settings).public }),
});

const subscribe = route({
  method: "POST",
  path: "/push/subscriptions",
  summary: "Subscribes a browser, or replaces its keys.",
  tag,
  access,
  body: Type.Object(
    {
      endpoint,
      keys: Type.Object(
        {
          p256dh: Type.String({
            maxLength: 256,
            description: "A point of P-256.",
            examples: ["BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"],
          }),
          auth: Type.String({ maxLength: 256, description: "16 bytes.", examples: ["BTBZMqHH6r4Tts7J_aSIgg"] }),
        },
        { additionalProperties: false },
      ),
    },
    // Browsers add expirationTime.
    { additionalProperties: true },
  ),
  reply: {
    description: "The same endpoint keeps its id. The endpoint is secret and never returned.",
    schema: Type.Object({
      id: Type.String({ examples: ["push_2c26b46b68ffc68ff99b453c1d304134"] }),
      created_at: EpochMs,
    }),
  },
  fails: [
    ...["push_not_configured", "push_subscription_limit", "push_endpoint_not_allowed", "push_keys_malformed"],
    ...actorFails,
  ] as Route["fails"],
  async handle({ body, principal }, { settings, store }) {
    keyOf(settings);
    const { endpoint, keys } = body;
    checkSubscription({ endpoint, keys }, settings.pushAllowedHosts);
    const { tenant_id, ...subscriber } = principal;
    const id = subscriptionId(endpoint);
    const row = { id, endpoint, ...keys, principal: subscriber };
    const created_at = await subscribePush(store.tenant(tenant_id), row, requestMs);
    if (created_at === null) throw new SvcError("push_subscription_limit");
    return json({ id, created_at });
  },
});

const unsubscribe = route({
  method: "DELETE",
  path: "/push/subscriptions",
  summary: "Ends the subscription of a browser.",
  tag,
  access,
  body: Type.Object({ endpoint }, { additionalProperties: false }),
  reply: {
    description: "`removed` is false if the browser was not subscribed.",
    schema: Type.Object({ removed: Type.Boolean({ examples: [true] }) }),
  },
  fails: actorFails,
  async handle({ body, principal }, { store }) {
    const own = store.tenant(principal.tenant_id);
    const [rows = []] = await own.write([unsubscribePushOp(own, subscriptionId(body.endpoint))], requestMs);
    return json({ removed: rows.length > 0 });
  },
});

/** Returns the key pair. Refuses with push_not_configured. */
function keyOf({ pushVapidPrivateKey, pushVapidSubject }: Settings) {
  if (pushVapidPrivateKey === null || pushVapidSubject === "") throw new SvcError("push_not_configured");
  return pushVapidPrivateKey;
}

/** Routes of push notifications. */
export const pushRoutes: readonly Route[] = [publicKey, subscribe, unsubscribe];
