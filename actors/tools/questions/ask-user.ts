import { Type } from "../../../bus/type.ts";
import { defineTool, type ToolResult, toolError, type WaitOutcome } from "../tool.ts";

/** The answer of a user. */
export interface QuestionAnswer {
  readonly value: unknown;
  /** True if the user declined to answer. */
  readonly cancelled: boolean;
  readonly note: string;
}

const secondsDefault = 300;
const idChars = 16;

const parameters = Type.Object(
  {
    question: Type.String({ description: "What the user reads.", minLength: 1, maxLength: 4000 }),
    kind: Type.Optional(
      Type.Enum(["confirm", "select", "input"], {
        description:
          "confirm is yes or no, select one of options, input a text of the user's own; input when left out.",
      }),
    ),
    options: Type.Optional(
      Type.Array(Type.String({ minLength: 1, maxLength: 500 }), { description: "Of select only.", maxItems: 50 }),
    ),
    timeout_seconds: Type.Optional(
      Type.Number({ description: "How long to wait; 300 when left out.", exclusiveMinimum: 0, maximum: 900 }),
    ),
  },
  { additionalProperties: false },
);

/** Asks the user a question during a turn. This requires a live stream; without one the result is `no_one_watching`. */
export const askUser = defineTool({
  name: "ask_user",
  description:
    "Asks the user a question and waits for the answer. Use it when you cannot go on without a decision that is the user's. The result is " +
    'JSON: {"answered": true, "value": …}, or {"answered": false, "reason": …} when nobody has answered.',
  parameters,
  effect: "read",
  risk: "reads",
  needs: "person",
  execute({ question, kind = "input", options = [], timeout_seconds = secondsDefault }, context) {
    if (kind === "select" && options.length === 0) return toolError("invalid_arguments", "options are missing");
    if (kind !== "select" && options.length > 0) return toolError("invalid_arguments", "options are for select only");
    const { env, askedOn, toolCallId } = context;
    if (askedOn === null) return unanswered("no_one_watching");
    const request_id = env.id().slice(0, idChars);
    const deadline = env.now() + timeout_seconds * 1000;
    const metadata = { tool_call_id: toolCallId, timeout_seconds, expires_at: deadline };
    return {
      wait: {
        kind: "question",
        subject: question,
        deadline,
        may_answer: { scopes: [], principal: null, not_principal: null },
        asked_as: request_id,
        frame: {
          name: "ui_request",
          data: { request_id, kind, prompt: question, default: null, thread_id: askedOn, options, metadata },
        },
      },
    };
  },
  resume: ({ kind = "input", options = [] }, outcome) => resultOf(outcome, kind, options),
});

function resultOf(outcome: WaitOutcome, kind: string, options: readonly string[]): ToolResult {
  if (outcome.kind === "expired") return cancelled("timeout");
  const { value, cancelled: isCancelled, note } = outcome.value as QuestionAnswer;
  if (isCancelled) return cancelled("cancelled", note || "cancelled");
  const fits =
    kind === "confirm"
      ? typeof value === "boolean"
      : kind === "select"
        ? options.includes(value as string)
        : value !== null;
  if (!fits) return cancelled(kind === "select" ? "invalid_option" : "invalid_value");
  return { text: JSON.stringify({ answered: true, value, ...(note !== "" && { note }) }) };
}

/** Returns the result if no user could be asked. */
function unanswered(reason: string, more: object = {}): ToolResult {
  return { text: JSON.stringify({ answered: false, reason, ...more }) };
}

/** Returns the result if a user was asked and did not answer. */
function cancelled(reason: string, note: string = reason): ToolResult {
  return unanswered(reason, { cancelled: true, note });
}
