import type { Address } from "../../bus/address.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import type { PluginEntryPoint, RunPlace } from "../../bus/protocol/run.ts";
import type { ChannelEntry } from "./channel-settings.ts";
import type { ChannelMessage } from "./platform.ts";

// The names of a conversation. Ids of entries, channels and threads have no slash.

declare module "../../bus/protocol/kinds.ts" {
  interface Protocols {
    channels: ChannelsMessages;
  }
}

/** Messages to the actor of one conversation. */
export interface ChannelsMessages {
  /** Hints that a message has arrived or a run has changed. The rows are authoritative; a periodic task covers lost hints. */
  wake: { body: Record<string, never> };
  /** A person has changed a message. */
  edited: { body: { readonly message: ChannelMessage }; reply: Record<string, never> };
  /** A person has deleted a message. */
  deleted: { body: { readonly id: string }; reply: Record<string, never> };
}

/** The place of a conversation in a chat service. */
export interface Conversation {
  readonly entry: string;
  readonly channel: string;
  readonly thread: string;
}

/** Returns the id of a conversation, which rows store. */
export function conversationId({ entry, channel, thread }: Conversation): string {
  return `${entry}/${channel}/${thread}`;
}

/** Splits the id of a conversation. */
export function splitConversation(id: string): Conversation {
  const [entry = "", channel = "", thread = ""] = id.split("/");
  return { entry, channel, thread };
}

/** Returns the id of a message's row. */
export function messageId(entry: string, channel: string, id: string): string {
  return `${entry}/${channel}/${id}`;
}

/** Returns the actor of a conversation. */
export function conversationAddress(tenantId: string, conversation: string): Address<"channels"> {
  return { kind: "channels", key: `${tenantId}/${conversation}` };
}

/** Splits the key of a conversation's actor. */
export function splitConversationKey(key: string): { tenantId: string; conversation: string } {
  const slash = key.indexOf("/");
  return { tenantId: key.slice(0, slash), conversation: key.slice(slash + 1) };
}

/** Returns the beginning of the thread ids of an entry. */
export function threadPrefix({ platform, id }: Pick<ChannelEntry, "platform" | "id">): string {
  return `${platform}-${id}-`;
}

/** Returns the suffix of a conversation's thread. */
export function threadSuffix(entry: ChannelEntry, { channel, thread }: Conversation): string {
  return `${threadPrefix(entry)}${channel}-${thread}`;
}

/** Returns the entry point of a platform's runs. */
export function surfaceOf(platform: string): PluginEntryPoint {
  return `background:${platform}`;
}

/** Returns the principal of a user. */
export function principalOf({ platform, tenant_id, team_id, scopes }: ChannelEntry, user: string): Principal {
  return { tenant_id, sub: `${platform}:${team_id}:${user}`, scopes, scheme: platform, issuer: "" };
}

/** Returns the place of the run of a message. */
export function placeOf(entry: ChannelEntry, conversation: Conversation, run_id: string): RunPlace {
  return { tenant_id: entry.tenant_id, suffix: threadSuffix(entry, conversation), run_id };
}
