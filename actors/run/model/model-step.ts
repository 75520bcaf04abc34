import type { Breach } from "../../../governance/budget.ts";
import { estimatedTokens } from "../../../governance/output-count.ts";
import type { AnswerSchema } from "../../../manifests/answer-schema.ts";
import { type ContextMessage, thoughtsLength } from "../../log/message.ts";
import { chatMessages } from "../../models/chat-messages.ts";
import type { ImagesOfCall } from "../../models/images.ts";
import { ModelFailure, type ModelReply, type ToolUse } from "../../models/provider.ts";
import type { RunContext } from "../context/run-context.ts";
import { type Contribution, contributions, withContributed, withLast, withMaterial } from "../prompt/context-source.ts";
import { systemText } from "../prompt/working-set.ts";
import { digestOf, prefixOfAgent, toolListJson } from "../spec/prompt-prefix.ts";
import { toolUse } from "../spec/request-tools.ts";
import {
  auditRefused,
  bufferedOutput,
  type ReleasedReply,
  releaseReply,
  type SentThought,
  SentThoughts,
  streamedOutput,
  tellReply,
  unheld,
} from "./buffered-reply.ts";
import { estimatedImageTokens, imagesFor, imagesOf, refuseImages } from "./call-images.ts";
import { compare } from "./likeness.ts";
import { LimitReached, MeteredCall } from "./metered-call.ts";
import { OutputGate } from "./output-gate.ts";

/**
 * The outcome of a model call: a reply, a limit that prevented or ended it, a failure of the provider, or a stop. `partial` is the
 * published text and `thoughts` are the published thoughts.
 */
export type StepOutcome =
  | { readonly kind: "reply"; readonly reply: ReleasedReply }
  | (Shown & { readonly kind: "breach"; readonly breach: Breach })
  | (Shown & { readonly kind: "failure"; readonly failure: ModelFailure })
  | (Shown & { readonly kind: "stopped" });

interface Shown {
  readonly partial: string;
  readonly thoughts?: readonly SentThought[];
}

/** Shortens the messages after a provider has refused them as too long; null if that is not possible. */
export type MendOverflow = (runContext: RunContext) => Promise<readonly ContextMessage[] | null>;

/**
 * Calls the model with the given messages within the run's budget, and meters the call. `ephemeralInstruction` is the last message and is
 * not logged. With `mend`, a prompt that is too long is shortened once. The unused part of a parent's reservation is returned.
 */
export async function modelStep(
  runContext: RunContext,
  shown: readonly ContextMessage[],
  ephemeralInstruction: string | null,
  mend: MendOverflow | null = null,
): Promise<StepOutcome> {
  runContext.branch.show(shown);
  const prepared = preparePrompt(runContext, shown, ephemeralInstruction);
  const prompt = prepared instanceof Promise ? await prepared : prepared;
  if (prompt === null) return unspoken;
  const buffers = isBuffered(runContext);
  const call: StepCall = {
    runContext,
    prompt,
    metered: meterOf(runContext, prompt),
    sent: new SentThoughts(),
    isBuffered: buffers,
    gate: buffers || !runContext.pipeline.changesReplies ? null : await OutputGate.of(runContext),
    mend,
  };
  try {
    const refused = runContext.billing.budget.parentBudget === null ? null : await borrowShare(call);
    if (refused !== null) return refused;
    let reply: ModelReply;
    try {
      reply = await replyTo(call);
    } catch (error) {
      return await outcomeOfFailure(call, error);
    }
    return await outcomeOfReply(call, reply);
  } finally {
    call.metered.repay();
  }
}

/** One model call of a step. */
interface StepCall {
  readonly runContext: RunContext;
  readonly prompt: Prompt;
  readonly metered: MeteredCall;
  /** The thoughts that clients have received. */
  readonly sent: SentThoughts;
  /** True if clients receive nothing of the reply before it is complete. */
  readonly isBuffered: boolean;
  /** The controls that change the reply as it arrives; null without any, and for a buffered reply. */
  readonly gate: OutputGate | null;
  readonly mend: MendOverflow | null;
}

/** The content of the request, before a route is chosen. */
interface Prompt {
  /** Messages of the branch, then those that are not logged. */
  readonly shown: readonly ContextMessage[];
  readonly messages: readonly ContextMessage[];
  readonly context: Contribution | null;
  readonly ephemeralInstruction: string | null;
  readonly system: string;
  /** System text and messages as JSON, without images. */
  readonly json: string;
  readonly images: ImagesOfCall;
  readonly choice: ToolUse | null;
  readonly answer: AnswerSchema | null;
}

