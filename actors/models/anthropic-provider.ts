import type { Env } from "../../bus/env.ts";
import type { ThinkingLevel } from "../../bus/protocol/thinking.ts";
import type { Egress } from "../../governance/egress/egress.ts";
import { answerWords } from "./answer-words.ts";
import { anthropicSystem, anthropicTools, anthropicTurns, beganThinking, hasThoughts } from "./anthropic-messages.ts";
import { AnthropicReader } from "./anthropic-reader.ts";
import type { ModelEvents, ModelFailure, ModelProvider, ModelReply, ModelRequest, ToolUse } from "./provider.ts";
import { type WireCall, type WireConfig, type WireProtocol, wireProvider } from "./wire-provider.ts";

/** Of the Messages API, which says of each that it stays as it is. */
export const anthropicVersion = "2023-06-01";
/** The API wants a bound. This is asked for where nobody gives one; every model that can be called today takes it but a known smaller one. */
const outputTokensUnbounded = 32_000;
/** The API takes no smaller budget. */
const budgetTokensMin = 1_024;
/** Requests that one answer may go on in, when the provider pauses it. */
const pausesMax = 8;

/** How a model is told to think: with a budget, as models until 4.5; by itself, as those since; or not at all, for it does or cannot. */
type ThinkingMode = "budget" | "adaptive" | "untold";

/**
 * The refusal of a request in which the model is told to think, and its last step of calls begins without a thought
 * (https://github.com/pydantic/pydantic-ai/issues/2075). The step may be another model's, or of a turn that did not think. No later turn
 * could mend that, so that the model answers this one without thinking, as the refusal advises.
 */
