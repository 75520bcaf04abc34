import { createHmac, timingSafeEqual } from "node:crypto";
import type { ChannelEntry } from "./channel-settings.ts";
import type { ChannelFile, ChannelMessage, PlatformEvent, SignedRequest } from "./platform.ts";

// Requests of Slack's Events API: their signature ("Verifying requests from Slack") and their events.

/** Max difference between Slack's clock and ours. */
const skewSecondsMax = 300;
const filesMax = 20;
const quotedMax = 20;
const quotedCharsMax = 64 * 1024;
/** Messages of people; every other subtype is a report of the service or of an app. */
const subtypes: readonly unknown[] = [undefined, "file_share", "thread_broadcast", "me_message"];
const channelPattern = /^[A-Z0-9]{1,32}$/;
const timePattern = /^\d{1,16}\.\d{1,16}$/;

type Fields = Readonly<Record<string, unknown>>;

/** Returns the event of a signed request; null if the signature is wrong or stale. */
export function readSlack({ headers, body, keys, now }: SignedRequest, entry: ChannelEntry): PlatformEvent | null {
  const { "x-slack-request-timestamp": timestamp = "", "x-slack-signature": signature = "" } = headers;
  if (!/^\d{1,12}$/.test(timestamp) || !/^v0=[0-9a-f]{64}$/.test(signature)) return null;
  if (Math.abs(Math.floor(now / 1000) - Number(timestamp)) > skewSecondsMax) return null;
  const shown = Buffer.from(signature.slice("v0=".length), "hex");
  const isSigned = keys.some((key) => {
    const right = createHmac("sha256", key).update(`v0:${timestamp}:`).update(body).digest();
    return timingSafeEqual(shown, right);
  });
  return isSigned ? eventOf(body, entry) : null;
}

const ignored: PlatformEvent = { kind: "ignored" };

function eventOf(body: Buffer, entry: ChannelEntry): PlatformEvent {
  const payload = fieldsOf(parsed(body.toString("utf8")));
  if (payload.type === "url_verification") return { kind: "answer", body: { challenge: textOf(payload.challenge) } };
  const event_id = textOf(payload.event_id);
  if (payload.type !== "event_callback" || event_id === "" || event_id.length > 128) return ignored;
  if (payload.team_id !== entry.team_id) return ignored;
  const event = fieldsOf(payload.event);
  const bot = textOf(fieldsOf(listOf(payload.authorizations)[0]).user_id);
  const channel = textOf(event.channel);
  if (!channelPattern.test(channel)) return ignored;
  if (event.type !== "message" && event.type !== "app_mention") return ignored;
  if (event.subtype === "message_deleted") {
    const id = textOf(event.deleted_ts);
    return timePattern.test(id) ? { kind: "deleted", event_id, channel, id } : ignored;
  }
  const isEdit = event.subtype === "message_changed";
  const said = isEdit ? fieldsOf(event.message) : event;
  if (isEdit && said.text === fieldsOf(event.previous_message).text) return ignored;
  const message = messageOf(said, channel, event, bot, entry);
  return message === null ? ignored : { kind: isEdit ? "edited" : "message", event_id, message };
}

/** Returns the message of a person; null for that of a bot, or of a person of another team. */
function messageOf(
  said: Fields,
  channel: string,
  event: Fields,
  bot: string,
  { team_id }: ChannelEntry,
): ChannelMessage | null {
  const id = textOf(said.ts);
  const user = textOf(said.user);
  const isOfBot = said.bot_id !== undefined || said.bot_profile !== undefined || user === bot;
  if (isOfBot || !subtypes.includes(said.subtype) || !timePattern.test(id) || !channelPattern.test(user)) return null;
  // The home of a user of a shared channel.
  const team = said.user_team ?? said.source_team ?? said.team ?? event.team;
  if (team !== undefined && team !== team_id) return null;
  const text = textOf(said.text);
  const mention = `<@${bot}>`;
  const isMention = event.type === "app_mention" || (bot !== "" && text.includes(mention));
  const thread = textOf(said.thread_ts);
  return {
    ...{ channel, id, user },
    thread: timePattern.test(thread) ? thread : id,
    text: plain(bot === "" ? text : text.replaceAll(mention, "")).trim(),
    isAddressed: isMention || event.channel_type === "im",
    files: listOf(said.files).slice(0, filesMax).map(fileOf),
    quoted: listOf(said.attachments).slice(0, quotedMax).flatMap(quotedOf),
  };
}

function fileOf(value: unknown): ChannelFile {
  const { name, title, mimetype, size, url_private, mode, file_access } = fieldsOf(value);
  const isHere = mode !== "external" && mode !== "tombstone" && file_access !== "check_file_info";
  return {
    name: textOf(name ?? title).slice(0, 255),
    media_type: textOf(mimetype).toLowerCase(),
    bytes: typeof size === "number" ? size : 0,
    url: isHere ? textOf(url_private) : "",
  };
}

/** Returns the texts of a shared message or of a preview. */
function quotedOf(value: unknown): string[] {
  const { author_name, title, text, fallback } = fieldsOf(value);
  const lines = [author_name, title, text ?? fallback].map(textOf).filter((line) => line !== "");
  return lines.length === 0 ? [] : [plain(lines.join("\n")).slice(0, quotedCharsMax).toWellFormed()];
}

/** Slack escapes three characters. */
function plain(text: string): string {
  return text
    .replaceAll("&lt;", "<")
    .replaceAll("&gt;", ">")
    .replaceAll("&amp;", "&")
    .replaceAll("\0", "")
    .toWellFormed();
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function fieldsOf(value: unknown): Fields {
  return typeof value === "object" && value !== null ? (value as Fields) : {};
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}
