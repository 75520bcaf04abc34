import { type Breach, isBreach } from "../../governance/budget.ts";
import type { ModelPrice, ModelRoute } from "../../manifests/registries.ts";
import { type ContextMessage, contextMessage } from "../log/message.ts";
import { type CallObserver, callModel } from "../models/call.ts";
import { type ModelEvents, ModelFailure, type ModelReply } from "../models/provider.ts";
import { systemText, wireMessages } from "./context/working-set.ts";
import { type ReleasedReply, releaseReply, tellReleased, unheld } from "./held-reply.ts";
import type { RunPlan } from "./plan.ts";
import type { RunScope } from "./scope.ts";
import { toolListJson } from "./tool-list.ts";

/**
 * What a model call came to: a reply, a limit that did not allow it, the provider's failure, or that somebody stopped it.
 * `partial` is what was shown of it by then.
 */
export type StepOutcome =
  | { readonly kind: "reply"; readonly reply: ReleasedReply }
  | { readonly kind: "breach"; readonly breach: Breach }
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
  const messages = wireMessages(systemText(plan.agent.systemPrompt, shown), nudged);
  const tools = toolListJson(plan.agent);
  const estimate = estimateTokens(messages.length + (tools?.length ?? 0));
  const reserved = scope.budget.reserve(estimate, plan.max_tokens, dearest(plan), deps.env.now());
  if (isBreach(reserved)) return { kind: "breach", breach: reserved };
  const isHeld = scope.pipeline.holdsReplies;
  let reply: ModelReply;
  try {
    const called = await callModel(
      {
        routes: plan.routes,
        provider: (wanted) => deps.models.provider(wanted),
        request: (wanted) => ({
          route: wanted,
          messages,
          tools,
          temperature: plan.temperature,
          max_tokens: reserved.maxOutputTokens,
        }),
        events: isHeld ? held(scope) : { text: (delta) => scope.say(delta), reasoning: (delta) => scope.think(delta) },
        cancellation: scope.cancellation,
        observer: observer(scope),
        onCall: (call) => {
          scope.call = call;
        },
      },
      deps.env,
    );
    scope.passOn();
    scope.route = called.route;
    reply = called.reply;
  } catch (error) {
    scope.passOn();
    scope.budget.settle(reserved, null, null);
    if (!(error instanceof ModelFailure)) throw error;
    // What was held and not released was not said.
    const partial = isHeld ? "" : error.partial;
    return scope.cancellation.cancelled ? { kind: "stopped", partial } : { kind: "failure", failure: error, partial };
  }
  const price = priceOf(plan, scope.route);
  scope.budget.settle(reserved, reply.usage, price);
  meter(scope, reply, scope.route, price);
  if (!isHeld) return { kind: "reply", reply: unheld(reply) };
  const released = await scope.cancellation.orStopped(releaseReply(scope, reply));
  if (released === null) return { kind: "stopped", partial: "" };
  tellReleased(scope, released);
  return { kind: "reply", reply: released };
}

/** What the model says is gathered by its provider; those who wait are told once that it speaks. */
function held(scope: RunScope): ModelEvents {
  let isTold = false;
  const tell = (): void => {
    if (!isTold) scope.tellHeld();
    isTold = true;
  };
  return { text: tell, reasoning: tell };
}

/** The rates of a route in this run: the manifest's own prices are for the manifest's own model. */
function priceOf(plan: RunPlan, route: ModelRoute): ModelPrice | null {
  return route.id === plan.agent.model.route.id ? plan.agent.model.price : route.price;
}

/** The rates to set money aside by: whoever answers, it will not cost more. */
function dearest(plan: RunPlan): ModelPrice | null {
  let price: ModelPrice | null = null;
  for (const route of plan.routes) {
    const candidate = priceOf(plan, route);
    if (candidate === null) continue;
    price =
      price === null
        ? candidate
        : {
            input: Math.max(price.input, candidate.input),
            output: Math.max(price.output, candidate.output),
            cache_read: Math.max(price.cache_read, candidate.cache_read),
            cache_write: Math.max(price.cache_write, candidate.cache_write),
          };
  }
  return price;
}

/** Four characters a token: the rule of thumb for setting aside; what counts is what the provider then reports. */
function estimateTokens(characters: number): number {
  return Math.ceil(characters / 4);
}

function meter(scope: RunScope, reply: ModelReply, route: ModelRoute, price: ModelPrice | null): void {
  const { metrics, plan, deps } = scope;
  // What is not known counts as nothing, so limits on it hold nobody back.
  const degraded = (reason: string) => metrics.count("svc_control_degraded_total", ["limits", metrics.label, reason]);
  if (reply.usage === null) {
    metrics.count("svc_model_unmetered_total", [metrics.label, route.id]);
    degraded("unmetered");
    return;
  }
  if (price === null) {
    metrics.count("svc_model_unpriced_total", [metrics.label, route.id]);
    degraded("unpriced");
  }
  metrics.count("svc_tokens_total", [metrics.label, route.id, "input"], reply.usage.input);
  metrics.count("svc_tokens_total", [metrics.label, route.id, "output"], reply.usage.output);
  scope.meter.add({
    env: deps.env,
    manifestId: plan.agent.name,
    route,
    price,
    threadId: scope.journal.threadId,
    requestId: plan.request_id,
    tokens: reply.usage,
  });
}

function observer(scope: RunScope): CallObserver {
  const { metrics } = scope;
  return {
    finished: (route, outcome, seconds) => metrics.observe("svc_model_call_seconds", [route.id, outcome], seconds),
    retried: (route, status) => metrics.count("svc_model_retry_total", [route.provider, String(status)]),
    timedOut: (route) => metrics.count("svc_model_timeout_total", [route.provider]),
    switched: (from, to) => metrics.count("svc_model_switch_total", [from.id, to.id, "provider_error"]),
  };
}
