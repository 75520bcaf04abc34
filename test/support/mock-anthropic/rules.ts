import { createHash } from "node:crypto";

// The refusals of the Messages API, with its texts. The mock trusts no client: it knows the thoughts it has signed.

export type Json = Readonly<Record<string, unknown>>;

/** The abilities of a model. */
export interface ModelFacts {
  /** The request field that makes it think; `untold` for none. */
  readonly thinking?: "budget" | "adaptive" | "untold";
  /** Efforts that it knows; none where it has no such field. */
  readonly efforts?: readonly string[];
  /** False refuses any. Default true. */
  readonly temperature?: boolean;
  /** True if its thoughts have no signature, and are accepted without one: another provider of the protocol. */
  readonly unsigned?: boolean;
}

/** The signed thoughts of the mock: the proof by its thought, with its model. */
export class Proofs {
  readonly #signed = new Map<string, { model: string; thinking: string }>();

  sign(model: string, thinking: string): string {
    const digest = createHash("sha256").update(`${model}\0${thinking}\0${this.#signed.size}`).digest("base64");
    const signature = `SIGNED-${digest}`;
    this.#signed.set(signature, { model, thinking });
    return signature;
  }

  isGenuine(model: string, thinking: string, signature: unknown): boolean {
    const known = this.#signed.get(String(signature));
    return known?.model === model && known.thinking === thinking;
  }

  /** Forgets all thoughts, like another account. */
  forget(): void {
    this.#signed.clear();
  }
}

const anyProofs = { isGenuine: (_model: string, _thinking: string, signature: unknown) => signature === "" };
type Judge = Pick<Proofs, "isGenuine">;

const fields = new Set([
  ...["model", "max_tokens", "messages", "system", "tools", "tool_choice", "temperature", "thinking", "output_config"],
  ...["stream", "metadata", "stop_sequences", "top_p", "top_k"],
]);

/** The reason to refuse a request, null for none. `paused` is the content of the paused answer, if there is one. */
export function refusalOf(body: Json, facts: ModelFacts, proofs: Proofs, paused: string | null): string | null {
  try {
    const unknown = Object.keys(body).find((key) => !fields.has(key));
    check(unknown === undefined, `${unknown}: Extra inputs are not permitted`);
    check(Number.isInteger(body.max_tokens), "max_tokens: Field required");
    check((body.max_tokens as number) >= 1, "max_tokens: Input should be greater than or equal to 1");
    check((body.max_tokens as number) <= 128_000, "max_tokens: too many for this model");
    checkMessages(body, facts.unsigned === true ? anyProofs : proofs, paused);
    checkThinking(body, facts);
    checkTools(body.tools as readonly Json[] | undefined);
    checkCache(body);
    return null;
  } catch (error) {
    if (error instanceof Refusal) return error.message;
    throw error;
  }
}

class Refusal extends Error {}

function check(condition: boolean, words: string): asserts condition {
  if (!condition) throw new Refusal(words);
}

function checkMessages({ messages, model }: Json, proofs: Judge, paused: string | null): void {
  check(Array.isArray(messages) && messages.length > 0, "messages: at least one message is required");
  const turns = messages as readonly { role: unknown; content: readonly Json[] }[];
  check(turns[0]?.role === "user", 'messages: first message must use the "user" role');
  for (const [at, { role, content }] of turns.entries()) {
    check(role === "user" || role === "assistant", `messages.${at}.role: Input should be 'user' or 'assistant'`);
    const before = turns[at - 1];
    check(
      before?.role !== role,
      `messages: roles must alternate between "user" and "assistant", but found multiple "${role}" roles in a row`,
    );
    check(Array.isArray(content) && content.length > 0, `messages.${at}: all messages must have non-empty content`);
    for (const [place, block] of content.entries())
      checkBlock(block, `messages.${at}.content.${place}`, role, String(model), proofs);
    // https://github.com/tailcallhq/forgecode/issues/2107
    check(
      role !== "assistant" || !String(content.at(-1)?.type).endsWith("thinking"),
      `messages.${at}: The final block in an assistant message cannot be \`thinking\`.`,
    );
    const asked = role === "user" ? idsOf(before?.content, "tool_use", "id") : [];
    const results = idsOf(content, "tool_result", "tool_use_id");
    const stray = results.find((id) => !asked.includes(id));
    check(
      stray === undefined,
      `messages.${at}.content.0: unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${stray}.`,
    );
    const open = asked.find((id) => !results.includes(id));
    check(
      open === undefined,
      `messages.${at - 1}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${open}.`,
    );
    const first = content.findIndex(({ type }) => type !== "tool_result");
    check(
      first < 0 || first >= results.length,
      `messages.${at}: \`tool_result\` blocks must come before everything else`,
    );
  }
  const last = turns.at(-1);
  if (last?.role !== "assistant") return;
  check(
    paused !== null && JSON.stringify(last.content) === paused,
    "This model does not support assistant message prefill. The conversation must end with a user message.",
  );
}

