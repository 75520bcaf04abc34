import type { ToolSpec } from "../../manifests/registries.ts";
import type { ToolCall } from "../../storage/tables/events.ts";
import { wireArguments } from "./chat-messages.ts";
import { type ModelImage, type ShownImages, wordsWith } from "./images.ts";
import type { ModelMessage, ModelRequest, SignedThought } from "./provider.ts";

// Renders a thread for Anthropic's Messages API: alternating turns of user and assistant, each a list of blocks. All results of
// one step come first in one turn. The rendering of a message is cached for the message's lifetime.

/** Marks a possible end of the provider's cache. A request may have at most four. */
const cacheMark = ',"cache_control":{"type":"ephemeral"}}';

interface Rendered {
  /** The model whose thoughts the blocks contain. */
  readonly by: string;
  /** Joined by commas; empty if there is nothing to send. */
  readonly blocks: string;
}

const rendered = new WeakMap<ModelMessage, Rendered>();
const toolLists = new WeakMap<readonly ToolSpec[], string>();

interface Turn {
  readonly role: "user" | "assistant";
  results: string;
  blocks: string;
}

/**
 * Returns the JSON of the turns without the outer brackets. `by` is the model whose thoughts are sent back, empty for none.
 * `cache` marks the last user turn, which starts the next request, and the one before, where the previous request ended.
 */
export function anthropicTurns(
  { shown, images, cache }: Pick<ModelRequest, "shown" | "images" | "cache">,
  by: string,
): string {
  const turns: Turn[] = [];
  for (const message of shown) {
    if (message.role === "system") continue;
    const seen = images.get(message);
    const blocks = seen === undefined ? blocksOf(message, by) : blocksWithImages(message, seen);
    if (blocks === "") continue;
    const role = message.role === "assistant" ? "assistant" : "user";
    let turn = turns.at(-1);
    if (turn?.role !== role) {
      turn = { role, results: "", blocks: "" };
      turns.push(turn);
    }
    if (message.role === "tool") turn.results = joined(turn.results, blocks);
    else turn.blocks = joined(turn.blocks, blocks);
  }
  // A thread must start with the user, even if a window has cut that turn off.
  if (turns[0]?.role !== "user")
    turns.unshift({ role: "user", results: "", blocks: textBlock("(Earlier messages are not shown.)") });
  const marked = cache ? turns.filter(({ role }) => role === "user").slice(-2) : [];
  return turns.map((turn) => turnJson(turn, marked.includes(turn))).join(",");
}

/** Returns the JSON of the system message as a list of blocks. */
export function anthropicSystem(system: string, cache: boolean): string {
  return `[${withMark(textBlock(system), cache)}]`;
}

/** Returns the JSON of the tools; cached per list. */
export function anthropicTools(tools: readonly ToolSpec[], cache: boolean): string {
  let list = toolLists.get(tools);
  if (list === undefined) {
    list = tools
      .map(({ name, description, parameters, shownParameters }) =>
        JSON.stringify({ name, description, input_schema: shownParameters ?? parameters }),
      )
      .join(",");
    toolLists.set(tools, list);
  }
  return `[${withMark(list, cache)}]`;
}

/**
 * True if the last step with tool calls began with a signed thought, or if no results are open. Models with a thinking budget
 * think only then.
 */
export function beganThinking(shown: readonly ModelMessage[], by: string): boolean {
  const last = shown.findLast(({ role }) => role !== "tool");
  if (last === undefined || shown.at(-1)?.role !== "tool") return true;
  const first = last.thoughts?.[0];
  return first !== undefined && first.at === undefined && canReturn(first, by);
}

/** True if a message contains a thought of this model. */
export function hasThoughts(shown: readonly ModelMessage[], by: string): boolean {
  return shown.some(({ thoughts }) => thoughts?.some((thought) => canReturn(thought, by)));
}

function blocksOf(message: ModelMessage, by: string): string {
  const kept = rendered.get(message);
  if (kept !== undefined && (kept.by === by || message.thoughts === null)) return kept.blocks;
  const blocks = contentBlocks(message, by);
  rendered.set(message, { by, blocks });
  return blocks;
}

