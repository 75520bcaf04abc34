import type { Breach } from "../../governance/budget.ts";
import { estimatedTokens } from "../../governance/output-count.ts";
import { type ContextMessage, contextMessage, thoughtsLength } from "../log/message.ts";
import { type CallObserver, callModel } from "../models/call.ts";
import { type ModelEvents, ModelFailure, type ModelReply } from "../models/provider.ts";
import { estimatedImageTokens, imagesFor, imagesOf } from "./call-images.ts";
import { systemText, wireMessages } from "./context/working-set.ts";
import { type ReleasedReply, releaseReply, tellReleased, unheld } from "./held-reply.ts";
import { LimitReached, MeteredCall } from "./metered-call.ts";
import type { RunScope } from "./scope.ts";
import { toolListJson } from "./tool-list.ts";

/**
 * What a model call came to: a reply, a limit that did not allow it or ended it, the provider's failure, or that somebody stopped it.
 * `partial` is what was shown of it by then.
 */
export type StepOutcome =
  | { readonly kind: "reply"; readonly reply: ReleasedReply }
  | { readonly kind: "breach"; readonly breach: Breach; readonly partial: string }
  | { readonly kind: "failure"; readonly failure: ModelFailure; readonly partial: string }
  | { readonly kind: "stopped"; readonly partial: string };

/** Calls the model with what it is to be shown, within the run's budget, and meters what was used. `nudge` comes last and is not kept. */
export async function modelStep(
  scope: RunScope,
  shown: readonly ContextMessage[],
  nudge: string | null,
): Promise<StepOutcome> {
  const { plan, deps } = scope;
  scope.show(shown);
  const nudged = nudge === null ? shown : [...shown, contextMessage({ role: "user", content: nudge })];
  const system = systemText(plan.systemPrompt, plan.response?.instructions ?? null, shown);
  const words = wireMessages(system, nudged);
  const found = imagesOf(scope, shown);
  const images = found instanceof Promise ? await found : found;
  if (images === null) return { kind: "stopped", partial: "" };
  const tools = toolListJson(plan.agent);
  const characters = words.length + (tools?.length ?? 0) + thoughtCharacters(shown);
  const metered = new MeteredCall(scope, estimatedTokens(characters) + estimatedImageTokens(images));
  const isHeld = scope.pipeline.holdsReplies;
  let reply: ModelReply;
  try {
    const called = await callModel(
      {
        routes: plan.routes,
        provider: (wanted) => deps.models.provider(wanted),
        request: (wanted) => {
          const given = images.size === 0 ? images : imagesFor(scope, wanted, images);
          return {
            route: wanted,
            messages: images.size === 0 ? words : wireMessages(system, nudged, given),
            images: given,
            tools,
            temperature: plan.temperature,
            max_tokens: metered.begin(wanted),
            system,
            shown: nudged,
            offers: plan.agent.tools,
            thinking: plan.thinking,
            cache: plan.agent.model.cache,
          };
        },
        events: isHeld ? held(scope, metered) : shownAtOnce(scope, metered),
        cancellation: scope.cancellation,
        observer: observer(scope),
        isCut: () => metered.breach !== null,
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
    if (scope.cancellation.cancelled) return { kind: "stopped", partial };
    if (metered.breach !== null) return cutOff(scope, metered, metered.breach, error.partial);
    return { kind: "failure", failure: error, partial };
  }
  metered.answered(reply);
  if (metered.breach !== null) return cutOff(scope, metered, metered.breach, reply.text);
  if (!isHeld) return { kind: "reply", reply: unheld(reply) };
  const released = await scope.cancellation.orStopped(releaseReply(scope, reply));
  if (released === null) return { kind: "stopped", partial: "" };
  tellReleased(scope, released);
  return { kind: "reply", reply: released };
}

/** The model has used up what a limit left it. What it has said by then is the reply's beginning, released like any other. */
async function cutOff(scope: RunScope, metered: MeteredCall, breach: Breach, said: string): Promise<StepOutcome> {
  scope.route = metered.route;
  const text = metered.shownOf(said);
  if (!scope.pipeline.holdsReplies) return { kind: "breach", breach, partial: text };
  const reply: ModelReply = { text, reasoning: "", tool_calls: [], stop_reason: "unknown", usage: null };
  const released = await scope.cancellation.orStopped(releaseReply(scope, reply));
  if (released === null) return { kind: "stopped", partial: "" };
  tellReleased(scope, released);
  return { kind: "breach", breach, partial: released.text };
}

/** What the model says goes out as it comes, as far as the limits reach. */
function shownAtOnce(scope: RunScope, metered: MeteredCall): ModelEvents {
  return {
    text(delta, pieces) {
      const shown = metered.takeText(delta, pieces);
      if (shown !== "") scope.say(shown);
    },
    reasoning(delta, pieces) {
      const shown = metered.take(delta, pieces);
      if (shown !== "") scope.think(shown);
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

function observer(scope: RunScope): CallObserver {
  const { metrics } = scope;
  return {
    finished: (route, outcome, seconds) =>
      metrics.observe("svc_model_call_seconds", { model: route.id, status: outcome }, seconds),
    retried: (route, status) =>
      metrics.count("svc_model_retry_total", { provider: route.provider, status: String(status) }),
    timedOut: (route) => metrics.count("svc_model_timeout_total", { provider: route.provider }),
    switched: (from, to) =>
      metrics.count("svc_model_switch_total", { from: from.id, to: to.id, reason: "provider_error" }),
  };
}
