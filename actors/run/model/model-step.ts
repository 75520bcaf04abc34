import type { Breach } from "../../../governance/budget.ts";
import { estimatedTokens } from "../../../governance/output-count.ts";
import { type ContextMessage, thoughtsLength } from "../../log/message.ts";
import { refusedImagesEntry, showsImages } from "../../log/refused-images.ts";
import { callModel } from "../../models/call.ts";
import { chatMessages } from "../../models/chat-messages.ts";
import type { ImagesOfCall } from "../../models/images.ts";
import { type ModelEvents, ModelFailure, type ModelReply } from "../../models/provider.ts";
import type { RunContext } from "../context/run-context.ts";
import { contributions, withContributed, withLast } from "../prompt/context-source.ts";
import { systemText } from "../prompt/working-set.ts";
import { digestOf, prefixOfAgent, toolListJson } from "../spec/prompt-prefix.ts";
import { toolUse } from "../spec/request-tools.ts";
import type { RunSpec } from "../spec/run-spec.ts";
import {
  auditRefused,
  type ReleasedReply,
  releaseReply,
  type SentThought,
  SentThoughts,
  tellReply,
  unheld,
} from "./buffered-reply.ts";
import { estimatedImageTokens, imagesFor, imagesOf } from "./call-images.ts";
import { LimitReached, MeteredCall } from "./metered-call.ts";

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
export function modelStep(
  runContext: RunContext,
  shown: readonly ContextMessage[],
  ephemeralInstruction: string | null,
  mend: MendOverflow | null = null,
): Promise<StepOutcome> {
  let metered: MeteredCall | null = null;
  const step = callOnce(runContext, shown, ephemeralInstruction, mend, (call) => {
    metered = call;
  });
  return runContext.billing.budget.parentBudget === null ? step : step.finally(() => metered?.repay());
}

async function callOnce(
  runContext: RunContext,
  shown: readonly ContextMessage[],
  ephemeralInstruction: string | null,
  mend: MendOverflow | null,
  onBorrow: (call: MeteredCall) => void,
): Promise<StepOutcome> {
  const { spec, deps } = runContext;
  runContext.branch.show(shown);
  const contributed = contributions(deps.contextSources, () => ({
    agent: spec.agent,
    principal: spec.principal,
    store: runContext.store,
    threadId: runContext.eventLog.threadId,
    shown,
  }));
  const context = contributed instanceof Promise ? await contributed : contributed;
  const instructed = withLast(shown, context, ephemeralInstruction);
  const own = systemText(spec.systemPrompt, spec.response?.instructions ?? null, shown);
  const system = context === null ? own : withContributed(own, context);
  const words = chatMessages(system, instructed);
  const found = shown.some(({ attachments }) => attachments !== null) ? imagesOf(runContext, shown) : noImages;
  const images = found instanceof Promise ? await found : found;
  if (images === null) return { kind: "stopped", partial: "" };
  const tools = toolListJson(spec.agent);
  const stop = spec.options?.stop ?? noStop;
  const choice = spec.options === null ? null : toolUse(spec.options, !runContext.step.hasCalledModel);
  runContext.step.hasCalledModel = true;
  const characters = words.length + (tools?.length ?? 0) + thoughtCharacters(shown);
  const estimate = estimatedTokens(characters) + (images.size === 0 ? 0 : estimatedImageTokens(images));
  const answer = runContext.step.replyMode === "hidden" ? null : runContext.answerSchema;
  const isHeld = runContext.pipeline.holdsReplies || runContext.step.replyMode !== "streamed";
  const bounds = { routes: runContext.step.routes, max_tokens: spec.max_tokens };
  const metered = new MeteredCall(runContext, runContext.step.promptTokens ?? estimate, bounds, {
    purpose: "step",
    prefix: prefixOfAgent(spec.agent, spec.systemPrompt, answer),
    isOwn: hasOwnPrefix(spec),
    instructions: spec.response?.instructions ?? null,
    ...{ shown, context, ephemeralInstruction, stop, choice },
    chars: words.length,
    digest: digestOf(words),
    temperature: spec.temperature,
    thinking: spec.thinking,
    // A buffered reply may be discarded for another one, so that only the record has it.
    keepsReply: isHeld,
  });
  if (runContext.billing.budget.parentBudget !== null) {
    onBorrow(metered);
    const breach = await metered.borrow();
    if (runContext.cancellation.cancelled || breach === "gone") return { kind: "stopped", partial: "" };
    if (breach !== null) return { kind: "breach", breach, partial: "" };
  }
  const told = new SentThoughts();
  let reply: ModelReply;
  try {
    const called = await callModel(
      {
        routes: runContext.step.routes,
        provider: (wanted) => deps.models.provider(wanted),
        request: (wanted) => {
          const given = images.size === 0 ? images : metered.shows(imagesFor(runContext, wanted, images));
          told.begin();
          return {
            route: wanted,
            messages: images.size === 0 ? words : chatMessages(system, instructed, given),
            images: given,
            tools,
            temperature: spec.temperature,
            max_tokens: metered.begin(wanted),
            system,
            shown: instructed,
            offers: spec.agent.tools,
            thinking: spec.thinking,
            cache: spec.agent.model.cache,
            answer,
            ...(choice !== null && { choice }),
            ...(stop.length > 0 && { stop }),
          };
        },
        events: isHeld ? held(runContext, metered) : shownAtOnce(runContext, metered, told),
        cancellation: runContext.cancellation,
        observer: metered.observer,
        isCut: () => metered.breach !== null,
        ...(runContext.billing.budget.parentBudget !== null && { again: () => metered.again() }),
        mendsOverflow: mend !== null,
        onCall: (call) => {
          runContext.stream.call = call;
          if (metered.breach !== null) call?.abort();
        },
      },
      deps.env,
    );
    runContext.stream.flush();
    runContext.step.route = called.route;
    reply = called.reply;
  } catch (error) {
    runContext.stream.flush();
    if (error instanceof LimitReached) return { kind: "breach", breach: error.breach, partial: "" };
    metered.failed();
    if (!(error instanceof ModelFailure)) throw error;
    // Buffered text that was not released was never published.
    const partial = isHeld ? "" : metered.shownOf(error.partial);
    const thoughts = told.all;
    if (runContext.cancellation.cancelled) return { kind: "stopped", partial, thoughts };
    if (metered.breach !== null) return cutOff(runContext, metered, metered.breach, error.partial, thoughts);
    if (error.overflow && error.partial === "" && mend !== null) {
      // The summary and the repeated call reserve their own shares.
      metered.repay();
      const shorter = await mend(runContext);
      if (runContext.cancellation.cancelled) return { kind: "stopped", partial, thoughts };
      // Without a shortened prompt, other models may still have a larger window.
      if (shorter !== null || runContext.step.routes.length > 1)
        return modelStep(runContext, shorter ?? shown, ephemeralInstruction);
    }
    if (error.refusesImage && images.size > 0) await refuseImages(runContext);
    return { kind: "failure", failure: error, partial, thoughts };
  }
  metered.answered(reply);
  if (metered.breach !== null) return cutOff(runContext, metered, metered.breach, reply.text, told.all);
  if (!isHeld) return { kind: "reply", reply: unheld(reply, told) };
  const released = await runContext.cancellation.orStopped(releaseReply(runContext, reply));
  if (released === null) return { kind: "stopped", partial: "" };
  auditRefused(runContext, released);
  // In the other modes the pattern publishes the reply itself, if at all.
  if (runContext.step.replyMode === "streamed") tellReply(runContext, released);
  return { kind: "reply", reply: released };
}

