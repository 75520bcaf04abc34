import type { Channel } from "../protocol/channel.ts";
import type { StopReason, TurnUsage } from "../protocol/model-reply.ts";
import type { SubmitTurn } from "../protocol/run.ts";
import { silent } from "./answer.ts";
import { doneMark } from "./frames.ts";
import { answering, failedAnswer, failureBody, refusedAnswer, refusedBody } from "./openai-error.ts";
import { type HandedCall, partingFrames, type RunOutput, type RunResult } from "./output.ts";

// The OpenAI-compatible routes: chat.completion and chat.completion.chunk objects, and that protocol's errors.

const finishReasons: Readonly<Record<StopReason, string>> = {
  end_turn: "stop",
  stop_sequence: "stop",
  pause_turn: "stop",
  unknown: "stop",
  max_tokens: "length",
  max_turns: "length",
  tool_use: "tool_calls",
  refusal: "content_filter",
};

/** How the chunks of one completion begin. */
export interface Completion {
  /** `chatcmpl-` and 24 hexadecimal digits. */
  readonly id: string;
  /** Epoch seconds. */
  readonly created: number;
  /** The manifest's name. */
  readonly model: string;
}

/** Output of POST /v1/chat/completions without `stream`. */
export function openAiAnswer(
  channel: Channel,
  completion: Completion,
  includeReasoning: boolean,
  requestId: string,
): RunOutput {
  const thoughts = new Thoughts();
  let reasoning = "";
  return {
    ...silent,
    text: () => thoughts.said(),
    thinking(delta) {
      if (includeReasoning) reasoning += thoughts.take(delta);
    },
    frame: (name) => thoughts.frame(name),
    ...answering(channel, {
      finished(result) {
        if (result.failure !== null) return failedAnswer(result);
        const body = JSON.stringify({
          id: completion.id,
          object: "chat.completion",
          created: completion.created,
          model: completion.model,
          choices: [
            {
              index: 0,
              message: {
                role: "assistant",
                content: result.final ?? (result.handed.length > 0 ? null : ""),
                refusal: null,
                ...(reasoning !== "" && { reasoning_content: reasoning }),
                ...(result.handed.length > 0 && { tool_calls: result.handed.map(wireCall) }),
              },
              logprobs: null,
              finish_reason: finishReasons[result.stop_reason],
            },
          ],
          usage: usageOf(result.usage),
        });
        return { status: 200, body };
      },
      failed: (error) => refusedAnswer(error, requestId),
    }),
  };
}

/** Output of POST /v1/chat/completions with `stream`. */
export function openAiStream(
  channel: Channel,
  completion: Completion,
  { include_usage: includeUsage, include_reasoning }: Pick<SubmitTurn, "include_usage" | "include_reasoning">,
  requestId: string,
): RunOutput {
  const thoughts = new Thoughts();
  const head = `data: {"id":"${completion.id}","object":"chat.completion.chunk","created":${completion.created},"model":${JSON.stringify(completion.model)}`;
  const chunk = (delta: string, finish: string | null) =>
    `${head},"choices":[{"index":0,"delta":${delta},"logprobs":null,"finish_reason":${finish === null ? "null" : `"${finish}"`}}]${includeUsage ? ',"usage":null' : ""}}\n\n`;
  return {
    get writable() {
      return channel.writable;
    },
    onWritable: (work) => channel.onWritable(work),
    started: () => channel.send(chunk('{"role":"assistant","content":""}', null), false),
    text(delta) {
      thoughts.said();
      channel.send(chunk(`{"content":${JSON.stringify(delta)}}`, null), false);
    },
    thinking(delta) {
      if (include_reasoning)
        channel.send(chunk(`{"reasoning_content":${JSON.stringify(thoughts.take(delta))}}`, null), false);
    },
    frame: (name) => thoughts.frame(name),
    finished(result: RunResult) {
      if (result.failure !== null) {
        channel.send(`data: ${failureBody(result)}\n\n${doneMark}`, true);
        return;
      }
      let text = "";
      for (const [index, call] of result.handed.entries())
        text += chunk(JSON.stringify({ tool_calls: [{ index, ...wireCall(call) }] }), null);
      text += chunk("{}", finishReasons[result.stop_reason]);
      if (includeUsage) text += `${head},"choices":[],"usage":${JSON.stringify(usageOf(result.usage))}}\n\n`;
      channel.send(text + doneMark, true);
    },
    failed: (error) => channel.send(`data: ${refusedBody(error, requestId)}\n\n${doneMark}`, true),
  };
}

/** Joins the readable reasoning of a turn, with an empty line where text or calls separate two parts. */
class Thoughts {
  #isEmpty = true;
  #isParted = false;

  take(delta: string): string {
    const text = this.#isParted && !this.#isEmpty ? `\n\n${delta}` : delta;
    this.#isEmpty = false;
    this.#isParted = false;
    return text;
  }

  said(): void {
    this.#isParted = true;
  }

  frame(name: string): void {
    if (partingFrames.has(name)) this.#isParted = true;
  }
}

function wireCall({ id, name, args }: HandedCall) {
  return { id, type: "function", function: { name, arguments: JSON.stringify(args) } };
}

function usageOf(usage: TurnUsage | null) {
  const prompt = usage === null ? 0 : usage.input + usage.cacheRead + usage.cacheWrite;
  const completion = usage?.output ?? 0;
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: { cached_tokens: usage?.cacheRead ?? 0 },
    ...(usage?.reasoning !== undefined && { completion_tokens_details: { reasoning_tokens: usage.reasoning } }),
  };
}
