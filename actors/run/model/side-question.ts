import { checkAnswer } from "../../../governance/answer-problem.ts";
import type { AnswerSchema } from "../../../manifests/answer-schema.ts";
import type { ModelRoute } from "../../../manifests/registries.ts";
import { type ContextMessage, contextMessage } from "../../log/message.ts";
import { correctionWords } from "../../models/answer-words.ts";
import type { ImagesOfCall, ModelImage } from "../../models/images.ts";
import { ModelFailure } from "../../models/provider.ts";
import type { RunContext } from "../context/run-context.ts";
import { LimitReached } from "./metered-call.ts";
import type { StepOutcome } from "./model-step.ts";
import { callQuietly, type QuietCall } from "./quiet-call.ts";

// A pattern's own question to a model: judge a reply, make a plan, choose. It has its own prompt, no tools, and a reply with a schema that
// only the pattern reads. Its usage counts like any other call of the run.

/** A question, and the models to ask. */
export interface SideQuestion {
  readonly routes: readonly ModelRoute[];
  /** The instructions for the model. */
  readonly task: string;
  /** The material, sent as JSON, so that no text in it can pass for instructions. */
  readonly given: unknown;
  readonly answer: AnswerSchema;
  /** Images that belong to the material. */
  readonly images?: readonly ModelImage[];
  /** See `QuietCall`. */
  readonly kind?: QuietCall["kind"];
  readonly until?: QuietCall["until"];
}

/** The outcome: a value, a reply that does not fit the schema, or a reason why the call did not complete. */
export type SideAnswer<V> =
  | { readonly kind: "answer"; readonly value: V }
  | { readonly kind: "unusable" }
  | Exclude<StepOutcome, { readonly kind: "reply" }>;

/** Leaves room for the thoughts of models that always think. */
const outputTokensMax = 8_192;
/** Max tries for a reply that fits the schema. */
const triesMax = 2;
/** Max characters of each message in the material. */
const givenMax = 12_000;

/** Asks the question, and asks again once if the reply does not fit the schema. */
export async function askAside<V>(runContext: RunContext, asked: SideQuestion): Promise<SideAnswer<V>> {
  const question = contextMessage({ role: "user", content: JSON.stringify(asked.given) });
  const messages = [question];
  const { images = [] } = asked;
  const shownImages: ImagesOfCall | null =
    images.length === 0 ? null : new Map([[question, { images, attachments: images.map((_, at) => at), omitted: 0 }]]);
  for (let tries = 1; ; tries++) {
    const outcome = await call(runContext, asked, messages, shownImages);
    if (outcome.kind !== "said") return outcome;
    const checked = await checkAnswer(asked.answer, outcome.text, runContext.deps.env);
    if (checked.ok) return { kind: "answer", value: checked.value as V };
    const { deps, spec } = runContext;
    deps.log.warn(
      { run_id: spec.run_id, problem: checked.problem },
      "a model's answer to an internal question did not fit its schema",
    );
    if (tries >= triesMax) return { kind: "unusable" };
    messages.push(
      contextMessage({ role: "assistant", content: outcome.text.slice(0, givenMax) || "(nothing)" }),
      contextMessage({ role: "user", content: correctionWords(checked.problem, asked.answer) }),
    );
  }
}

/** Prepares messages as material: role, shortened text, and names of calls. */
export function givenMessages(
  messages: readonly ContextMessage[],
): { role: string; content: string; calls?: string[] }[] {
  return messages
    .filter(({ role }) => role !== "system")
    .map(({ role, content, tool_calls }) => ({
      role,
      content: content.slice(0, givenMax),
      ...(tool_calls !== null && { calls: tool_calls.map(({ name }) => name) }),
    }));
}

async function call(
  runContext: RunContext,
  { routes, task, answer, kind, until }: SideQuestion,
  shown: readonly ContextMessage[],
  images: ImagesOfCall | null,
): Promise<{ kind: "said"; text: string } | Exclude<StepOutcome, { readonly kind: "reply" }>> {
  const bounds = {
    temperature: 0,
    max_tokens: outputTokensMax,
    aside: true,
    ...(kind && { kind }),
    ...(until && { until }),
    ...(images && { images }),
  };
  try {
    return { kind: "said", text: await callQuietly(runContext, { routes, task, shown, answer, ...bounds }) };
  } catch (error) {
    if (error instanceof LimitReached) return { kind: "breach", breach: error.breach, partial: "" };
    if (!(error instanceof ModelFailure)) throw error;
    if (runContext.cancellation.cancelled) return { kind: "stopped", partial: "" };
    return { kind: "failure", failure: error, partial: "" };
  }
}
