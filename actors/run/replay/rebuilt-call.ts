import type { FileStore } from "../../../storage/files/file-store.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { pageRows, readEvent } from "../../../storage/tables/events.ts";
import { bodiesOfCall, type ModelCallRow, type ShownItem } from "../../../storage/tables/model-calls.ts";
import { frameByDigest } from "../../../storage/tables/model-frames.ts";
import { branchEvents, inCallOrder } from "../../log/branch.ts";
import { openingCharsMax, summaryMessage } from "../../log/compaction.ts";
import { type ContextMessage, contextMessage, messageOf } from "../../log/message.ts";
import { shortMessage } from "../../log/short-message.ts";
import { eventsAt } from "../../log/sub-agent-events.ts";
import { chatMessages } from "../../models/chat-messages.ts";
import type { ImagesOfCall, ModelImage, ShownImages } from "../../models/images.ts";
import { clearResults } from "../prompt/cleared-results.ts";
import { readImage } from "../prompt/images.ts";
import { systemText } from "../prompt/working-set.ts";
import { digestOf, readPrefix } from "../spec/prompt-prefix.ts";

// A model request made again from its record and the log: with the code that has made it, and without anything that was in memory then.

/** A request as it was sent. */
export interface RebuiltCall {
  /** The whole system text; null when it is gone. */
  readonly system: string | null;
  /** JSON text of the message list, the system message first; null where nothing of it is kept, or something of it is gone. */
  readonly messages: string | null;
  /** The same without images. */
  readonly words: string | null;
  /** The messages behind the system text, and whether the last of them was said once and is in no log. */
  readonly shown: readonly ContextMessage[];
  /** JSON text of the tool list, null for none. */
  readonly tools: string | null;
  /** JSON text of the schema of its answer, null for none. */
  readonly answer: string | null;
  /** What the model has said, where no event says it; null where one does. */
  readonly reply: string | null;
  /** What is not as the record says, in words; empty when the request is what was sent. */
  readonly problems: readonly string[];
}

/** Makes a request again. Refuses as the store does. */
export async function rebuildCall(store: TenantStore, files: FileStore, call: ModelCallRow): Promise<RebuiltCall> {
  const { facts, thread_key } = call;
  const problems: string[] = [];
  const shared = await frameByDigest(store, call.frame);
  const bodies = await bodiesOfCall(store, call, wantedOf(call, shared === undefined));
  const textOf = (digest: string | undefined, what: string): string | null => {
    if (digest === undefined) return null;
    const text = bodies.get(digest) ?? null;
    if (text === null && thread_key !== null) problems.push(`${what} ${digest} is not kept`);
    return text;
  };
  const body = shared?.body ?? bodies.get(call.frame);
  const frame = body === undefined ? null : readPrefix(body);
  if (frame === null) problems.push(`the system text and the tools (${call.frame}) are not kept`);
  const rest = {
    tools: frame?.tools ?? null,
    answer: frame?.answer ?? null,
    reply: textOf(facts.digests.reply, "the reply"),
  };
  const instructions = textOf(facts.digests.instructions, "the text of the instructions");
  if (thread_key === null || facts.shown === null)
    return { system: frame?.system ?? null, messages: null, words: null, shown: [], ...rest, problems };

  const found: ContextMessage[] = [];
  for (const item of facts.shown) {
    const messages = await messagesOf(store, thread_key, item, (digest) => textOf(digest, "a message"));
    if (messages.length === 0) problems.push(`what was shown as ${JSON.stringify(item)} is not in the log`);
    found.push(...messages);
  }
  const ordered = inCallOrder(found, 0);
  if (ordered.length !== facts.messages)
    problems.push(`${ordered.length} messages are found, and ${facts.messages} were shown`);
  const shown = facts.cleared === undefined ? ordered : clearResults(ordered, facts.cleared);
  const nudge = textOf(facts.digests.nudge, "the last message");
  const nudged = nudge === null ? shown : [...shown, contextMessage({ role: "user", content: nudge })];
  const system = frame === null ? null : systemText(frame.system, instructions, shown);
  if (system === null || problems.length > 0)
    return { system, messages: null, words: null, shown: nudged, ...rest, problems };
  const words = chatMessages(system, nudged);
  if (words.length !== facts.chars)
    problems.push(`the messages are ${words.length} characters long, and ${facts.chars} were sent`);
  else if (digestOf(words) !== facts.digests.messages)
    problems.push(`the messages are others than were sent (${facts.digests.messages})`);
  if (facts.files === undefined) return { system, messages: words, words, shown: nudged, ...rest, problems };
  const images = await imagesOf(store, files, call, shown, problems);
  return { system, messages: chatMessages(system, nudged, images), words, shown: nudged, ...rest, problems };
}

