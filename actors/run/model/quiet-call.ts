import { estimatedTokens } from "../../../governance/output-count.ts";
import type { AnswerSchema } from "../../../manifests/answer-schema.ts";
import type { ModelRoute } from "../../../manifests/registries.ts";
import type { ContextMessage } from "../../log/message.ts";
import { chatMessages } from "../../models/chat-messages.ts";
import type { ImagesOfCall } from "../../models/images.ts";
import type { DecisionAsked } from "../../models/provider.ts";
import type { Cancellation } from "../../runtime/cancellation.ts";
import type { RunContext } from "../context/run-context.ts";
import { digestOf, makePrefix } from "../spec/prompt-prefix.ts";
import { estimatedImageTokens } from "./call-images.ts";
import { type CallBounds, LimitReached, MeteredCall } from "./metered-call.ts";

/** A model call whose reply is not published: without tools and thoughts. */
export interface QuietCall {
  readonly routes: readonly ModelRoute[];
  /** The instructions for the model. */
  readonly task: string;
  readonly shown: readonly ContextMessage[];
  /** Absent for none. */
  readonly images?: ImagesOfCall;
  readonly temperature: number;
  readonly max_tokens: number;
  /** The schema of the reply. */
  readonly answer?: AnswerSchema;
  /** True for a side question, such as one of a pattern; absent for a summary. */
  readonly aside?: boolean;
  /** The kind in the usage rows. */
  readonly kind?: CallBounds["kind"];
  /** The question for a decision model. */
  readonly decision?: DecisionAsked;
  /** Cancels the call. It must also be cancelled with the run; absent if the run's own cancellation suffices. */
  readonly until?: Cancellation;
}

const noImages: ImagesOfCall = new Map();

/**
 * Returns the text of the reply. The call counts in the limits, the budget and the usage of the run. Rejects with `ModelFailure`, and with
 * `LimitReached`, also if a limit cut the reply off.
 */
export async function callQuietly(runContext: RunContext, asked: QuietCall): Promise<string> {
  const { cancellation } = runContext;
  const { budget } = runContext.billing;
  const {
    routes,
    task,
    shown,
    images = noImages,
    temperature,
    max_tokens,
    answer,
    aside,
    kind,
    decision,
    until,
  } = asked;
  const messages = chatMessages(task, shown);
  const inputTokens = estimatedTokens(messages.length) + estimatedImageTokens(images);
  const bounds = { routes, max_tokens, ...(aside && { aside }), ...(kind && { kind }) };
  const metered = new MeteredCall(runContext, inputTokens, bounds, {
    purpose: kind !== undefined && kind !== "tokens" ? kind : aside ? "question" : "summary",
    prefix: makePrefix({ system: task, tools: null, answer: answer?.json ?? null }),
    // The task may contain a user's text, so the prefix is not shared with other runs.
    isOwn: true,
    instructions: null,
    shown,
    ephemeralInstruction: null,
    chars: messages.length,
    digest: digestOf(messages),
    temperature,
    thinking: null,
    stop: [],
    choice: null,
    keepsReply: true,
  });
  const count = (characters: number, pieces?: number): void => void metered.takeCharacters(characters, pieces);
  try {
    if (budget.parentBudget !== null) await metered.borrowed();
    const { reply } = await metered.call({
      request: (route, bound) => ({
        route,
        messages: images.size === 0 ? messages : chatMessages(task, shown, images),
        system: task,
        shown,
        images,
        tools: null,
        offers: [],
        temperature,
        max_tokens: bound,
        thinking: null,
        cache: false,
        ...(answer && { answer }),
        ...(decision && { decision }),
      }),
      events: {
        text: (delta, pieces) => count(delta.length, pieces),
        reasoning: (delta, pieces) => count(delta.length, pieces),
        calls: count,
      },
      ...(until && { cancellation: until }),
    });
    metered.answered(reply);
    if (metered.breach === null) return reply.text;
  } catch (error) {
    if (error instanceof LimitReached) throw error;
    metered.failed();
    if (metered.breach === null || cancellation.cancelled) throw error;
  } finally {
    metered.repay();
  }
  throw new LimitReached(metered.breach);
}
