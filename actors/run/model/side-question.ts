import { checkAnswer } from "../../../governance/answer-problem.ts";
import type { AnswerSchema } from "../../../manifests/answer-schema.ts";
import type { ModelRoute } from "../../../manifests/registries.ts";
import { type ContextMessage, contextMessage } from "../../log/message.ts";
import { correctionWords } from "../../models/answer-words.ts";
import { ModelFailure } from "../../models/provider.ts";
import type { RunContext } from "../context/run-context.ts";
import { LimitReached } from "./metered-call.ts";
import type { StepOutcome } from "./model-step.ts";
import { callQuietly, type QuietCall } from "./quiet-call.ts";

// A question that a pattern asks a model for itself: to judge an answer, to make a plan, to choose. It has words of its own, no
// tools, and an answer of a known form, which nobody else reads. It is paid for like any other call of the run.

/** What is asked, and of whom. */
export interface SideQuestion {
  readonly routes: readonly ModelRoute[];
  /** What the model is to do. */
  readonly task: string;
  /** What it is to do it with. JSON, so that nobody's words in it can pass for the task. */
  readonly given: unknown;
  readonly answer: AnswerSchema;
  /** See `QuietCall`. */
  readonly kind?: QuietCall["kind"];
  readonly until?: QuietCall["until"];
}

/** What came of it: the answer, that there is none of the asked form, or why the run cannot go on as before. */
export type SideAnswer<V> =
  | { readonly kind: "answer"; readonly value: V }
  | { readonly kind: "unusable" }
  | Exclude<StepOutcome, { readonly kind: "reply" }>;

/** Room for the thoughts of a model that cannot be kept from them. */
const outputTokensMax = 8_192;
/** How often a question is asked whose answer has not the form. */
const triesMax = 2;
/** Characters of one message that is given on. */
const givenMax = 12_000;

/** Asks, and once more when the answer has not the form that it needs. */
export async function askAside<V>(runContext: RunContext, asked: SideQuestion): Promise<SideAnswer<V>> {
  const messages = [contextMessage({ role: "user", content: JSON.stringify(asked.given) })];
  for (let tries = 1; ; tries++) {
    const outcome = await call(runContext, asked, messages);
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

/** Messages as they are given to whoever is asked aside: who has said what, cut where that is long. */
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
): Promise<{ kind: "said"; text: string } | Exclude<StepOutcome, { readonly kind: "reply" }>> {
  const bounds = {
    temperature: 0,
    max_tokens: outputTokensMax,
    aside: true,
    ...(kind && { kind }),
    ...(until && { until }),
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
