import { type Breach, isBreach } from "../../governance/budget.ts";
import type { ModelPrice, ModelRoute } from "../../manifests/registries.ts";
import { type CallObserver, callModel } from "../models/call.ts";
import { ModelFailure, type ModelReply } from "../models/provider.ts";
import { type ContextMessage, contextMessage } from "./context/message.ts";
import { systemText, wireMessages } from "./context/working-set.ts";
import type { RunPlan } from "./plan.ts";
import type { RunScope } from "./scope.ts";
import { toolListJson } from "./tool-list.ts";

/** What a model call came to: a reply, a limit that did not allow it, or the provider's failure. */
export type StepOutcome =
  | { readonly kind: "reply"; readonly reply: ModelReply }
  | { readonly kind: "breach"; readonly breach: Breach }
  | { readonly kind: "failure"; readonly failure: ModelFailure };

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
  try {
    const { reply, route } = await callModel(
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
        events: { text: (delta) => scope.say(delta), reasoning: (delta) => scope.think(delta) },
        cancellation: scope.cancellation,
        observer: observer(scope),
        onCall: (call) => {
          scope.call = call;
        },
      },
      deps.env,
    );
    scope.passOn();
    scope.route = route;
    const price = priceOf(plan, route);
    scope.budget.settle(reserved, reply.usage, price);
    meter(scope, reply, route, price);
    return { kind: "reply", reply };
  } catch (error) {
    scope.passOn();
    scope.budget.settle(reserved, null, null);
    if (error instanceof ModelFailure) return { kind: "failure", failure: error };
    throw error;
  }
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
