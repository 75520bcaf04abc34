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
import { type Contribution, withContributed, withLast } from "../prompt/context-source.ts";
import { readImage } from "../prompt/images.ts";
import { systemText } from "../prompt/working-set.ts";
import { digestOf, readPrefix } from "../spec/prompt-prefix.ts";

// Rebuilds a model request from its context record and the log, with the code that built the original and without any in-memory state.

/** A rebuilt model request. */
export interface RebuiltCall {
  /** The whole system text; null if it is not stored. */
  readonly system: string | null;
  /** JSON text of the messages, the system message first; null if any part is missing or was never stored. */
  readonly messages: string | null;
  /** The same text without images. */
  readonly words: string | null;
  /** The messages after the system text, with the ephemeral instruction last if there was one. */
  readonly shown: readonly ContextMessage[];
  /** JSON text of the tool list, null for none. */
  readonly tools: string | null;
  /** JSON text of the reply schema, null for none. */
  readonly answer: string | null;
  /** The reply of the model, if only the context record has it; null if the log has it. */
  readonly reply: string | null;
  /** Differences from the context record, as text; empty if the request equals the original. */
  readonly problems: readonly string[];
}

/** Rebuilds a request. Refuses as the store does. */
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
  const given = textOf(facts.digests.context, "the contributed context");
  const context = given === null ? null : (JSON.parse(given) as Contribution);
  const nudged = withLast(shown, context, nudge);
  const system = frame === null ? null : withContributed(systemText(frame.system, instructions, shown), context);
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

/** Digests of the texts that are stored with a call; none without a thread. */
function wantedOf({ facts, frame, thread_key }: ModelCallRow, withFrame: boolean): ReadonlySet<string> {
  if (thread_key === null) return new Set();
  const { instructions, context, nudge, reply } = facts.digests;
  const words = (facts.shown ?? []).filter((item) => typeof item === "string");
  const all = [withFrame ? frame : undefined, instructions, context, nudge, reply, ...words];
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

/** Returns the message of an event. A compaction becomes its summary; an event of a sub-agent becomes that sub-agent's message. */
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
