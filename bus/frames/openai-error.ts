import type { SvcError } from "../errors.ts";
import type { Channel } from "../protocol/channel.ts";
import { encodeAnswer, type TurnAnswer } from "../protocol/turn-answer.ts";
import { failureText } from "./native-stream.ts";
import type { FailureCode, RunAnswers, RunOutput, RunResult } from "./output.ts";

// Errors of a turn in the OpenAI protocol. Official clients retry up to seven times unless `x-should-retry` forbids it:
// https://github.com/openai/openai-node/blob/master/src/client.ts (shouldRetry).

/** Header that keeps official clients from retrying. */
export const neverAgain = { "x-should-retry": "false" } as const;

/** Returns an error body of the OpenAI protocol. */
export function openAiError(message: string, type: string, code: string | null, param: string | null = null): string {
  return JSON.stringify({ error: { message, type, param, code } });
}

/** Returns the error code of a failed turn. */
export function failureCode({ failedCall }: Pick<RunResult, "failedCall">): FailureCode {
  return failedCall?.code ?? "model_unavailable";
}

/** Returns the error body of a failed turn. */
export function failureBody(result: RunResult): string {
  return openAiError(result.failure ?? "", "model_gateway_error", failureCode(result));
}

/**
 * Returns the answer of a failed turn, with the provider's retry delay. A client may retry a rate limit if no tool call
 * preceded it.
 */
export function failedAnswer(result: RunResult): TurnAnswer {
  const { retryAfterMs = null } = result.failedCall ?? {};
  const mayRepeat = failureCode(result) === "rate_limit_exceeded" && !result.hasActed;
  const headers = {
    ...(retryAfterMs !== null && { "retry-after": String(Math.ceil(retryAfterMs / 1000)) }),
    ...(!mayRepeat && neverAgain),
  };
  return { status: 502, body: failureBody(result), headers };
}

/** Returns the error body of a turn that ended with a refusal. */
export function refusedBody(error: SvcError, requestId: string): string {
  return openAiError(failureText(error, requestId), "server_error", error.code);
}

/** Returns the answer of a turn that ended with a refusal. */
export function refusedAnswer(error: SvcError, requestId: string): TurnAnswer {
  return { status: error.status, body: refusedBody(error, requestId), headers: neverAgain };
}

/** Sends the answers of an entry point over its channel. */
export function answering(channel: Channel, answers: RunAnswers): Pick<RunOutput, "answers" | "finished" | "failed"> {
  const send = ({ status, body, headers }: TurnAnswer) => channel.send(encodeAnswer(status, body, headers), true);
  return {
    answers,
    finished: (result) => send(answers.finished(result)),
    failed: (error) => send(answers.failed(error)),
  };
}