/** Returns the prompt of a step; null if the run is stopped while its images are read. */
function preparePrompt(
  runContext: RunContext,
  shown: readonly ContextMessage[],
  ephemeralInstruction: string | null,
): Prompt | Promise<Prompt | null> {
  const { spec, step, store, eventLog, deps, answerSchema, branch } = runContext;
  const contributed = contributions(deps.contextSources, () => ({
    agent: spec.agent,
    principal: spec.principal,
    store,
    threadId: eventLog.threadId,
    checkout: runContext.checkout,
    branch: branch.messages,
    shown,
    compare: (query, texts, route) => compare(runContext, query, texts, route),
    taint: (sources) => runContext.run.taint.add(sources),
  }));
  const choice = spec.options === null ? null : toolUse(spec.options, !step.hasCalledModel);
  step.hasCalledModel = true;
  const answer = step.replyMode === "hidden" ? null : answerSchema;
  const promptOf = (given: Contribution | null, images: ImagesOfCall): Prompt => {
    const suggested = branch.suggested?.text ?? null;
    const context = withMaterial(withMaterial(given, step.material), suggested === null ? null : [suggested]);
    const messages = withLast(shown, context, ephemeralInstruction);
    const own = systemText(spec.systemPrompt, spec.response?.instructions ?? null, shown);
    const system = context === null ? own : withContributed(own, context);
    const json = chatMessages(system, messages);
    return { shown, messages, context, ephemeralInstruction, system, json, images, choice, answer };
  };
  const found = shown.some(({ attachments }) => attachments !== null) ? imagesOf(runContext, shown) : noImages;
  // Most prompts have neither, and waiting for nothing would cost a turn of the microtask queue.
  if (!(contributed instanceof Promise) && !(found instanceof Promise)) return promptOf(contributed, found);
  return Promise.all([contributed, found]).then(([context, images]) => images && promptOf(context, images));
}

/** Returns the meter of the call, which also records it. */
function meterOf(runContext: RunContext, prompt: Prompt): MeteredCall {
  const { spec, step } = runContext;
  const { shown, context, ephemeralInstruction, json, images, choice, answer } = prompt;
  const characters = json.length + (toolListJson(runContext.offered)?.length ?? 0) + thoughtCharacters(shown);
  const estimate = estimatedTokens(characters) + (images.size === 0 ? 0 : estimatedImageTokens(images));
  const bounds = { routes: step.routes, max_tokens: spec.max_tokens };
  return new MeteredCall(runContext, step.promptTokens ?? estimate, bounds, {
    purpose: "step",
    prefix: prefixOfAgent(runContext.offered, spec.systemPrompt, answer),
    isOwn: hasOwnPrefix(runContext),
    instructions: spec.response?.instructions ?? null,
    ...{ shown, context, ephemeralInstruction, choice },
    stop: spec.options?.stop ?? noStop,
    chars: json.length,
    digest: digestOf(json),
    temperature: spec.temperature,
    thinking: spec.thinking,
    // A buffered reply may be discarded for another one, so that only the record has it.
    keepsReply: isBuffered(runContext),
  });
}

/** Reserves the share of the parent's budget. Null on success. */
async function borrowShare({ runContext, metered }: StepCall): Promise<StepOutcome | null> {
  const breach = await metered.borrow();
  if (runContext.cancellation.cancelled || breach === "gone") return unspoken;
  return breach === null ? null : { kind: "breach", breach, partial: "" };
}

/** Calls the model. Rejects like `MeteredCall.call`. */
async function replyTo({ runContext, prompt, metered, sent, isBuffered, gate, mend }: StepCall): Promise<ModelReply> {
  const { spec } = runContext;
  const { system, messages, json, images, choice, answer } = prompt;
  const stop = spec.options?.stop ?? noStop;
  try {
    const { reply, route } = await metered.call({
      request: (route, max_tokens) => {
        const given = images.size === 0 ? images : imagesFor(runContext, route, images);
        sent.begin();
        gate?.begin();
        return {
          route,
          messages: images.size === 0 ? json : chatMessages(system, messages, given),
          images: given,
          tools: toolListJson(runContext.offered),
          temperature: spec.temperature,
          max_tokens,
          system,
          shown: messages,
          offers: runContext.offered.tools,
          thinking: spec.thinking,
          cache: spec.agent.model.cache,
          answer,
          ...(choice !== null && { choice }),
          ...(stop.length > 0 && { stop }),
        };
      },
      events: isBuffered ? bufferedOutput(runContext, metered) : streamedOutput(runContext, metered, sent, gate),
      mendsOverflow: mend !== null,
    });
    runContext.step.route = route;
    return reply;
  } finally {
    runContext.stream.flush();
  }
}