/** Returns the blocks of one message. */
function contentBlocks(message: ModelMessage, by: string): string {
  const { role, content } = message;
  if (role === "tool") return resultBlock(message, JSON.stringify(content));
  if (role === "assistant") return assistantBlocks(message, by);
  return textBlock(content.trim() === "" ? "(no text)" : content);
}

/**
 * Returns the blocks of a user message or tool result with images. They are not cached, because image bytes stay in memory for
 * one call only.
 */
function blocksWithImages(message: ModelMessage, seen: ShownImages): string {
  const words = wordsWith(message.content, seen);
  const blocks = seen.images.map(imageBlock);
  if (words.trim() !== "") blocks.unshift(textBlock(words));
  return message.role === "tool" ? resultBlock(message, `[${blocks.join(",")}]`) : blocks.join(",");
}

/** Concatenated by hand, because base64 needs no escapes. */
function imageBlock(image: ModelImage): string {
  const source =
    image.kind === "url"
      ? `{"type":"url","url":${JSON.stringify(image.url)}}`
      : `{"type":"base64","media_type":"${image.media_type}","data":"${image.base64}"}`;
  return `{"type":"image","source":${source}}`;
}

function resultBlock({ tool_call_id }: ModelMessage, contentJson: string): string {
  return `{"type":"tool_result","tool_use_id":${JSON.stringify(wireId(tool_call_id ?? ""))},"content":${contentJson}}`;
}

/**
 * Returns thoughts, text and calls in their original order, without trailing thoughts, which the API refuses
 * (https://github.com/tailcallhq/forgecode/issues/2107).
 */
function assistantBlocks({ content, tool_calls, thoughts }: ModelMessage, by: string): string {
  const calls = tool_calls ?? [];
  const blocks: string[] = [];
  let [text, called] = [0, 0];
  /** Number of blocks up to the last one that is not a thought. */
  let said = 0;
  const add = (block: string): void => {
    said = blocks.push(block);
  };
  const upTo = (textTo: number, callsTo: number): void => {
    const piece = content.slice(text, textTo);
    if (piece.trim() !== "") add(textBlock(piece));
    text = Math.max(text, textTo);
    for (; called < Math.min(callsTo, calls.length); called++) add(callBlock(calls[called] as ToolCall));
  };
  for (const thought of thoughts ?? []) {
    if (!canReturn(thought, by)) continue;
    upTo(thought.at?.text ?? 0, thought.at?.calls ?? 0);
    blocks.push(thoughtBlock(thought));
  }
  upTo(content.length, calls.length);
  return blocks.slice(0, said).join(",");
}

type AnthropicThought = Exclude<SignedThought, { readonly type: "vendor" }>;

function canReturn(thought: SignedThought, by: string): thought is AnthropicThought {
  if (thought.by !== by || thought.type === "vendor") return false;
  return thought.type === "redacted_thinking" || thought.signature !== "" || thought.field === "thinking";
}

function thoughtBlock(thought: AnthropicThought): string {
  const { type } = thought;
  if (type === "redacted_thinking") return JSON.stringify({ type, data: thought.data });
  return JSON.stringify({ type, thinking: thought.thinking, signature: thought.signature });
}

function callBlock({ id, name, args }: ToolCall): string {
  return JSON.stringify({ type: "tool_use", id: wireId(id), name: wireId(name), input: wireArguments(args) });
}

/** Replaces characters in other providers' ids and names that this API refuses. */
function wireId(id: string): string {
  return id.replaceAll(/[^\w-]/g, "_").slice(0, 128) || "_";
}

function textBlock(text: string): string {
  return `{"type":"text","text":${JSON.stringify(text)}}`;
}

function turnJson({ role, results, blocks }: Turn, isMarked: boolean): string {
  return `{"role":"${role}","content":[${withMark(joined(results, blocks), isMarked)}]}`;
}

function joined(before: string, after: string): string {
  return before === "" || after === "" ? before + after : `${before},${after}`;
}

/** Marks the last block. */
function withMark(blocks: string, isMarked: boolean): string {
  return isMarked ? blocks.slice(0, -1) + cacheMark : blocks;
}
