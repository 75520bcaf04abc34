import type { ModelRoute } from "../../manifests/registries.ts";
import type { DecisionAnswer } from "./decision-reader.ts";
import { type DecisionAsked, ModelFailure, type ModelProvider, type ModelReply } from "./provider.ts";

/** A decision of a decider, with its cost. */
export interface DecisionReply extends DecisionAnswer {
  /** Tokens of the question; null if the decider counts none, so that the call is billed by an estimate. */
  readonly tokens: number | null;
}

/** Chooses between options, for routes of SVC_DECISION_ROUTES. */
export interface Decider {
  /**
   * Returns the choice. A rejection is a failed decision, and the feature that asked uses its other method. `signal` fires when
   * the answer is not needed any more.
   */
  decide(question: DecisionAsked, route: ModelRoute, signal: AbortSignal): DecisionReply | Promise<DecisionReply>;
}

/** Returns a decider in the form in which runs call models. */
export function deciderProvider(name: string, decider: Decider): ModelProvider {
  return {
    name,
    start({ route, decision }) {
      const controller = new AbortController();
      const { promise, reject } = Promise.withResolvers<never>();
      const reply = async (): Promise<ModelReply> => {
        if (decision === undefined) throw new Error(`${route.id} was asked for something other than a decision`);
        try {
          return replyOf(await decider.decide(decision, route, controller.signal));
        } catch (error) {
          const why = error instanceof Error ? error.message : String(error);
          throw error instanceof ModelFailure ? error : new ModelFailure(`${name} failed: ${why}`, { cause: error });
        }
      };
      return {
        reply: Promise.race([reply(), promise]),
        abort() {
          controller.abort();
          reject(new ModelFailure(`the call of ${name} was ended`));
        },
        // A decision arrives in one piece, so there is nothing to pause.
        pause() {},
        resume() {},
      };
    },
  };
}

/** The text of an invalid decision is empty, as that of a decision model. */
function replyOf({ choice, confidence = null, probabilities = null, tokens = null }: DecisionReply): ModelReply {
  const isShare = (value: unknown): boolean => typeof value === "number" && value >= 0 && value <= 1;
  const isValid = typeof choice === "string" && (confidence === null || isShare(confidence));
  return {
    text: isValid ? JSON.stringify({ choice, confidence, probabilities }) : "",
    reasoning: "",
    tool_calls: [],
    stop_reason: "end_turn",
    usage: Number.isSafeInteger(tokens) ? { input: tokens as number, output: 0, cacheRead: 0, cacheWrite: 0 } : null,
  };
}
