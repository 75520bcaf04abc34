import type { Env } from "../../bus/env.ts";
import type { ThinkingLevel } from "../../bus/protocol/thinking.ts";
import type { Egress } from "../../governance/egress/egress.ts";
import type { AnswerSchema } from "../../manifests/answer-schema.ts";
import { answerWords } from "./answer-words.ts";
import { areChanged, chatMessage, chatMessages } from "./chat-messages.ts";
import { type ChatRules, commonRules, type ProviderRules, rulesAfter, rulesFor } from "./chat-rules.ts";
import { ChunkReader } from "./chunk-reader.ts";
import type { ModelFailure, ModelProvider, ModelRequest, ToolUse } from "./provider.ts";
import { type WireConfig, type WireProtocol, wireProvider } from "./wire-provider.ts";

/** The configuration of a provider with an OpenAI-compatible endpoint. The key is sent as a bearer token. */
export interface HttpProviderConfig extends WireConfig {
  /** The provider's name for the output bound. */
  readonly maxTokensField: "max_tokens" | "max_completion_tokens";
  /** True if the provider reports usage only on request; others refuse the request field. */
  readonly asksForUsage: boolean;
  /** Restrictions on messages; absent for the common rules. */
  readonly rules?: ProviderRules;
}

/** Returns the provider for chat completions over HTTP, through the given egress. */
export function httpProvider(config: HttpProviderConfig, env: Env, egress: Egress): ModelProvider {
  return wireProvider(config, chatCompletions(config), env, egress);
}

/** The options that a model accepts. */
interface Taken {
  readonly temperature: boolean;
  readonly effort: boolean;
  /** How the reply format is requested: by a strict schema, by a schema without a guarantee, or in words. */
  readonly answer: "strict" | "schema" | "words";
}

const everything: Taken = { temperature: true, effort: true, answer: "strict" };

function chatCompletions(config: HttpProviderConfig): WireProtocol {
  /** The options that each wire model accepts, learned from refusals. */
  const taken = new Map<string, Taken>();
  /** The message rules of each wire model. */
  const known = new Map<string, ChatRules>();
  return {
    path: "/chat/completions",
    headers: (apiKey) => (apiKey === null ? [] : ["authorization", `Bearer ${apiKey}`]),
    begin(request, events) {
      const { model, parameters } = request.route;
      let takes = taken.get(model) ?? everything;
      if (parameters?.includes("temperature") === false) takes = { ...takes, temperature: false };
      const by = `${config.name}/${model}`;
      let rules = known.get(model) ?? rulesFor(config.rules ?? commonRules, by);
      known.set(model, rules);
      return {
        reader: new ChunkReader(events, by),
        body: () => requestBody(config, request, takes, rules),
        adapt(failure) {
          const changed = rulesAfter(rules, failure);
          if (changed !== null) {
            rules = changed.rules;
            if (changed.lasting) known.set(model, rules);
            return true;
          }
          const fewer = withoutRefused(takes, request, failure);
          if (fewer === null) return false;
          takes = fewer;
          taken.set(model, fewer);
          return true;
        },
        isContinued: () => false,
      };
    },
  };
}

/**
 * Returns the options without the one that the provider refused; null if the refusal is about something else. Reasoning models
 * refuse a temperature. The default 0 is then dropped; for any other temperature the refusal is reported. Other models refuse an
 * effort, a schema, or a strict schema.
 */
function withoutRefused(takes: Taken, request: ModelRequest, { status, message }: ModelFailure): Taken | null {
  if (status !== 400 && status !== 422) return null;
  if (request.answer && takes.answer !== "words" && /response_format|json_schema|schema/i.test(message)) {
    const isStrict = takes.answer === "strict" && request.answer.isStrict;
    return { ...takes, answer: isStrict ? "schema" : "words" };
  }
  if (takes.effort && request.thinking !== null && /reasoning/i.test(message)) return { ...takes, effort: false };
  if (takes.temperature && request.temperature === 0 && /temperature/i.test(message))
    return { ...takes, temperature: false };
  return null;
}

/** The effort for each thinking level; the highest is `high`. */
const efforts: Readonly<Record<ThinkingLevel, string>> = {
  off: "none",
  minimal: "low",
  low: "low",
  medium: "medium",
  high: "high",
  xhigh: "high",
  max: "high",
};

function requestBody(config: HttpProviderConfig, request: ModelRequest, takes: Taken, rules: ChatRules): string {
  const { answer = null } = request;
  const isSent = answer !== null && takes.answer === "words";
  const messages = messagesFor(request, rules, isSent ? answerWords(answer) : null);
  let body = `{"model":${JSON.stringify(request.route.model)},"messages":${messages},"stream":true`;
  if (config.asksForUsage) body += `,"stream_options":{"include_usage":true}`;
  if (takes.temperature || request.temperature !== 0) body += `,"temperature":${request.temperature}`;
  const bound = request.max_tokens === null ? null : maxTokensField(config, request.route);
  if (bound !== null) body += `,"${bound}":${request.max_tokens}`;
  if (takes.effort && request.thinking !== null) body += `,"reasoning_effort":"${efforts[request.thinking.level]}"`;
  if (request.stop !== undefined) body += `,"stop":${JSON.stringify(request.stop)}`;
  if (request.tools !== null) body += `,"tools":${request.tools}${toolUseFields(request.choice)}`;
  if (answer !== null && takes.answer !== "words") body += `,"response_format":${responseFormat(answer, takes)}`;
  return `${body}}`;
}

function responseFormat({ json, isStrict }: AnswerSchema, takes: Taken): string {
  const strict = isStrict && takes.answer === "strict";
  return `{"type":"json_schema","json_schema":{"name":"answer","schema":${json},"strict":${strict}}}`;
}

/** Returns the message list by the model's rules; `last` is appended as a user message. */
function messagesFor({ messages, system, shown, images }: ModelRequest, rules: ChatRules, last: string | null): string {
  if (last === null && !areChanged(shown, rules)) return messages;
  if (last === null) return chatMessages(system, shown, images, rules);
  const asked = { role: "user", content: last, tool_calls: null, tool_call_id: null, thoughts: null } as const;
  return chatMessages(system, [...shown, { ...asked, wireJson: chatMessage(asked) }], images, rules);
}

/** Returns the fields for the tool choice. */
function toolUseFields(use: ToolUse | undefined): string {
  if (use === undefined) return "";
  const { tool_choice: choice, parallel_tool_calls } = use;
  const named = typeof choice === "object" && choice !== null ? { type: "function", function: choice } : choice;
  const chosen = named === null ? "" : `,"tool_choice":${JSON.stringify(named)}`;
  return parallel_tool_calls === null ? chosen : `${chosen},"parallel_tool_calls":${parallel_tool_calls}`;
}

/** Returns the model's name for the output bound; null if it accepts none. */
function maxTokensField(config: HttpProviderConfig, { parameters }: ModelRequest["route"]): string | null {
  if (parameters === null) return config.maxTokensField;
  return parameters.find((name) => name !== "temperature") ?? null;
}
