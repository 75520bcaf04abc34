import { type PluginErrorCode, SvcError } from "../../bus/errors.ts";
import { Type } from "../../bus/type.ts";
import { settingOf } from "../../governance/settings/settings.ts";
import type { HttpContext } from "../../http/context.ts";
import { json, type Reply } from "../../http/exchange/reply.ts";
import { actorFails, type Route, route } from "../../http/route.ts";
import type { TenantStore, WriteOp } from "../../storage/store/store.ts";
import { kvCountOp, kvGet } from "../../storage/tables/kv.ts";
import { threadBySuffix } from "../../storage/tables/threads.ts";
import { type ChannelEntry, channels } from "./channel-settings.ts";
import { conversationAddress, conversationId, messageId, principalOf, threadSuffix } from "./conversations.ts";
import { answerOps, wakeAnswers } from "./deliver-answer.ts";
import type { ChannelMessage, Platform, PlatformEvent } from "./platform.ts";
import { insertMessageOp, messageById } from "./tables.ts";

// The requests of a chat service. Each is answered as soon as its message is stored; the run and its answer follow.

const minuteMs = 60_000;
/** How long an event is known. Services repeat one for some hours. */
const knownMs = 86_400_000;

export const channelUnavailable: PluginErrorCode = {
  code: "channel_unavailable",
  status: 503,
  retryable: true,
  help: "The channel's secret or manifest is missing or invalid, or the manifest does not admit its callers.",
};

const taken = { status: "accepted" };
const ignored = { status: "ignored" };

/** Returns the route for the requests of a service. */
export function eventsRoute(platform: Platform, tag: string): Route {
  const { name, headers } = platform;
  return route({
    method: "POST",
    path: `/channels/${name}/{channel_id}/events`,
    summary: `Takes events of ${name}: messages to a bot.`,
    tag,
    access: "public",
    params: Type.Object({ channel_id: Type.String({ description: "Of SVC_CHANNELS.", examples: ["helpdesk"] }) }),
    headers,
    reply: {
      description: "The message is stored, or the event is ignored. A challenge is repeated.",
      schema: Type.Object({
        status: Type.Optional(Type.String({ examples: ["accepted"] })),
        challenge: Type.Optional(Type.String({ examples: ["3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P"] })),
      }),
    },
    fails: ["invalid_signature", channelUnavailable, "shutting_down", "frozen", ...actorFails],
    async handle({ params, rawBody, exchange }, context) {
      const { settings, env } = context;
      const entries = settingOf(settings, channels);
      const entry = entries.find(({ id, platform: of }) => id === params.channel_id && of === name);
      if (entry === undefined) throw new SvcError("invalid_signature");
      const keys = await keysOf(entry, context);
      const event = platform.read({ headers: exchange.head.headers, body: rawBody, keys, now: env.now() }, entry);
      if (event === null) throw new SvcError("invalid_signature");
      return take(event, entry, context);
    },
  });
}

/** Returns the signing secrets. Refuses with channel_unavailable if none resolves. */
async function keysOf(entry: ChannelEntry, { secrets, log }: HttpContext): Promise<readonly string[]> {
  const found = await Promise.allSettled(entry.signing_secrets.map((text) => secrets.resolve(text)));
  const keys = found.flatMap((one) => (one.status === "fulfilled" && one.value !== "" ? [one.value] : []));
  if (keys.length > 0) return keys;
  log.warn({ channel: entry.id }, "the signing secret of a channel does not resolve");
  throw new SvcError(channelUnavailable);
}

async function take(event: PlatformEvent, entry: ChannelEntry, context: HttpContext): Promise<Reply> {
  if (event.kind === "answer") return json(event.body);
  if (event.kind === "ignored") return json(ignored);
  const store = context.store.tenant(entry.tenant_id);
  const now = context.env.now();
  const key = `channels-event:${entry.id}:${event.event_id}`;
  if ((await kvGet(store, key, now)) !== undefined) return json(ignored);
  // The route is public, so the general check at shutdown leaves it out. The service repeats the event.
  if (context.closing()) throw new SvcError("shutting_down");
  const known = kvCountOp(store, { key, expires_at: now + knownMs }, 1, now);
  switch (event.kind) {
    case "message":
      return takeMessage(event.message, entry, known, context);
    case "edited":
      return (await tellChange(entry, event.message, event.message, known, context)) ? json(taken) : json(ignored);
    case "deleted":
      return (await tellChange(entry, event, null, known, context)) ? json(taken) : json(ignored);
  }
}

