import { type ThinkingLevel, thinkingLevels } from "../../bus/protocol/thinking.ts";
import { Type } from "../../bus/type.ts";
import {
  choice,
  flag,
  integer,
  modelIdHelp,
  nullable,
  number,
  optionalText,
  section,
  text,
  texts,
} from "../fields/fields.ts";
import { type Rule, when } from "../fields/rules.ts";
import { type CompileContext, defineSection, type SpecOf } from "../fields/section.ts";
import type { Path } from "../problems.ts";
import type { ModelPrice, ModelRoute } from "../registries.ts";
import type { AuthSpec } from "./auth.ts";
import { type DeciderSpec, needsDecider, refuseWordsAlone } from "./decider.ts";
import type { LimitsSpec } from "./limits.ts";
import { checkProvider, checkRates, checkToolCount, findRoute, namedRoute } from "./model-routes.ts";
import { loopOnly, type PatternSpec } from "./pattern.ts";
import type { ToolsRetrievalSpec } from "./tools-retrieval.ts";

/** Phrases of an uncertain reply. */
const hedges = ["i'm not sure", "i am not certain", "i don't know", "it's unclear", "cannot determine"] as const;

const fields = {
  model: section("The model, and the parameters of its calls.", {
    id: nullable(text(`${modelIdHelp} Null is SVC_DEFAULT_MODEL_ID.`, { maxLength: 256 })),
    temperature: number("Sampling temperature.", { minimum: 0, maximum: 2, default: 0 }),
    max_tokens: nullable(integer("Most tokens of one reply.", { minimum: 1 })),
    cache: flag("Marks the prompt for the provider's cache."),
    thinking_budget: nullable(integer("Tokens for thinking.", { minimum: 128, maximum: 64_000 })),
    thinking_level: nullable(choice("Effort of thinking; wins over thinking_budget.", [...thinkingLevels])),
    fallbacks: texts("Model routes to try in order if the provider fails."),
    vision_model: nullable(
      text("Model route for turns with an image if id accepts only text. Null is SVC_DEFAULT_VISION_MODEL_ID.", {
        maxLength: 256,
      }),
    ),
    confidence_escalation: section("Asks a stronger model if the reply is uncertain.", {
      enabled: flag("Switches it on."),
      escalate_to: optionalText(modelIdHelp, { maxLength: 256 }),
      low_confidence_markers: texts("Phrases that mark a reply as uncertain.", { default: hedges }),
      min_response_chars: integer("Minimum length; a shorter reply is uncertain.", { minimum: 0, default: 40 }),
      decider: flag("Lets the decider judge instead."),
    }),
    price: section("Rates instead of the built-in ones.", {
      input: rate("Input tokens"),
      output: rate("Output tokens"),
      cache_read: rate("Input tokens read from the provider's cache"),
      cache_write: rate("Input tokens written to the provider's cache"),
    }),
  }),
};

type Spec = SpecOf<typeof fields> & PatternSpec & DeciderSpec & AuthSpec & LimitsSpec & ToolsRetrievalSpec;

const rules: readonly Rule<Spec>[] = [
  loopOnly("spec.model.confidence_escalation", ({ model }) => model.confidence_escalation.enabled),
  loopOnly("spec.model.confidence_escalation.decider", ({ model }) => model.confidence_escalation.decider),
  {
    says: "needs spec.model.confidence_escalation.escalate_to",
    broken: ({ model: { confidence_escalation: escalation } }) =>
      when(escalation.enabled && escalation.escalate_to === "", "spec.model.confidence_escalation.enabled"),
  },
  {
    says: "needs enabled and escalate_to in the same section",
    broken: ({ model: { confidence_escalation: escalation } }) =>
      when(
        escalation.decider && !(escalation.enabled && escalation.escalate_to !== ""),
        "spec.model.confidence_escalation.decider",
      ),
  },
  needsDecider(({ model }) => when(model.confidence_escalation.decider, "spec.model.confidence_escalation.decider")),
];

/** The compiled part of this section. */
interface CompiledModel {
  readonly model: {
    readonly route: ModelRoute;
    readonly fallbacks: readonly ModelRoute[];
    /** The route for turns with an image if the main one accepts text only; null for none. */
    readonly vision: ModelRoute | null;
    readonly temperature: number;
    readonly max_tokens: number | null;
    readonly cache: boolean;
    readonly thinking_budget: number | null;
    readonly thinking_level: ThinkingLevel | null;
    /** Handling of uncertain replies; null if disabled. */
    readonly escalation: CompiledEscalation | null;
    /** spec.model.price merged over the route's rates; applies to the manifest's own route only. */
    readonly price: ModelPrice | null;
  };
}

