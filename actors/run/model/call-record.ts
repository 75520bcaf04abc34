import type { TokenCount } from "../../../bus/protocol/model-reply.ts";
import { attributeNames, spanNames } from "../../../governance/tracing/conventions.ts";
import { contentText } from "../../../governance/tracing/tracer.ts";
import type { ModelRoute } from "../../../manifests/registries.ts";
import type { CallFacts, CallTry, ShownFiles, ShownItem } from "../../../storage/tables/model-calls.ts";
import { type ContextMessage, seqOf } from "../../log/message.ts";
import type { ImagesOfCall } from "../../models/images.ts";
import type { ModelReply, ToolUse } from "../../models/provider.ts";
import type { Thinking } from "../../models/thinking.ts";
import type { RunContext } from "../context/run-context.ts";
import type { Contribution } from "../prompt/context-source.ts";
import { digestOf, type PromptPrefix } from "../spec/prompt-prefix.ts";

// The context record of a model call (decision 86: a call can be rebuilt from its record and the log). Positions in the log are computed
// at the end of the call, and the row commits with the reply.

/** Max characters of texts in one row. A text beyond the bound is recorded by its digest alone. */
const bodiesMax = 1024 * 1024;

/** The prompt and the parameters of a call. */
export interface CallWords {
  readonly purpose: CallFacts["purpose"];
  readonly prefix: PromptPrefix;
  /** True if the prefix belongs to this run alone, because the request has added tools or a reply format. */
  readonly isOwn: boolean;
  /** The instructions of the request; null for none. */
  readonly instructions: string | null;
  readonly shown: readonly ContextMessage[];
  /** Contributions of context sources to this call alone; null or absent for none. */
  readonly context?: Contribution | null;
  /** The line after the messages; it is not in the log. */
  readonly ephemeralInstruction: string | null;
  /** The length of the message list, without images. */
  readonly chars: number;
  /** The digest of the message list. */
  readonly digest: string;
  readonly temperature: number;
  readonly thinking: Thinking | null;
  readonly stop: readonly string[];
  readonly choice: ToolUse | null;
  /** True if the log may not contain the reply; it is then stored in the record. */
  readonly keepsReply: boolean;
}

/** The data that a call collects for its record: tries, times and usage. */
export interface CallCourse {
  /** Number of the step that made the call. */
  readonly step: number;
  readonly tries: CallTry[];
  /** The route and the max_tokens of the newest try; null before the first one. */
  route: ModelRoute | null;
  max_tokens: number | null;
  images: ImagesOfCall | null;
  started: number;
  /** Time of the first output; null for none. */
  first_token: number | null;
  /** Usage of the newest try that has any, and the cost of all tries. */
  usage: TokenCount | null;
  estimated: boolean;
  cost_usd: number | null;
}

