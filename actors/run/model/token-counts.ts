import type { ContextMessage } from "../../log/message.ts";
import { encodingOf, type TokenEncoding } from "../../models/token-counter.ts";
import type { RunContext } from "../context/run-context.ts";
import { imageTokens, messageTokens } from "../prompt/token-estimate.ts";
import { toolListJson } from "../spec/prompt-prefix.ts";

// Token counts of prompts, with the model's own tokenizer if it is known. The count of a message is cached, so that a long thread is not
// counted anew at each step.

/** Tokens that a provider adds for each message. */
const frameTokens = 4;

const counted = new WeakMap<ContextMessage, { readonly encoding: TokenEncoding; readonly tokens: number }>();

/** The tokenizer of the run's model; null if it is unknown. */
export function runEncoding({ step: { routes } }: Pick<RunContext, "step">): TokenEncoding | null {
  return routes[0] === undefined ? null : encodingOf(routes[0]);
}

/** Tokens of each message; estimated if the tokenizer is unknown. */
export async function countMessages(runContext: RunContext, messages: readonly ContextMessage[]): Promise<number[]> {
  const encoding = runEncoding(runContext);
  if (encoding !== null) {
    const fresh = messages.filter((message) => counted.get(message)?.encoding !== encoding);
    const tokens = fresh.length === 0 ? [] : await runContext.deps.tokens.count(encoding, fresh.map(textOf));
    for (const [at, message] of fresh.entries()) {
      if (tokens === null) break;
      counted.set(message, { encoding, tokens: (tokens[at] ?? 0) + framed(message) });
    }
  }
  return messages.map((message) => {
    const known = counted.get(message);
    return known !== undefined && known.encoding === encoding ? known.tokens : messageTokens(message);
  });
}

/** Tokens of a whole prompt. The part that all calls of the run share is counted once. */
export async function countPrompt(runContext: RunContext, messages: readonly ContextMessage[]): Promise<number> {
  const tokens = await countMessages(runContext, messages);
  runContext.branch.fixedTokens ??= await countFixed(runContext);
  return tokens.reduce((sum, count) => sum + count, runContext.branch.fixedTokens);
}

async function countFixed(runContext: RunContext): Promise<number> {
  const { systemPrompt, response } = runContext.spec;
  const texts = [systemPrompt, response?.instructions ?? "", toolListJson(runContext.offered) ?? ""];
  const encoding = runEncoding(runContext);
  const tokens = encoding === null ? null : await runContext.deps.tokens.count(encoding, texts);
  return tokens?.reduce((sum, count) => sum + count, frameTokens) ?? Math.ceil(texts.join("").length / 4);
}

function textOf({ content, tool_calls }: ContextMessage): string {
  const calls = (tool_calls ?? []).map(({ name, args }) => `${name} ${JSON.stringify(args)}`);
  return [content, ...calls].join("\n");
}

function framed({ attachments, tool_calls }: ContextMessage): number {
  return frameTokens * (1 + (tool_calls?.length ?? 0)) + (attachments?.length ?? 0) * imageTokens;
}