/** Settles a complete reply. A buffered one passes the controls before it is published. */
async function outcomeOfReply(
  { runContext, metered, sent, isBuffered, gate }: StepCall,
  reply: ModelReply,
): Promise<StepOutcome> {
  metered.answered(reply);
  if (metered.breach !== null) return cutOff(runContext, metered, metered.breach, reply.text, sent.all, gate);
  if (gate !== null) return { kind: "reply", reply: gate.end(reply, sent) };
  if (!isBuffered) return { kind: "reply", reply: unheld(reply, sent) };
  const released = await runContext.cancellation.orStopped(releaseReply(runContext, reply));
  if (released === null) return unspoken;
  auditRefused(runContext, released);
  // In the other modes the pattern publishes the reply itself, if at all.
  if (runContext.step.replyMode === "streamed") tellReply(runContext, released);
  return { kind: "reply", reply: released };
}

/** Settles a call without a complete reply. Throws a defect again. */
async function outcomeOfFailure(call: StepCall, error: unknown): Promise<StepOutcome> {
  const { runContext, prompt, metered, sent, isBuffered, gate, mend } = call;
  const { cancellation, step } = runContext;
  if (error instanceof LimitReached) return { kind: "breach", breach: error.breach, partial: "" };
  metered.failed();
  if (!(error instanceof ModelFailure)) throw error;
  // Text that was not released was never published.
  const partial = isBuffered ? "" : (gate?.releasedText ?? metered.shownOf(error.partial));
  const thoughts = sent.all;
  if (cancellation.cancelled || metered.breach === null) gate?.verdicts();
  if (cancellation.cancelled) return { kind: "stopped", partial, thoughts };
  if (metered.breach !== null) return cutOff(runContext, metered, metered.breach, error.partial, thoughts, gate);
  if (error.overflow && error.partial === "" && mend !== null) {
    // The summary and the repeated call reserve their own shares.
    metered.repay();
    const shorter = await mend(runContext);
    if (cancellation.cancelled) return { kind: "stopped", partial, thoughts };
    // Without a shortened prompt, other models may still have a larger window.
    if (shorter !== null || step.routes.length > 1)
      return modelStep(runContext, shorter ?? prompt.shown, prompt.ephemeralInstruction);
  }
  if (error.refusesImage && prompt.images.size > 0) await refuseImages(runContext);
  return { kind: "failure", failure: error, partial, thoughts };
}

function isBuffered({ pipeline, step }: RunContext): boolean {
  return pipeline.holdsReplies || step.replyMode !== "streamed";
}

/** A stop before any output. */
const unspoken: StepOutcome = { kind: "stopped", partial: "" };

/** Ends a reply at a limit. The text so far is released like any other. */
async function cutOff(
  runContext: RunContext,
  metered: MeteredCall,
  breach: Breach,
  said: string,
  thoughts: readonly SentThought[],
  gate: OutputGate | null,
): Promise<StepOutcome> {
  runContext.step.route = metered.route;
  gate?.verdicts();
  const text = gate?.releasedText ?? metered.shownOf(said);
  if (runContext.step.replyMode !== "streamed") return { kind: "breach", breach, partial: "" };
  if (!runContext.pipeline.holdsReplies) return { kind: "breach", breach, partial: text, thoughts };
  const reply: ModelReply = { text, reasoning: "", tool_calls: [], stop_reason: "unknown", usage: null };
  const released = await runContext.cancellation.orStopped(releaseReply(runContext, reply));
  if (released === null) return { kind: "stopped", partial: "" };
  auditRefused(runContext, released);
  tellReply(runContext, released);
  return { kind: "breach", breach, partial: released.text };
}

const noStop: readonly string[] = [];
const noImages: ImagesOfCall = new Map();

/** True if few other runs have the same prompt prefix: their requests, or their choice of tools, would have to be equal. */
function hasOwnPrefix({ spec: { agent, options }, offered }: RunContext): boolean {
  if (offered !== agent) return true;
  return options !== null && (options.tools.length > 0 || options.response_format !== null);
}

/** Characters of the thoughts that are sent back to their model. */
function thoughtCharacters(shown: readonly ContextMessage[]): number {
  let characters = 0;
  for (const { thoughts } of shown) if (thoughts !== null) characters += thoughtsLength(thoughts);
  return characters;
}
