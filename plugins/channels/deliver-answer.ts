import type { OutboxAttempt, OutboxDelivery } from "../../actors/delivery/outbox-kind.ts";
import type { Bus } from "../../bus/bus.ts";
import { settingOf } from "../../governance/settings/settings.ts";
import type { TenantStore, WriteOp } from "../../storage/store/store.ts";
import { deliveryOps, wakeLane } from "../outbox.ts";
import type { PluginActorServices, PluginDeps } from "../plugin.ts";
import { channels } from "./channel-settings.ts";
import type { Conversation } from "./conversations.ts";
import { piecesOf } from "./pieces.ts";
import { type Platform, type PlatformClient, PlatformFailure } from "./platform.ts";
import { postOp, postsOf } from "./tables.ts";

// The answers of the bot as rows of the outbox. A long answer is several posts. Each post is stored after it was made, so that a later attempt
// continues with the next one.

const kind = "channels";

/** A text for a conversation. */
export interface Answer extends Conversation {
  /** The message that it answers, whose first post may show the answer already; or the id of a notice. */
  readonly message: string;
  readonly text: string;
}

/** Returns the statements of a delivery. A second one with the same `message` has no effect. */
export function answerOps(store: TenantStore, answer: Answer): WriteOp[] {
  const { message: source } = answer;
  return deliveryOps(store, {
    kind,
    lane: laneOf(answer),
    source,
    type: "channels.answer",
    body: JSON.stringify(answer),
  });
}

/** Sends the answers for a channel soon. */
export function wakeAnswers(bus: Bus, tenantId: string, conversation: Conversation): void {
  wakeLane(bus, tenantId, kind, laneOf(conversation));
}

function laneOf({ entry, channel }: Conversation): string {
  return `${entry}:${channel}`;
}

/** Posts an answer, or the pieces that an earlier attempt has not posted. */
export async function sendAnswer(
  { tenant_id, body }: OutboxDelivery,
  platforms: ReadonlyMap<string, Platform>,
  services: PluginDeps & PluginActorServices,
): Promise<OutboxAttempt> {
  const { settings, secrets } = services;
  const answer = JSON.parse(body) as Answer;
  const entry = settingOf(settings, channels).find(({ id, tenant_id: of }) => id === answer.entry && of === tenant_id);
  const platform = platforms.get(entry?.platform ?? "");
  if (entry === undefined || platform === undefined) return { outcome: "dead", reason: "no entry of SVC_CHANNELS" };
  try {
    const client = await platform.open(await secrets.resolve(entry.bot_token), entry, services);
    await postPieces(services.store.tenant(tenant_id), answer, platform, client);
    return { outcome: "sent" };
  } catch (error) {
    if (!(error instanceof PlatformFailure)) throw error;
    const { message: reason, retryAfterMs, isFinal } = error;
    if (isFinal) return { outcome: "dead", reason };
    return { outcome: "failed", reason, ...(retryAfterMs !== null && { retryAfterMs }) };
  }
}

async function postPieces(
  store: TenantStore,
  { channel, thread, message, text }: Answer,
  { shown, textMax }: Platform,
  client: PlatformClient,
): Promise<void> {
  const posts = await postsOf(store, message);
  for (const [piece, said] of piecesOf(shown(text), textMax).entries()) {
    const post = posts.get(piece);
    // The first post may show the beginning of the answer.
    if (post !== undefined && (piece > 0 || (await isEdited(client, channel, post, said)))) continue;
    await store.write([postOp(store, message, piece, await client.post(channel, thread, said))]);
  }
}

/** Returns false if the post no longer exists. */
async function isEdited(client: PlatformClient, channel: string, post: string, said: string): Promise<boolean> {
  try {
    await client.edit(channel, post, said);
    return true;
  } catch (error) {
    if (error instanceof PlatformFailure && error.isFinal) return false;
    throw error;
  }
}