async function takeMessage(
  message: ChannelMessage,
  entry: ChannelEntry,
  known: WriteOp,
  context: HttpContext,
): Promise<Reply> {
  const { bus, env } = context;
  const store = context.store.tenant(entry.tenant_id);
  const conversation = { entry: entry.id, channel: message.channel, thread: message.thread };
  const suffix = threadSuffix(entry, conversation);
  const isForBot = message.isAddressed || (await threadBySuffix(store, suffix)) !== undefined;
  const admits = (list: readonly string[], id: string) => list.length === 0 || list.includes(id);
  if (!isForBot || !admits(entry.channels, message.channel) || !admits(entry.users, message.user)) return json(ignored);
  const id = messageId(entry.id, message.channel, message.id);
  // A mention arrives as two events, of a message and of the mention.
  if ((await messageById(store, id)) !== undefined) return json(ignored);
  await checkManifest(entry, message.user, context);
  if (!(await isWithinRate(entry, message.user, store, env.now()))) {
    const minute = Math.floor(env.now() / minuteMs);
    const text = `<@${message.user}>: too many messages. Please wait a minute.`;
    const notice = { ...conversation, message: `${entry.id}/limit/${message.user}/${minute}`, text };
    await isWritten(store, [known, ...answerOps(store, notice)]);
    wakeAnswers(bus, entry.tenant_id, conversation);
    return json(ignored);
  }
  const row = { id, conversation: conversationId(conversation), ts: env.now(), sender: message.user, message };
  if (!(await isWritten(store, [known, insertMessageOp(store, row)]))) return json(ignored);
  bus.tell(conversationAddress(entry.tenant_id, row.conversation), "wake", {});
  return json(taken);
}

/** Tells the conversation of a stored message about its change. Returns false if the message is not stored. */
async function tellChange(
  entry: ChannelEntry,
  { channel, id }: Pick<ChannelMessage, "channel" | "id">,
  message: ChannelMessage | null,
  known: WriteOp,
  { store, bus }: HttpContext,
): Promise<boolean> {
  const tenant = store.tenant(entry.tenant_id);
  const row = await messageById(tenant, messageId(entry.id, channel, id));
  if (row === undefined || row.ended_at !== null) return false;
  const address = conversationAddress(entry.tenant_id, row.conversation);
  if (message === null) await bus.ask(address, "deleted", { id });
  else await bus.ask(address, "edited", { message });
  return isWritten(tenant, [known]);
}

/** Refuses with channel_unavailable if the user cannot run the manifest. */
async function checkManifest(entry: ChannelEntry, user: string, { bus, log }: HttpContext): Promise<void> {
  const { id, manifest: name, tenant_id } = entry;
  const asked = { name, principal: principalOf(entry, user), tool: null };
  try {
    await bus.ask({ kind: "manifests", key: tenant_id }, "admit", asked);
  } catch (error) {
    const refusal = SvcError.from(error);
    const { code } = refusal;
    if (code === "internal_error" || code === "frozen" || actorFails.some((fail) => fail === code)) throw error;
    log.warn({ channel: id, manifest: name, reason: code }, "the manifest of a channel cannot be run");
    throw new SvcError(channelUnavailable);
  }
}

/** Counts a message. Returns false above a limit per minute of the entry or the user. */
async function isWithinRate(entry: ChannelEntry, user: string, store: TenantStore, now: number): Promise<boolean> {
  const minute = Math.floor(now / minuteMs);
  const expires_at = (minute + 1) * minuteMs;
  const count = (key: string, most: number) =>
    isWritten(store, [kvCountOp(store, { key: `channels-minute:${key}:${minute}`, expires_at }, most, now)]);
  return (await count(`${entry.id}:${user}`, entry.user_rate_limit)) && count(entry.id, entry.rate_limit);
}

/** Returns false if the batch was refused: the event is known, or a limit is reached. */
async function isWritten(store: TenantStore, ops: WriteOp[]): Promise<boolean> {
  try {
    await store.write(ops);
    return true;
  } catch (error) {
    if (SvcError.from(error).code !== "conflict") throw error;
    return false;
  }
}