/** The digests of the texts that stand with a call; none without a thread. */
function wantedOf({ facts, frame, thread_key }: ModelCallRow, withFrame: boolean): ReadonlySet<string> {
  if (thread_key === null) return new Set();
  const { instructions, nudge, reply } = facts.digests;
  const words = (facts.shown ?? []).filter((item) => typeof item === "string");
  const all = [withFrame ? frame : undefined, instructions, nudge, reply, ...words];
  return new Set(all.filter((digest) => digest !== undefined));
}

async function messagesOf(
  store: TenantStore,
  threadKey: number,
  item: ShownItem,
  wordsOf: (digest: string) => string | null,
): Promise<ContextMessage[]> {
  if (typeof item === "string") {
    const words = wordsOf(item);
    return words === null ? [] : [contextMessage(JSON.parse(words))];
  }
  if (typeof item === "number") return asList(await messageAt(store, threadKey, item));
  if ("opening" in item || "short" in item) {
    const form = "short" in item ? item : { short: item.opening, chars: openingCharsMax, images: true };
    const message = await messageAt(store, threadKey, form.short);
    return message === null ? [] : [shortMessage(message, form)];
  }
  const [from, to] = item;
  const newestFirst: ContextMessage[] = [];
  for await (const event of branchEvents(store, threadKey, to, pageRows)) {
    if (event.seq < from) break;
    newestFirst.push(...asList(messageOf(event)));
  }
  return newestFirst.reverse();
}

/**
 * What an event is to the model: a compaction is its summary, and what a sub-agent has said is a message of the sub-agent's own.
 */
async function messageAt(store: TenantStore, threadKey: number, seq: number): Promise<ContextMessage | null> {
  const event = await readEvent(store, threadKey, seq);
  if (event === undefined) return null;
  if (event.kind === "compaction") return summaryMessage(event);
  const member = event.extra?.metadata?.member;
  const [own] = typeof member === "string" ? eventsAt([event], member) : [event];
  return own === undefined ? null : messageOf(own);
}

function asList(message: ContextMessage | null): ContextMessage[] {
  return message === null ? [] : [message];
}

async function imagesOf(
  store: TenantStore,
  files: FileStore,
  { facts }: ModelCallRow,
  shown: readonly ContextMessage[],
  problems: string[],
): Promise<ImagesOfCall> {
  const images = new Map<ContextMessage, ShownImages>();
  for (const { message: at, images: wanted, omitted } of facts.files ?? []) {
    const message = shown[at];
    const given: ModelImage[] = [];
    for (const { attachment, digest } of wanted) {
      const named = message?.attachments?.[attachment];
      const image = named === undefined ? null : await readImage(named, files, store);
      const isSame = image !== null && digestOf(image.kind === "url" ? image.url : image.base64) === digest;
      if (isSame) given.push(image);
      else problems.push(`an image of message ${at} (${digest}) is ${image === null ? "gone" : "another one"}`);
    }
    const attachments = wanted.map(({ attachment }) => attachment);
    if (message !== undefined) images.set(message, { images: given, attachments, omitted });
  }
  return images;
}
