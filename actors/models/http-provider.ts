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

/** A hosted provider behind its OpenAI-compatible endpoint. The key is sent as a bearer token. */
export interface HttpProviderConfig extends WireConfig {
  /** What this provider calls the bound on output tokens. */
  readonly maxTokensField: "max_tokens" | "max_completion_tokens";
  /** Whether usage comes only when it is asked for. Others refuse to be asked. */
  readonly asksForUsage: boolean;
  /** What it refuses of a conversation; absent for what most do. */
  readonly rules?: ProviderRules;
}

/** Calls a provider over HTTP, through the given egress. */
export function httpProvider(config: HttpProviderConfig, env: Env, egress: Egress): ModelProvider {
  return wireProvider(config, chatCompletions(config), env, egress);
}

/** What a model takes. */
interface Taken {
  readonly temperature: boolean;
  readonly effort: boolean;
  /** How it is told what its answer has to be like: by a schema that it keeps to in every case, by one that it may miss, or in words. */
  readonly answer: "strict" | "schema" | "words";
}

const everything: Taken = { temperature: true, effort: true, answer: "strict" };

function chatCompletions(config: HttpProviderConfig): WireProtocol {
  /** What wire models have refused to be given. */
  const taken = new Map<string, Taken>();
  /** How they are sent a conversation. */
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
        goesOn: () => false,
      };
    },
  };
}

/**
 * Without what the provider will not have for this model, null when it is not that. Models that reason refuse a temperature: 0, which
 * every manifest has that does not say otherwise, is then left out; a manifest that asks for another one is told the refusal. Models
 * that do not reason refuse an effort, many a schema for their answer or what they cannot promise of it.
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

/** What a level of thinking is called; it ends at high. */
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

/** The message list as the model takes it, with `last` as one more of the user's. */
function messagesFor({ messages, system, shown, images }: ModelRequest, rules: ChatRules, last: string | null): string {
  if (last === null && !areChanged(shown, rules)) return messages;
  if (last === null) return chatMessages(system, shown, images, rules);
  const asked = { role: "user", content: last, tool_calls: null, tool_call_id: null, thoughts: null } as const;
  return chatMessages(system, [...shown, { ...asked, wireJson: chatMessage(asked) }], images, rules);
}

/** The fields that say which of the tools are to be called. */
function toolUseFields(use: ToolUse | undefined): string {
  if (use === undefined) return "";
  const { tool_choice: choice, parallel_tool_calls } = use;
  const named = typeof choice === "object" && choice !== null ? { type: "function", function: choice } : choice;
  const chosen = named === null ? "" : `,"tool_choice":${JSON.stringify(named)}`;
  return parallel_tool_calls === null ? chosen : `${chosen},"parallel_tool_calls":${parallel_tool_calls}`;
}

/** What this model calls the bound on output; null when it takes none. */
function maxTokensField(config: HttpProviderConfig, { parameters }: ModelRequest["route"]): string | null {
  if (parameters === null) return config.maxTokensField;
  return parameters.find((name) => name !== "temperature") ?? null;
}
