import type { Breach } from "../../../governance/budget.ts";
import { estimatedTokens } from "../../../governance/output-count.ts";
import { type ContextMessage, contextMessage, thoughtsLength } from "../../log/message.ts";
import { refusedImagesEntry, showsImages } from "../../log/refused-images.ts";
import { callModel } from "../../models/call.ts";
import { chatMessages } from "../../models/chat-messages.ts";
import type { ImagesOfCall } from "../../models/images.ts";
import { type ModelEvents, ModelFailure, type ModelReply } from "../../models/provider.ts";
import type { RunContext } from "../context/run-context.ts";
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
 * What a model call came to: a reply, a limit that did not allow it or ended it, the provider's failure, or that somebody stopped it.
 * `partial` is what was shown of it by then, and `thoughts` what was shown of what it thought.
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

/** Shortens what the model is shown when a provider has refused it as too long; null when it cannot be shortened. */
export type MendOverflow = (runContext: RunContext) => Promise<readonly ContextMessage[] | null>;

/**
 * Calls the model with what it is to be shown, within the run's budget, and meters what was used. `ephemeralInstruction` comes
 * last and is not kept. A prompt that is too long is mended once, where there is a way. What is not used of a budget that is
 * another's is given back.
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
  const instructed =
    ephemeralInstruction === null ? shown : [...shown, contextMessage({ role: "user", content: ephemeralInstruction })];
  const system = systemText(spec.systemPrompt, spec.response?.instructions ?? null, shown);
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
    ...{ shown, ephemeralInstruction, stop, choice },
    chars: words.length,
    digest: digestOf(words),
    temperature: spec.temperature,
    thinking: spec.thinking,
    // What is held may be put aside for another answer.
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
    // What was held and not released was not said.
    const partial = isHeld ? "" : metered.shownOf(error.partial);
    const thoughts = told.all;
    if (runContext.cancellation.cancelled) return { kind: "stopped", partial, thoughts };
    if (metered.breach !== null) return cutOff(runContext, metered, metered.breach, error.partial, thoughts);
    if (error.overflow && error.partial === "" && mend !== null) {
      // Its summary and the call behind it ask for their own.
      metered.repay();
      const shorter = await mend(runContext);
      if (runContext.cancellation.cancelled) return { kind: "stopped", partial, thoughts };
      // Without a mend, models that are left may take more.
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
  // What a pattern holds back it passes on itself, if at all.
  if (runContext.step.replyMode === "streamed") tellReply(runContext, released);
  return { kind: "reply", reply: released };
}

/** Notes that later requests are to leave out the images of the newest message that shows some. */
async function refuseImages({ eventLog, branch, askedBy, run }: RunContext): Promise<void> {
  const newest = branch.messages.findLast(showsImages);
  // What the tools of a pattern's sub-agent have drawn is shown in no later turn.
  const isOfSubAgent = askedBy !== null && newest?.role === "tool" && newest.entry !== null;
  if (newest === undefined || isOfSubAgent || run.hasRefusedImages) return;
  // Sub-agents side by side are shown the same message.
  run.hasRefusedImages = true;
  await eventLog.append([refusedImagesEntry()], []);
}

/** The model has used up what a limit left it. What it has said by then is the reply's beginning, released like any other. */
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

/** Whether the request has brought along some of what all its calls have in common. */
function hasOwnPrefix({ options }: RunSpec): boolean {
  return options !== null && (options.tools.length > 0 || options.response_format !== null);
}

/** What the model says goes out as it comes, as far as the limits reach. */
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

/** What the model says is gathered by its provider; those who wait are told once that it speaks. */
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

/** Of thoughts that go back to their model. */
function thoughtCharacters(shown: readonly ContextMessage[]): number {
  let characters = 0;
  for (const { thoughts } of shown) if (thoughts !== null) characters += thoughtsLength(thoughts);
  return characters;
}
