import Type from "typebox";
import { choice, flag, integer, modelIdHelp, nullable, number, optionalText, section, text, texts } from "./fields.ts";

/** Phrases of a reply that is not sure of itself. */
const hedges = ["i'm not sure", "i am not certain", "i don't know", "it's unclear", "cannot determine"] as const;

function rate(of: string) {
  return Type.Optional(number(`${of}: USD for a million tokens.`, { minimum: 0 }));
}

export const model = section("Which model answers, and how it is called.", {
  id: nullable(text(`${modelIdHelp} Null is SVC_DEFAULT_MODEL_ID.`, { maxLength: 256 })),
  temperature: number("Sampling temperature.", { minimum: 0, maximum: 2, default: 0 }),
  max_tokens: nullable(integer("Most tokens of one reply.", { minimum: 1 })),
  cache: flag("Marks the prompt for the provider's cache."),
  thinking_budget: nullable(integer("Tokens for thinking.", { minimum: 128, maximum: 64_000 })),
  thinking_level: nullable(
    choice("Effort of thinking; goes before thinking_budget.", [
      "off",
      "minimal",
      "low",
      "medium",
      "high",
      "xhigh",
      "max",
    ]),
  ),
  fallbacks: texts("Routes that are tried in order when the provider fails."),
  vision_model: nullable(
    text("Route for turns with an image when id takes text only. Null is SVC_DEFAULT_VISION_MODEL_ID.", {
      maxLength: 256,
    }),
  ),
  confidence_escalation: section("Asks a stronger model when the reply is not sure of itself.", {
    enabled: flag("Switches it on."),
    escalate_to: optionalText(modelIdHelp, { maxLength: 256 }),
    low_confidence_markers: Type.Array(Type.String({ minLength: 1 }), {
      description: "Phrases that make a reply doubtful.",
      default: [...hedges],
    }),
    min_response_chars: integer("A shorter reply is doubtful.", { minimum: 0, default: 40 }),
    decider: flag("Lets the decider judge instead."),
  }),
  price: section("Rates in the place of the built-in ones.", {
    input: rate("Input tokens"),
    output: rate("Output tokens"),
    cache_read: rate("Input tokens read from the provider's cache"),
    cache_write: rate("Input tokens written to the provider's cache"),
  }),
});