/** Adds the record of a call that has ended to the rows of the run. `limited`: a limit has ended the call. */
export function recordCall(
  runContext: RunContext,
  words: CallWords,
  course: CallCourse,
  reply: ModelReply | null,
  limited: boolean,
): void {
  const { spec, billing, eventLog, deps } = runContext;
  const { step, tries, route, max_tokens, images, started, first_token, usage, estimated, cost_usd } = course;
  if (route === null) return;
  if (runContext.spec.trace !== undefined) endModelSpan(runContext, words, course, reply, limited);
  const { purpose, prefix, isOwn, instructions, shown, context = null, ephemeralInstruction } = words;
  const { chars, digest, temperature, thinking, stop, choice } = words;
  const isKept = spec.thread_key >= 0;
  const bodies = new Bodies(isKept ? billing.calls.given : null);
  if (isOwn) bodies.add(prefix.body, prefix.digest);
  const digests: CallFacts["digests"] = {
    ...prefix.digests,
    messages: digest,
    ...(instructions !== null && instructions !== "" && { instructions: bodies.add(instructions) }),
    ...(context && { context: bodies.add(JSON.stringify(context)) }),
    ...(ephemeralInstruction !== null && { nudge: bodies.add(ephemeralInstruction) }),
    ...(reply !== null && keepsReply(words, reply) && { reply: bodies.add(reply.text) }),
  };
  const facts: CallFacts = {
    purpose,
    agent: spec.agent.name,
    step,
    at: eventLog.nextSeq,
    route: route.id,
    parameters: {
      temperature,
      max_tokens,
      ...(thinking !== null && { thinking }),
      ...(stop.length > 0 && { stop }),
      ...(choice !== null && choice.tool_choice !== null && { tool_choice: choice.tool_choice }),
      ...(choice !== null &&
        choice.parallel_tool_calls !== null && { parallel_tool_calls: choice.parallel_tool_calls }),
    },
    digests,
    shown: isKept ? shownItems(shown, (message) => bodies.add(JSON.stringify(partsOf(message)))) : null,
    messages: shown.length,
    ...clearedOf(spec.agent.context.clear_tool_results, shown),
    ...filesOf(shown, images),
    chars,
    tries,
    started,
    first_token,
    ended: deps.env.now(),
    outcome: limited ? "limited" : (tries.at(-1)?.outcome ?? "error"),
    stop_reason: reply?.stop_reason ?? null,
    usage,
    ...(estimated && { estimated: true as const }),
    cost_usd,
  };
  const thread_key = isKept ? spec.thread_key : null;
  const row = { run_id: spec.run_id, thread_key, frame: prefix.digest, facts, bodies: bodies.texts };
  billing.calls.add(row, isOwn ? null : prefix);
}

/** Ends the span of a model call. */
function endModelSpan(
  runContext: RunContext,
  { purpose, temperature, shown }: CallWords,
  { route, tries, max_tokens, started, first_token, usage, estimated, cost_usd }: CallCourse,
  reply: ModelReply | null,
  limited: boolean,
): void {
  const { tracer, mask } = runContext.deps;
  const { recorded } = mask;
  const outcome = limited ? "limited" : (tries.at(-1)?.outcome ?? "error");
  runContext.span(() => ({
    name: spanNames.model(route?.model ?? ""),
    kind: "client",
    start: started,
    error: reply === null ? outcome : null,
    attributes: {
      [attributeNames.operation]: "chat",
      [attributeNames.provider]: route?.provider ?? "",
      [attributeNames.requestModel]: route?.model ?? "",
      [attributeNames.modelRoute]: route?.id ?? "",
      [attributeNames.purpose]: purpose,
      [attributeNames.temperature]: temperature,
      [attributeNames.tries]: tries.length,
      ...(max_tokens !== null && { [attributeNames.maxTokens]: max_tokens }),
      ...(first_token !== null && { [attributeNames.firstTokenMs]: first_token - started }),
      ...(usage !== null && {
        [attributeNames.inputTokens]: usage.input + usage.cacheRead + usage.cacheWrite,
        [attributeNames.outputTokens]: usage.output,
        [attributeNames.estimated]: estimated,
      }),
      ...(cost_usd !== null && { [attributeNames.cost]: cost_usd }),
      ...(reply !== null && { [attributeNames.finishReasons]: [reply.stop_reason] }),
      ...(reply === null && { [attributeNames.errorType]: outcome }),
      ...(tracer?.capturesContent && {
        [attributeNames.inputMessages]: contentText(
          recorded.value(shown.map(({ role, content }) => ({ role, content }))),
        ),
        ...(reply !== null && { [attributeNames.outputMessages]: contentText(recorded.text(reply.text)) }),
      }),
    },
  }));
}

/** A reply with tool calls is always in the log. */
function keepsReply({ keepsReply }: CallWords, { tool_calls }: ModelReply): boolean {
  return keepsReply && tool_calls.length === 0;
}