/** Conditions and route of an escalation to a stronger model. */
export interface CompiledEscalation {
  readonly route: ModelRoute;
  readonly markers: readonly string[];
  readonly min_response_chars: number;
  readonly decides: boolean;
}

export const model = defineSection({
  fields,
  rules,
  compile(spec: Spec, context): CompiledModel | null {
    const { id, fallbacks, temperature, max_tokens, cache, thinking_budget, thinking_level, price } = spec.model;
    const { defaultModelId } = context.registries;
    const own = findRoute(id ?? defaultModelId, ["spec", "model", "id"], context);
    const others = fallbacks.map((fallback, at) => findRoute(fallback, ["spec", "model", "fallbacks", at], context));
    for (const [at, route] of [own, ...others].entries()) {
      if (route === null) continue;
      const loc: Path = at === 0 ? ["spec", "model", "id"] : ["spec", "model", "fallbacks", at - 1];
      checkProvider(spec, route, loc, context);
      checkRates(spec, route, at === 0 && Object.keys(price).length > 0, loc, context);
      checkToolCount(spec, route, loc, context);
    }
    const vision = visionRoute(spec, context);
    const escalation = escalationOf(spec, own, context);
    if (own === null) return null;
    return {
      model: {
        route: own,
        fallbacks: others.filter((route) => route !== null),
        vision,
        temperature,
        max_tokens,
        cache,
        thinking_budget,
        thinking_level,
        escalation,
        price: mergePrice(spec, own, context),
      },
    };
  },
});

/**
 * Returns the route for turns with an image. Refuses an unsuitable one that the manifest names. Ignores the operator's
 * default route if the manifest does not allow it.
 */
function visionRoute(spec: Spec, context: CompileContext): ModelRoute | null {
  const { vision_model } = spec.model;
  if (vision_model !== null) {
    const loc: Path = ["spec", "model", "vision_model"];
    const route = findRoute(vision_model, loc, context);
    if (route === null) return null;
    if (!route.modalities.includes("image"))
      context.refuse(loc, `names the model route ${route.id}, which accepts no images`, "conflict");
    checkProvider(spec, route, loc, context);
    checkRates(spec, route, false, loc, context);
    return route;
  }
  const { routes, defaultVisionModelId } = context.registries;
  const route = routes.get(defaultVisionModelId);
  if (route === undefined) return null;
  const allowed = spec.auth.outbound.providers;
  const mayBeCalled = allowed.length === 0 || allowed.includes(route.provider);
  return mayBeCalled && (spec.limits.max_cost_usd === null || route.price !== null) ? route : null;
}

function escalationOf(spec: Spec, own: ModelRoute | null, context: CompileContext): CompiledEscalation | null {
  const { enabled, escalate_to, low_confidence_markers, min_response_chars, decider } =
    spec.model.confidence_escalation;
  // A rule has refused a missing escalate_to already.
  if (!enabled || escalate_to === "") return null;
  const loc: Path = ["spec", "model", "confidence_escalation", "escalate_to"];
  const route = namedRoute(spec, escalate_to, loc, context);
  if (decider) refuseWordsAlone(spec, ["spec", "model", "confidence_escalation", "decider"], context);
  if (route === null) return null;
  if (route.id === own?.id) context.refuse(loc, "is already the model of the manifest", "conflict");
  return { route, markers: low_confidence_markers, min_response_chars, decides: decider };
}

/**
 * Merges the manifest's rates over the route's. If the route has none, input and output are required, and cache rates
 * default to the input rate.
 */
function mergePrice({ model: { price } }: Spec, route: ModelRoute, { refuse }: CompileContext): ModelPrice | null {
  if (Object.keys(price).length === 0) return route.price;
  if (route.price !== null) return { ...route.price, ...price };
  const { input, output } = price;
  for (const key of ["input", "output"] as const)
    if (price[key] === undefined)
      refuse(["spec", "model", "price", key], `is required: the rates of the route ${route.id} are unknown`, "missing");
  if (input === undefined || output === undefined) return null;
  return { input, output, cache_read: input, cache_write: input, ...price };
}

function rate(of: string) {
  return Type.Optional(number(`${of}: USD per million tokens.`, { minimum: 0 }));
}