function checkBlock(block: Json, where: string, role: string, model: string, proofs: Judge): void {
  const { type } = block;
  const allowed =
    role === "user"
      ? ["text", "tool_result", "image"]
      : ["text", "tool_use", "thinking", "redacted_thinking", "server_tool_use"];
  check(
    allowed.includes(String(type)),
    `${where}: Input tag '${type}' found using 'type' does not match any of the expected tags`,
  );
  if (type === "text")
    check(String(block.text).trim() !== "", `${where}: text content blocks must contain non-whitespace text`);
  if (type === "image") checkImage(block.source, `${where}.image.source`);
  if (type === "tool_result" && Array.isArray(block.content))
    for (const [at, inner] of block.content.entries())
      checkBlock(inner, `${where}.content.${at}`, "user", model, proofs);
  if (type === "tool_use") {
    check(
      /^[a-zA-Z0-9_-]+$/.test(String(block.id)),
      `${where}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'`,
    );
    check(
      /^[a-zA-Z0-9_-]{1,128}$/.test(String(block.name)),
      `${where}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'`,
    );
    const { input } = block;
    check(
      typeof input === "object" && input !== null && !Array.isArray(input),
      `${where}.tool_use.input: Input should be a valid dictionary`,
    );
  }
  if (type === "thinking")
    check(
      proofs.isGenuine(model, String(block.thinking), block.signature),
      `${where}: Invalid \`signature\` in \`thinking\` block`,
    );
  if (type === "redacted_thinking")
    check(
      proofs.isGenuine(model, "", block.data),
      `${where}: Invalid \`data\` in \`redacted_thinking\` block, of which the signature is not ours`,
    );
}

function checkImage(source: unknown, where: string): void {
  const { type, media_type, data, url } = Object(source) as Json;
  if (type === "url") {
    check(/^https:/.test(String(url)), `${where}.url: Only HTTPS URLs are supported.`);
    return;
  }
  check(type === "base64", `${where}: Input tag '${type}' found using 'type' does not match any of the expected tags`);
  check(
    /^image\/(?:jpeg|png|gif|webp)$/.test(String(media_type)),
    `${where}.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'`,
  );
  check(/^[A-Za-z0-9+/]+={0,2}$/.test(String(data)), `${where}.base64.data: Invalid base64 data`);
}

function idsOf(content: readonly Json[] | undefined, type: string, key: string): string[] {
  return (content ?? []).filter((block) => block.type === type).map((block) => String(block[key]));
}

function checkThinking(
  body: Json,
  { thinking: takes = "adaptive", efforts = [], temperature: tempered = true }: ModelFacts,
): void {
  const thinking = body.thinking as { type: string; budget_tokens?: number } | undefined;
  const { temperature } = body;
  if (thinking !== undefined) {
    const { type, budget_tokens } = thinking;
    check(takes !== "untold", `"thinking.type.${type}" is not supported for this model.`);
    check(
      type !== "enabled" || takes === "budget",
      '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.',
    );
    check(type !== "adaptive" || takes === "adaptive", "adaptive thinking is not supported on this model");
    check(
      type === "adaptive" || type === "disabled" || type === "enabled",
      "thinking.type: Input should be 'enabled', 'disabled' or 'adaptive'",
    );
    if (type === "enabled") {
      check(
        (budget_tokens ?? 0) >= 1024,
        "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
      );
      check(
        (budget_tokens ?? 0) < (body.max_tokens as number),
        "`max_tokens` must be greater than `thinking.budget_tokens`.",
      );
      checkLeadingThought(body.messages as readonly { role: string; content: readonly Json[] }[]);
    }
    const isOn = type !== "disabled";
    check(
      !isOn || temperature === undefined || temperature === 1,
      "`temperature` may only be set to 1 when thinking is enabled or in adaptive mode.",
    );
  }
  check(tempered || temperature === undefined, "`temperature` is deprecated for this model.");
  check(temperature === undefined || (temperature as number) <= 1, "temperature: range: 0..1");
  const { effort, format } = (body.output_config ?? {}) as { effort?: string; format?: Json };
  check(
    format === undefined || format.type === "json_schema",
    "output_config.format.type: Input should be 'json_schema'",
  );
  check(format === undefined || typeof format.schema === "object", "output_config.format.schema: Field required");
  if (effort === undefined) return;
  check(efforts.length > 0, "This model does not support the effort parameter.");
  check(efforts.includes(effort), `output_config.effort: Input should be one of ${efforts.join(", ")}`);
}

/** With a budget, the last step that asked for tools has to begin with a thought. */
function checkLeadingThought(messages: readonly { role: string; content: readonly Json[] }[]): void {
  if (messages.at(-1)?.content[0]?.type !== "tool_result") return;
  const at = messages.length - 2;
  const type = messages[at]?.content[0]?.type;
  check(
    type === "thinking" || type === "redacted_thinking",
    `messages.${at}.content.0.type: Expected \`thinking\` or \`redacted_thinking\`, but found \`${type}\`. When \`thinking\` is enabled, a final \`assistant\` message must start with a thinking block.`,
  );
}

function checkTools(tools: readonly Json[] | undefined): void {
  for (const [at, { name, input_schema, ...more }] of (tools ?? []).entries()) {
    check(/^[a-zA-Z0-9_-]{1,128}$/.test(String(name)), `tools.${at}.custom.name: String should match pattern`);
    check(
      (input_schema as Json | undefined)?.type === "object",
      `tools.${at}.custom.input_schema.type: Field required`,
    );
    const extra = Object.keys(more).find((key) => key !== "description" && key !== "cache_control");
    check(extra === undefined, `tools.${at}.custom.${extra}: Extra inputs are not permitted`);
  }
}

/** The blocks that bear a mark. */
export function markedBlocks({ system, tools, messages }: Json): Json[] {
  const turns = (messages ?? []) as readonly { content: readonly Json[] }[];
  const blocks = [
    ...((tools ?? []) as Json[]),
    ...((system ?? []) as Json[]),
    ...turns.flatMap(({ content }) => content),
  ];
  return blocks.filter(({ cache_control }) => cache_control !== undefined);
}

function checkCache(body: Json): void {
  const marked = markedBlocks(body);
  check(marked.length <= 4, `A maximum of 4 blocks with cache_control may be provided. Found ${marked.length}.`);
  check(
    !marked.some(({ type }) => type === "thinking" || type === "redacted_thinking"),
    "cache_control cannot be set for thinking blocks",
  );
}
