import type { Breach } from "../../../governance/budget.ts";
import { estimatedTokens } from "../../../governance/output-count.ts";
import { type ContextMessage, contextMessage, thoughtsLength } from "../../log/message.ts";
import { refusedImagesEntry, showsImages } from "../../log/refused-images.ts";
import { callModel } from "../../models/call.ts";
import { chatMessages } from "../../models/chat-messages.ts";
import { type ModelEvents, ModelFailure, type ModelReply } from "../../models/provider.ts";
import { systemText } from "../context/working-set.ts";
import { digestOf, frameOfAgent } from "../plan/call-frame.ts";
import type { RunPlan } from "../plan/plan.ts";
import { toolUse } from "../plan/request-tools.ts";
import { toolListJson } from "../plan/tool-list.ts";
import type { RunScope } from "../scope/scope.ts";
import { estimatedImageTokens, imagesFor, imagesOf } from "./call-images.ts";
import { auditRefused, type ReleasedReply, releaseReply, tellReply, unheld } from "./held-reply.ts";
import { LimitReached, MeteredCall } from "./metered-call.ts";
import { type ToldThought, ToldThoughts } from "./told-thoughts.ts";

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
  readonly thoughts?: readonly ToldThought[];
}

/** Shortens what the model is shown when a provider has refused it as too long; null when it cannot be shortened. */
export type MendOverflow = (scope: RunScope) => Promise<readonly ContextMessage[] | null>;

/**
 * Calls the model with what it is to be shown, within the run's budget, and meters what was used. `nudge` comes last and is not kept.
 * A prompt that is too long is mended once, where there is a way. What is not used of a budget that is another's is given back.
 */
export function modelStep(
  scope: RunScope,
  shown: readonly ContextMessage[],
  nudge: string | null,
  mend: MendOverflow | null = null,
): Promise<StepOutcome> {
  let metered: MeteredCall | null = null;
  const step = callOnce(scope, shown, nudge, mend, (call) => {
    metered = call;
  });
  return scope.budget.lender === null ? step : step.finally(() => metered?.repay());
}

async function callOnce(
  scope: RunScope,
  shown: readonly ContextMessage[],
  nudge: string | null,
  mend: MendOverflow | null,
  onBorrow: (call: MeteredCall) => void,
): Promise<StepOutcome> {
  const { plan, deps } = scope;
  scope.show(shown);
  const nudged = nudge === null ? shown : [...shown, contextMessage({ role: "user", content: nudge })];
  const system = systemText(plan.systemPrompt, plan.response?.instructions ?? null, shown);
  const words = chatMessages(system, nudged);
  const found = imagesOf(scope, shown);
  const images = found instanceof Promise ? await found : found;
  if (images === null) return { kind: "stopped", partial: "" };
  const tools = toolListJson(plan.agent);
  const stop = plan.options?.stop ?? noStop;
  const choice = toolUse(plan.options, !scope.hasCalledModel);
  scope.hasCalledModel = true;
  const characters = words.length + (tools?.length ?? 0) + thoughtCharacters(shown);
  const estimate = estimatedTokens(characters) + estimatedImageTokens(images);
  const answer = scope.voice === "silent" ? null : scope.answerSchema;
  const isHeld = scope.pipeline.holdsReplies || scope.voice !== "aloud";
  const bounds = { routes: scope.routes, max_tokens: plan.max_tokens };
  const metered = new MeteredCall(scope, scope.promptTokens ?? estimate, bounds, {
    purpose: "step",
    frame: frameOfAgent(plan.agent, plan.systemPrompt, answer),
    isOwn: hasOwnFrame(plan),
    instructions: plan.response?.instructions ?? null,
    ...{ shown, nudge, stop, choice },
    chars: words.length,
    digest: digestOf(words),
    temperature: plan.temperature,
    thinking: plan.thinking,
    // What is held may be put aside for another answer.
    keepsReply: isHeld,
  });
  if (scope.budget.lender !== null) {
    onBorrow(metered);
    const breach = await metered.borrow();
    if (scope.cancellation.cancelled || breach === "gone") return { kind: "stopped", partial: "" };
    if (breach !== null) return { kind: "breach", breach, partial: "" };
  }
  const told = new ToldThoughts();
  let reply: ModelReply;
  try {
    const called = await callModel(
      {
        routes: scope.routes,
        provider: (wanted) => deps.models.provider(wanted),
        request: (wanted) => {
          const given = images.size === 0 ? images : metered.shows(imagesFor(scope, wanted, images));
          told.begin();
          return {
            route: wanted,
            messages: images.size === 0 ? words : chatMessages(system, nudged, given),
            images: given,
            tools,
            temperature: plan.temperature,
            max_tokens: metered.begin(wanted),
            system,
            shown: nudged,
            offers: plan.agent.tools,
            thinking: plan.thinking,
            cache: plan.agent.model.cache,
            answer,
            ...(choice !== null && { choice }),
            ...(stop.length > 0 && { stop }),
          };
        },
        events: isHeld ? held(scope, metered) : shownAtOnce(scope, metered, told),
        cancellation: scope.cancellation,
        observer: metered.observer,
        isCut: () => metered.breach !== null,
        ...(scope.budget.lender !== null && { again: () => metered.again() }),
        mendsOverflow: mend !== null,
        onCall: (call) => {
          scope.call = call;
          if (metered.breach !== null) call?.abort();
        },
      },
      deps.env,
    );
    scope.passOn();
    scope.route = called.route;
    reply = called.reply;
  } catch (error) {
    scope.passOn();
    if (error instanceof LimitReached) return { kind: "breach", breach: error.breach, partial: "" };
    metered.failed();
    if (!(error instanceof ModelFailure)) throw error;
    // What was held and not released was not said.
    const partial = isHeld ? "" : metered.shownOf(error.partial);
    const thoughts = told.all;
    if (scope.cancellation.cancelled) return { kind: "stopped", partial, thoughts };
    if (metered.breach !== null) return cutOff(scope, metered, metered.breach, error.partial, thoughts);
    if (error.overflow && error.partial === "" && mend !== null) {
      // Its summary and the call behind it ask for their own.
      metered.repay();
      const shorter = await mend(scope);
      if (scope.cancellation.cancelled) return { kind: "stopped", partial, thoughts };
      // Without a mend, models that are left may take more.
      if (shorter !== null || scope.routes.length > 1) return modelStep(scope, shorter ?? shown, nudge);
    }
    if (error.refusesImage && images.size > 0) await refuseImages(scope);
    return { kind: "failure", failure: error, partial, thoughts };
  }
  metered.answered(reply);
  if (metered.breach !== null) return cutOff(scope, metered, metered.breach, reply.text, told.all);
  if (!isHeld) return { kind: "reply", reply: unheld(reply, told) };
  const released = await scope.cancellation.orStopped(releaseReply(scope, reply));
  if (released === null) return { kind: "stopped", partial: "" };
  auditRefused(scope, released);
  // What a pattern holds back it passes on itself, if at all.
  if (scope.voice === "aloud") tellReply(scope, released);
  return { kind: "reply", reply: released };
}