/** The texts of one row. */
class Bodies {
  /** Digests of texts that the run has stored before; null if nothing is stored. */
  readonly #given: Set<string> | null;
  #texts: Record<string, string> | null = null;
  #length = 0;

  constructor(given: Set<string> | null) {
    this.#given = given;
  }

  get texts(): Readonly<Record<string, string>> | null {
    return this.#texts;
  }

  /** Adds a text unless it is stored already, and returns its digest. */
  add(text: string, digest = digestOf(text)): string {
    if (this.#given === null || this.#given.has(digest) || this.#length + text.length > bodiesMax) return digest;
    this.#given.add(digest);
    this.#length += text.length;
    this.#texts ??= {};
    this.#texts[digest] = text;
    return digest;
  }
}

/**
 * Describes messages by their positions in the log, in their order. Consecutive messages that were read from the log together become one
 * range. Messages that are in no log are passed to `words`, which returns a digest.
 */
function shownItems(messages: readonly ContextMessage[], words: (message: ContextMessage) => string): ShownItem[] {
  const items: ShownItem[] = [];
  for (let at = 0; at < messages.length; ) {
    const message = messages[at] as ContextMessage;
    if (message.place >= 0) {
      let end = at + 1;
      while (end < messages.length && (messages[end] as ContextMessage).place >= 0) end++;
      addRanges(items, messages, at, end);
      at = end;
      continue;
    }
    const seq = seqOf(message);
    if (seq < 0) items.push(words(message));
    else if (message.short === null || message.short === "cleared") items.push(seq);
    else items.push({ short: seq, ...message.short });
    at++;
  }
  return items;
}

/** Adds the ranges of messages that were read from the log. Their results may be sorted by call instead of by sequence number. */
function addRanges(items: ShownItem[], messages: readonly ContextMessage[], from: number, to: number): void {
  let [first, last] = [messages[from] as ContextMessage, messages[from] as ContextMessage];
  for (let at = from + 1; at < to; at++) {
    const message = messages[at] as ContextMessage;
    if (message.place < first.place) first = message;
    if (message.place > last.place) last = message;
  }
  if (last.place - first.place + 1 === to - from) {
    items.push([first.seq, last.seq]);
    return;
  }
  const sorted = messages.slice(from, to).sort((a, b) => a.place - b.place);
  let begin = 0;
  for (let at = 1; at <= sorted.length; at++) {
    if (at < sorted.length && sorted[at]?.place === (sorted[at - 1]?.place ?? 0) + 1) continue;
    items.push([(sorted[begin] as ContextMessage).seq, (sorted[at - 1] as ContextMessage).seq]);
    begin = at;
  }
}

/** The fields of a message that the log does not contain. */
function partsOf({ role, content, tool_calls, tool_call_id, attachments, thoughts }: ContextMessage) {
  return {
    role,
    content,
    ...(tool_calls !== null && { tool_calls }),
    ...(tool_call_id !== null && { tool_call_id }),
    ...(attachments !== null && { attachments }),
    ...(thoughts !== null && { thoughts }),
  };
}

function clearedOf(rule: CallFacts["cleared"] | null, shown: readonly ContextMessage[]): Pick<CallFacts, "cleared"> {
  return rule && shown.some(({ short }) => short === "cleared") ? { cleared: rule } : {};
}

function filesOf(shown: readonly ContextMessage[], images: ImagesOfCall | null): Pick<CallFacts, "files"> {
  if (images === null || images.size === 0) return {};
  const files: ShownFiles[] = [];
  for (const [message, one] of shown.entries()) {
    const given = images.get(one);
    if (given === undefined) continue;
    const ofMessage = given.images.map((image, at) => ({
      attachment: given.attachments[at] ?? at,
      digest: digestOf(image.kind === "url" ? image.url : image.base64),
    }));
    files.push({ message, images: ofMessage, omitted: given.omitted });
  }
  return { files };
}
