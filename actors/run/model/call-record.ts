import type { TokenCount } from "../../../bus/protocol/model-reply.ts";
import { costOf } from "../../../governance/usage.ts";
import type { ModelPrice, ModelRoute } from "../../../manifests/registries.ts";
import type { CallFacts, CallTry, ShownFiles } from "../../../storage/tables/model-calls.ts";
import type { ContextMessage } from "../../log/message.ts";
import type { CallObserver } from "../../models/call.ts";
import type { ImagesOfCall } from "../../models/images.ts";
import type { ModelReply, ToolUse } from "../../models/provider.ts";
import type { Thinking } from "../../models/thinking.ts";
import type { RunContext } from "../context/run-context.ts";
import type { Contribution } from "../prompt/context-source.ts";
import { shownItems } from "../prompt/shown-items.ts";
import { digestOf, type PromptPrefix } from "../spec/prompt-prefix.ts";

// The context record of a model call (decision 86: a call can be rebuilt from its record and the log). During the call little more than
// times is noted. Positions in the log are computed at the end, and the row commits with the reply.

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

/** Records one call, from its first try to its end. */
export class CallRecord {
  readonly #runContext: RunContext;
  readonly #words: CallWords;
  readonly #tries: CallTry[] = [];
  readonly #step: number;
  #started = 0;
  #firstToken: number | null = null;
  #route: ModelRoute | null = null;
  #told: number | null = null;
  #images: ImagesOfCall | null = null;
  #usage: TokenCount | null = null;
  #isEstimated = false;
  #cost: number | null = null;
  #isOver = false;

  constructor(runContext: RunContext, words: CallWords) {
    this.#runContext = runContext;
    this.#words = words;
    this.#step = runContext.step.number;
  }

  /** Wraps an observer to also record the outcome of each try. */
  observed(observer: CallObserver): CallObserver {
    return {
      ...observer,
      finished: (route, outcome, seconds) => {
        this.#tries.push({ route: route.id, outcome, ms: Math.round(seconds * 1000) });
        observer.finished(route, outcome, seconds);
      },
    };
  }

  /** Records the start of a try. `told` is the max_tokens in the request. */
  begin(route: ModelRoute, told: number | null): void {
    if (this.#route === null) this.#started = this.#runContext.deps.env.now();
    this.#route = route;
    this.#told = told;
  }

  /** Records the images of the call. */
  shows(images: ImagesOfCall): void {
    this.#images = images;
  }

  /** Records the time of the first output. */
  spoke(): void {
    this.#firstToken ??= this.#runContext.deps.env.now();
  }

  /** Records the usage of a try. */
  used(tokens: TokenCount, estimated: boolean, price: ModelPrice | null): void {
    this.#usage = tokens;
    this.#isEstimated = estimated;
    this.#cost = (this.#cost ?? 0) + costOf(tokens, price).total;
  }

  /** Ends the record. `limited`: a limit has ended the call. */
  end(reply: ModelReply | null, limited: boolean): void {
    const route = this.#route;
    if (route === null || this.#isOver) return;
    this.#isOver = true;
    const { spec, billing, eventLog, deps } = this.#runContext;
    const { context = null, ephemeralInstruction } = this.#words;
    const { purpose, prefix, isOwn, instructions, shown, chars, digest, temperature, thinking, stop, choice } =
      this.#words;
    const isKept = spec.thread_key >= 0;
    const bodies = new Bodies(isKept ? billing.calls.given : null);
    if (isOwn) bodies.add(prefix.body, prefix.digest);
    const digests: CallFacts["digests"] = {
      ...prefix.digests,
      messages: digest,
      ...(instructions !== null && instructions !== "" && { instructions: bodies.add(instructions) }),
      ...(context && { context: bodies.add(JSON.stringify(context)) }),
      ...(ephemeralInstruction !== null && { nudge: bodies.add(ephemeralInstruction) }),
      ...(reply !== null && keepsReply(this.#words, reply) && { reply: bodies.add(reply.text) }),
    };
    const facts: CallFacts = {
      purpose,
      agent: spec.agent.name,
      step: this.#step,
      at: eventLog.nextSeq,
      route: route.id,
      parameters: {
        temperature,
        max_tokens: this.#told,
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
      ...filesOf(shown, this.#images),
      chars,
      tries: this.#tries,
      started: this.#started,
      first_token: this.#firstToken,
      ended: deps.env.now(),
      outcome: limited ? "limited" : (this.#tries.at(-1)?.outcome ?? "error"),
      stop_reason: reply?.stop_reason ?? null,
      usage: this.#usage,
      ...(this.#isEstimated && { estimated: true as const }),
      cost_usd: this.#cost,
    };
    const thread_key = isKept ? spec.thread_key : null;
    const row = { run_id: spec.run_id, thread_key, frame: prefix.digest, facts, bodies: bodies.texts };
    billing.calls.add(row, isOwn ? null : prefix);
  }
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