/** Notes that later requests are to leave out the images of the newest message that shows some. */
async function refuseImages({ eventLog, plan, memberOf, run }: RunScope): Promise<void> {
  const newest = plan.branch.findLast(showsImages);
  // What the tools of a pattern's member have drawn is shown in no later turn.
  const isOfMember = memberOf !== null && newest?.role === "tool" && newest.entry !== null;
  if (newest === undefined || isOfMember || run.hasRefusedImages) return;
  // Members side by side are shown the same message.
  run.hasRefusedImages = true;
  await eventLog.append([refusedImagesEntry()], []);
}

/** The model has used up what a limit left it. What it has said by then is the reply's beginning, released like any other. */
async function cutOff(
  scope: RunScope,
  metered: MeteredCall,
  breach: Breach,
  said: string,
  thoughts: readonly ToldThought[],
): Promise<StepOutcome> {
  scope.route = metered.route;
  const text = metered.shownOf(said);
  if (scope.voice !== "aloud") return { kind: "breach", breach, partial: "" };
  if (!scope.pipeline.holdsReplies) return { kind: "breach", breach, partial: text, thoughts };
  const reply: ModelReply = { text, reasoning: "", tool_calls: [], stop_reason: "unknown", usage: null };
  const released = await scope.cancellation.orStopped(releaseReply(scope, reply));
  if (released === null) return { kind: "stopped", partial: "" };
  auditRefused(scope, released);
  tellReply(scope, released);
  return { kind: "breach", breach, partial: released.text };
}

const noStop: readonly string[] = [];

/** Whether the request has brought along some of what all its calls have in common. */
function hasOwnFrame({ options }: RunPlan): boolean {
  return options !== null && (options.tools.length > 0 || options.response_format !== null);
}

/** What the model says goes out as it comes, as far as the limits reach. */
function shownAtOnce(scope: RunScope, metered: MeteredCall, told: ToldThoughts): ModelEvents {
  return {
    text(delta, pieces) {
      const shown = metered.takeText(delta, pieces);
      if (shown === "") return;
      told.say(shown);
      scope.say(shown);
    },
    reasoning(delta, pieces) {
      const shown = metered.take(delta, pieces);
      if (shown !== "") scope.think(told.think(shown));
    },
    calls: (characters, pieces) => void metered.takeCharacters(characters, pieces),
  };
}

/** What the model says is gathered by its provider; those who wait are told once that it speaks. */
function held(scope: RunScope, metered: MeteredCall): ModelEvents {
  let isTold = false;
  const tell = (): void => {
    if (!isTold) scope.tellHeld();
    isTold = true;
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