const lacksThought = /must start with a thinking block|expected `?thinking`? or `?redacted_thinking/i;

/** What a model takes. */
interface Taken {
  readonly temperature: boolean;
  readonly mode: ThinkingMode;
  /** The modes that it has refused. */
  readonly refused: readonly ThinkingMode[];
  /** The highest effort; null when it takes none. */
  readonly effort: "max" | "high" | null;
  /** Whether it takes a schema for its answer; else it is told in words. */
  readonly schema: boolean;
}

/** Calls Anthropic's Messages API, through the given egress. */
export function anthropicProvider(config: WireConfig, env: Env, egress: Egress): ModelProvider {
  const takesUnsigned = !isAnthropics(config.baseUrl);
  /** What wire models have refused to be given, and what they take instead. */
  const taken = new Map<string, Taken>();
  const protocol: WireProtocol = {
    path: "/messages",
    headers: (apiKey) => ["anthropic-version", anthropicVersion, ...(apiKey === null ? [] : ["x-api-key", apiKey])],
    begin: (request, events) => new AnthropicCall({ provider: config.name, takesUnsigned, taken }, request, events),
  };
  // https://docs.claude.com/en/api/messages: a stop sequence has to contain something that is no white space.
  return { ...wireProvider(config, protocol, env, egress), refusesBlankStops: true };
}

/** What the calls of one provider share. */
interface Called {
  readonly provider: string;
  /** Whether thoughts without a signature go back: https://api-docs.deepseek.com/guides/anthropic_api */
  readonly takesUnsigned: boolean;
  readonly taken: Map<string, Taken>;
}

class AnthropicCall implements WireCall<ModelReply> {
  readonly reader: AnthropicReader;
  readonly #request: ModelRequest;
  readonly #taken: Map<string, Taken>;
  #takes: Taken;
  /** The model whose thoughts are sent, "" when none are. */
  #by: string;
  /** Set when the conversation does not let the model think now. */
  #isThoughtless = false;
  #pauses = 0;
  /** Output that the answer has come to before it was paused. */
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
    // What thinks has a temperature of its own.
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
    // Somebody else's proof, or one of an account that is not this one's.
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

  goesOn({ stop_reason, usage }: ModelReply): boolean {
    if (stop_reason !== "pause_turn" || this.#pauses >= pausesMax) return false;
    this.#spent = usage?.output ?? 0;
    if (this.#bound(0) < 1) return false;
    this.#pauses++;
    this.reader.goOn();
    return true;
  }

  /** The system text, with what the answer has to be like where the model takes that in words only. */
  #system(): string {
    const { system, answer } = this.#request;
    if (!answer || this.#takes.schema) return system;
    return [system, answerWords(answer)].filter((text) => text.trim() !== "").join("\n\n");
  }

  #format(): string {
    const { answer } = this.#request;
    return answer && this.#takes.schema ? `"format":{"type":"json_schema","schema":${answer.json}}` : "";
  }

  /** Tokens that the answer may still have: what was asked for, thinking included, or enough beside what it may think. */
  #bound(budget: number): number {
    const { max_tokens, route } = this.#request;
    const wanted = max_tokens ?? outputTokensUnbounded + budget;
    return Math.min(wanted, route.max_output_tokens ?? wanted) - this.#spent;
  }

  /** The fields that say how to think, the bound that goes with them, and whether the model does think then. */
  #thinking(): { maxTokens: number; fields: string; effort: string; isOn: boolean } {
    const { thinking, shown } = this.#request;
    const { mode, effort } = this.#takes;
    const unbudgeted = this.#bound(0);
    if (thinking === null) return { maxTokens: unbudgeted, fields: "", effort: "", isOn: false };
    // A model that thinks cannot be made to call a tool, and what the caller says of its tools goes before how hard to think.
    if (thinking.level === "off" || this.#isThoughtless || isForced(this.#request.choice)) {
      // With a budget it thinks only when it is told to.
      const fields = mode === "adaptive" ? ',"thinking":{"type":"disabled"}' : "";
      return { maxTokens: unbudgeted, fields, effort: "", isOn: false };
    }
    if (mode === "budget") {
      const bound = this.#bound(thinking.budget_tokens);
      // An answer needs room of its own.
      const budget = Math.min(Math.max(budgetTokensMin, thinking.budget_tokens), bound - Math.min(1_024, bound >> 2));
      const isOn = budget >= budgetTokensMin && budget < bound && beganThinking(shown, this.#by);
      const fields = isOn ? `,"thinking":{"type":"enabled","budget_tokens":${budget}}` : "";
      return { maxTokens: bound, fields, effort: "", isOn };
    }
    const told = mode === "adaptive" ? ',"thinking":{"type":"adaptive","display":"summarized"}' : "";
    const wanted = effort === null ? "" : `"effort":"${effortOf(thinking.level, effort)}"`;
    return { maxTokens: unbudgeted, fields: told, effort: wanted, isOn: mode === "adaptive" };
  }
}

/** Whether an address is of Anthropic's own API, which refuses thoughts that it has not signed. */
function isAnthropics(baseUrl: string): boolean {
  return /(^|\.)anthropic\.com$/.test(new URL(baseUrl).hostname);
}

/** Whether the model has to call a tool. */
function isForced(use: ToolUse | undefined): boolean {
  return ![null, "auto", "none"].includes((use?.tool_choice ?? null) as string | null);
}

/** The field that says which of the tools are to be called. */
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

/** What can be said of a model by its name. */
function firstTaken(model: string): Taken {
  const isOlder = /claude-(?:2|3|instant)|-4(?:-[0-5])?(?:[-@]20\d{6}|-latest)?$/.test(model);
  return { temperature: true, mode: isOlder ? "budget" : "adaptive", refused: [], effort: "max", schema: true };
}

/**
 * Without what the provider will not have for this model, null when it is not that. A temperature of 0, which every manifest has that
 * does not say otherwise, is left out; a manifest that asks for another one is told the refusal.
 */
function withoutRefused(takes: Taken, { temperature, thinking, answer }: ModelRequest, words: string): Taken | null {
  const { mode, refused, effort } = takes;
  if (takes.temperature && temperature === 0 && /temperature/i.test(words)) return { ...takes, temperature: false };
  if (answer && takes.schema && /output_config\.format|output_format|json_schema|schema/i.test(words))
    return { ...takes, schema: false };
  // What is wrong with one of the messages is not how the model is told to think.
  if (thinking === null || /messages\.\d/.test(words)) return null;
  if (mode !== "untold" && /thinking\.|thinking.*support|support.*thinking|budget_tokens|adaptive/i.test(words)) {
    const next = (["adaptive", "budget"] as const).find((other) => other !== mode && !refused.includes(other));
    const isSent = thinking.level !== "off" && next !== undefined;
    return { ...takes, mode: isSent ? next : "untold", refused: [...refused, mode] };
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