/** Notes that later requests must omit the images of the newest message that has some. */
async function refuseImages({ eventLog, branch, askedBy, run }: RunContext): Promise<void> {
  const newest = branch.messages.findLast(showsImages);
  // Images from the tools of a sub-agent are not shown in later turns, so no note is needed.
  const isOfSubAgent = askedBy !== null && newest?.role === "tool" && newest.entry !== null;
  if (newest === undefined || isOfSubAgent || run.hasRefusedImages) return;
  // Parallel sub-agents share the message, so one note is enough.
  run.hasRefusedImages = true;
  await eventLog.append([refusedImagesEntry()], []);
}

/** Ends a reply at a limit. The text so far is released like any other. */
async function cutOff(
  runContext: RunContext,
  metered: MeteredCall,
  breach: Breach,
  said: string,
  thoughts: readonly SentThought[],
): Promise<StepOutcome> {
  runContext.step.route = metered.route;
  const text = metered.shownOf(said);
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

/** True if the request has added tools or a reply format to the prompt prefix. */
function hasOwnPrefix({ options }: RunSpec): boolean {
  return options !== null && (options.tools.length > 0 || options.response_format !== null);
}

/** Publishes output as it arrives, within the limits. */
function shownAtOnce(runContext: RunContext, metered: MeteredCall, told: SentThoughts): ModelEvents {
  return {
    text(delta, pieces) {
      const shown = metered.takeText(delta, pieces);
      if (shown === "") return;
      told.say(shown);
      runContext.stream.say(shown);
    },
    reasoning(delta, pieces) {
      const shown = metered.take(delta, pieces);
      if (shown !== "") runContext.stream.think(told.think(shown));
    },
    calls: (characters, pieces) => void metered.takeCharacters(characters, pieces),
  };
}

/** Buffers output in the provider. Clients get one progress frame when the output starts. */
function held(runContext: RunContext, metered: MeteredCall): ModelEvents {
  let isAnnounced = false;
  const tell = (): void => {
    if (!isAnnounced) runContext.stream.progress({ phase: "held" });
    isAnnounced = true;
  };
  return {
    text(delta, pieces) {
      metered.takeText(delta, pieces);
      tell();
    },
    reasoning(delta, pieces) {
      metered.take(delta, pieces);
      tell();
    },
    calls: (characters, pieces) => void metered.takeCharacters(characters, pieces),
  };
}

/** Characters of the thoughts that are sent back to their model. */
function thoughtCharacters(shown: readonly ContextMessage[]): number {
  let characters = 0;
  for (const { thoughts } of shown) if (thoughts !== null) characters += thoughtsLength(thoughts);
  return characters;
}
