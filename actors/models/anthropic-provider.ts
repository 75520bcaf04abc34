import type { Env } from "../../bus/env.ts";
import type { ThinkingLevel } from "../../bus/protocol/thinking.ts";
import type { Egress } from "../../governance/egress/egress.ts";
import { answerWords } from "./answer-words.ts";
import { anthropicSystem, anthropicTools, anthropicTurns, beganThinking, hasThoughts } from "./anthropic-messages.ts";
import { AnthropicReader } from "./anthropic-reader.ts";
import type { ModelEvents, ModelFailure, ModelProvider, ModelReply, ModelRequest, ToolUse } from "./provider.ts";
import { type WireCall, type WireConfig, type WireProtocol, wireProvider } from "./wire-provider.ts";

/** A dated version of the Messages API, whose behaviour never changes. */
export const anthropicVersion = "2023-06-01";
/**
 * The API requires a bound. This default is within the limits of every current model, unless a route has a smaller known limit.
 */
const outputTokensUnbounded = 32_000;
/** Min thinking budget of the API. */
const budgetTokensMin = 1_024;
/** Max continuations of one reply that the provider paused. */
const pausesMax = 8;

/** How a model is configured to think: with a budget (models up to 4.5), adaptively (later models), or without any field. */
type ThinkingMode = "budget" | "adaptive" | "omitted";

/**
 * The refusal of a thinking request whose last step with calls does not begin with a thought
 * (https://github.com/pydantic/pydantic-ai/issues/2075). That step may come from another model or from a turn without thinking.
 * No later turn can change that, so this turn is answered without thinking, as the refusal advises.
 */
const lacksThought = /must start with a thinking block|expected `?thinking`? or `?redacted_thinking/i;

/** The options that a model accepts. */
interface Taken {
  readonly temperature: boolean;
  readonly mode: ThinkingMode;
  /** Thinking modes that it refused. */
  readonly refused: readonly ThinkingMode[];
  /** The highest effort; null if it accepts none. */
  readonly effort: "max" | "high" | null;
  /** True if it accepts a schema for its reply; otherwise the schema is given in words. */
  readonly schema: boolean;
}

/** Returns the provider for Anthropic's Messages API, through the given egress. */
export function anthropicProvider(config: WireConfig, env: Env, egress: Egress): ModelProvider {
  const takesUnsigned = !isAnthropics(config.baseUrl);
  /** The options that each wire model accepts, learned from refusals. */
  const taken = new Map<string, Taken>();
  const protocol: WireProtocol = {
    path: "/messages",
    headers: (apiKey) => ["anthropic-version", anthropicVersion, ...(apiKey === null ? [] : ["x-api-key", apiKey])],
    begin: (request, events) => new AnthropicCall({ provider: config.name, takesUnsigned, taken }, request, events),
  };
  // https://docs.claude.com/en/api/messages: a stop sequence must contain a character that is not white space.
  return { ...wireProvider(config, protocol, env, egress), refusesBlankStops: true };
}

/** State that the calls of one provider share. */
interface Called {
  readonly provider: string;
  /** True if thoughts without a signature are sent back: https://api-docs.deepseek.com/guides/anthropic_api */
  readonly takesUnsigned: boolean;
  readonly taken: Map<string, Taken>;
}

class AnthropicCall implements WireCall<ModelReply> {
  readonly reader: AnthropicReader;
  readonly #request: ModelRequest;
  readonly #taken: Map<string, Taken>;
  #takes: Taken;
  /** The model whose thoughts are sent back, empty for none. */
  #by: string;
  /** True if the messages do not allow thinking in this call. */
  #isThoughtless = false;
  #pauses = 0;
  /** Output tokens of the reply before it was paused. */
  #spent = 0;

  constructor({ provider, takesUnsigned, taken }: Called, request: ModelRequest, events: ModelEvents) {
    const { model } = request.route;
    this.#request = request;
    this.#taken = taken;
    this.#takes = taken.get(model) ?? firstTaken(model);
    if (request.route.parameters?.includes("temperature") === false)
      this.#takes = { ...this.#takes, temperature: false };
    this.#by = `${provider}/${model}`;
    this.reader = new AnthropicReader(events, this.#by, takesUnsigned);
  }

  body(): string {
    const { route, offers, cache, temperature, stop } = this.#request;
    const { maxTokens, fields, effort, isOn } = this.#thinking();
    const system = this.#system();
    let body = `{"model":${JSON.stringify(route.model)},"max_tokens":${maxTokens},"stream":true${fields}`;
    // With thinking, the API does not accept a temperature.
    if (!isOn && (this.#takes.temperature || temperature !== 0)) body += `,"temperature":${temperature}`;
    if (stop !== undefined) body += `,"stop_sequences":${JSON.stringify(stop)}`;
    if (offers.length > 0) body += `,"tools":${anthropicTools(offers, cache)}${toolUseField(this.#request.choice)}`;
    const format = this.#format();
    if (effort !== "" || format !== "") body += `,"output_config":{${[effort, format].filter(Boolean).join(",")}}`;
    if (system.trim() !== "") body += `,"system":${anthropicSystem(system, cache)}`;
    body += `,"messages":[${anthropicTurns(this.#request, this.#by)}`;
    if (this.#pauses > 0) body += `,{"role":"assistant","content":${this.reader.contentJson}}`;
    return `${body}]}`;
  }

  adapt(failure: ModelFailure): boolean {
    const { shown, route } = this.#request;
    if (failure.status !== 400) return false;
    // The signature was made by another provider or account.
    if (/signature/i.test(failure.message) && this.#by !== "" && hasThoughts(shown, this.#by)) {
      this.#by = "";
      return true;
    }
    if (lacksThought.test(failure.message) && this.#thinking().isOn) {
      this.#isThoughtless = true;
      return true;
    }
    const fewer = withoutRefused(this.#takes, this.#request, failure.message);
    if (fewer === null) return false;
    this.#takes = fewer;
    this.#taken.set(route.model, fewer);
    return true;
  }

  isContinued({ stop_reason, usage }: ModelReply): boolean {
    if (stop_reason !== "pause_turn" || this.#pauses >= pausesMax) return false;
    this.#spent = usage?.output ?? 0;
    if (this.#bound(0) < 1) return false;
    this.#pauses++;
    this.reader.continueReply();
    return true;
  }

  /** Returns the system text, with the reply schema in words if the model does not accept a schema. */
  #system(): string {
    const { system, answer } = this.#request;
    if (!answer || this.#takes.schema) return system;
    return [system, answerWords(answer)].filter((text) => text.trim() !== "").join("\n\n");
  }

  #format(): string {
    const { answer } = this.#request;
    return answer && this.#takes.schema ? `"format":{"type":"json_schema","schema":${answer.json}}` : "";
  }

  /** Returns the output tokens left for the reply: the requested bound including thinking, or a default plus the budget. */
  #bound(budget: number): number {
    const { max_tokens, route } = this.#request;
    const wanted = max_tokens ?? outputTokensUnbounded + budget;
    return Math.min(wanted, route.max_output_tokens ?? wanted) - this.#spent;
  }

  /** Returns the fields for thinking, the matching output bound, and whether the model thinks. */
  #thinking(): { maxTokens: number; fields: string; effort: string; isOn: boolean } {
    const { thinking, shown } = this.#request;
    const { mode, effort } = this.#takes;
    const unbudgeted = this.#bound(0);
    if (thinking === null) return { maxTokens: unbudgeted, fields: "", effort: "", isOn: false };
    // A thinking model cannot be forced to call a tool, and the caller's tool choice takes precedence over thinking.
    if (thinking.level === "off" || this.#isThoughtless || isForced(this.#request.choice)) {
      // A model with a budget thinks only if a budget is sent.
      const fields = mode === "adaptive" ? ',"thinking":{"type":"disabled"}' : "";
      return { maxTokens: unbudgeted, fields, effort: "", isOn: false };
    }
    if (mode === "budget") {
      const bound = this.#bound(thinking.budget_tokens);
      // Leave room for the reply itself.
      const budget = Math.min(Math.max(budgetTokensMin, thinking.budget_tokens), bound - Math.min(1_024, bound >> 2));
      const isOn = budget >= budgetTokensMin && budget < bound && beganThinking(shown, this.#by);
      const fields = isOn ? `,"thinking":{"type":"enabled","budget_tokens":${budget}}` : "";
      return { maxTokens: bound, fields, effort: "", isOn };
    }
    const adaptive = mode === "adaptive" ? ',"thinking":{"type":"adaptive","display":"summarized"}' : "";
    const wanted = effort === null ? "" : `"effort":"${effortOf(thinking.level, effort)}"`;
    return { maxTokens: unbudgeted, fields: adaptive, effort: wanted, isOn: mode === "adaptive" };
  }
}

/** True for an address of Anthropic's own API, which refuses unsigned thoughts. */
function isAnthropics(baseUrl: string): boolean {
  return /(^|\.)anthropic\.com$/.test(new URL(baseUrl).hostname);
}

/** True if the model must call a tool. */
function isForced(use: ToolUse | undefined): boolean {
  return ![null, "auto", "none"].includes((use?.tool_choice ?? null) as string | null);
}

/** Returns the field for the tool choice. */
function toolUseField(use: ToolUse | undefined): string {
  if (use === undefined) return "";
  const { tool_choice: choice, parallel_tool_calls } = use;
  if (choice === "none") return ',"tool_choice":{"type":"none"}';
  const type = choice === null || choice === "auto" ? "auto" : choice === "required" ? "any" : "tool";
  const field = {
    type,
    ...(typeof choice === "object" && choice !== null && { name: choice.name }),
    ...(parallel_tool_calls !== null && { disable_parallel_tool_use: !parallel_tool_calls }),
  };
  return `,"tool_choice":${JSON.stringify(field)}`;
}

/** Returns the options of a model that its name suggests. */
function firstTaken(model: string): Taken {
  const isOlder = /claude-(?:2|3|instant)|-4(?:-[0-5])?(?:[-@]20\d{6}|-latest)?$/.test(model);
  return { temperature: true, mode: isOlder ? "budget" : "adaptive", refused: [], effort: "max", schema: true };
}

/**
 * Returns the options without the one that the provider refused; null if the refusal is about something else. A temperature of
 * 0, the default of manifests, is dropped; for any other temperature the refusal is reported.
 */
function withoutRefused(takes: Taken, { temperature, thinking, answer }: ModelRequest, words: string): Taken | null {
  const { mode, refused, effort } = takes;
  if (takes.temperature && temperature === 0 && /temperature/i.test(words)) return { ...takes, temperature: false };
  if (answer && takes.schema && /output_config\.format|output_format|json_schema|schema/i.test(words))
    return { ...takes, schema: false };
  // An error about a message is not about the thinking options.
  if (thinking === null || /messages\.\d/.test(words)) return null;
  if (mode !== "omitted" && /thinking\.|thinking.*support|support.*thinking|budget_tokens|adaptive/i.test(words)) {
    const next = (["adaptive", "budget"] as const).find((other) => other !== mode && !refused.includes(other));
    const isSent = thinking.level !== "off" && next !== undefined;
    return { ...takes, mode: isSent ? next : "omitted", refused: [...refused, mode] };
  }
  if (effort !== null && /effort/i.test(words)) {
    const isHigh = effort === "max" && (thinking.level === "xhigh" || thinking.level === "max");
    return { ...takes, effort: isHigh ? "high" : null };
  }
  return null;
}

function effortOf(level: ThinkingLevel, most: "max" | "high"): string {
  if (level === "minimal" || level === "off") return "low";
  return most === "high" && (level === "xhigh" || level === "max") ? "high" : level;
}
