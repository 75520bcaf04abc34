import { soundText } from "../../bus/sound-text.ts";
import { ArgumentText } from "./argument-text.ts";
import { type CallPart, MalformedAnswer } from "./chunk.ts";
import type { RequestedCall } from "./provider.ts";

/** Max calls in one reply; more are an attack or a defect. */
const callsMax = 1024;
/** Max failed checks whether a call is complete: each parses all of its arguments. */
const looksMax = 8;

interface CallDraft {
  readonly index: number;
  id: string;
  name: string;
  readonly arguments: ArgumentText;
  /** Vendor-specific fields. */
  vendor: Readonly<Record<string, unknown>> | null;
  /** True if the last piece ends like complete arguments: a cheap check before all pieces are parsed. */
  mayBeWhole: boolean;
}

/** Assembles the tool calls of one reply from their pieces. */
export class CallDrafts {
  readonly #drafts: CallDraft[] = [];
  /** The draft to which the next piece with an index belongs. */
  readonly #open = new Map<number, CallDraft>();
  #looks = 0;

  get size(): number {
    return this.#drafts.length;
  }

  /** Adds a piece and returns the number of characters that it added. Throws MalformedAnswer. */
  take(part: CallPart): number {
    if (typeof part !== "object" || part === null) return 0;
    const id = text(part.id);
    const name = text(part.function?.name);
    const words = argumentsOf(part.function?.arguments);
    const draft = this.#draftOf(part.index, id, name, words);
    const before = draft.id.length + draft.name.length;
    if (id !== "") draft.id = id;
    // Some providers send a name in pieces; others repeat it with every piece of the arguments.
    if (name !== draft.name) draft.name += name;
    draft.arguments.add(words);
    if (words !== "") draft.mayBeWhole = words.endsWith("}");
    if (isObject(part.extra_content)) draft.vendor = { ...draft.vendor, extra_content: part.extra_content };
    return Math.max(0, draft.id.length + draft.name.length - before) + words.length;
  }

  /** Returns the vendor-specific fields with the position of their call. */
  vendorFields(): { readonly call: number; readonly fields: Readonly<Record<string, unknown>> }[] {
    return this.#ordered.flatMap(({ vendor }, call) => (vendor === null ? [] : [{ call, fields: vendor }]));
  }

  /** Returns the calls by index; calls with the same index in order of arrival. */
  finish(): RequestedCall[] {
    return (
      this.#ordered
        // Keep the arguments unparsed, so that a tool can reject invalid ones.
        .map(({ id, name, arguments: words }) => ({
          id: soundText(id),
          name: toolName(name),
          arguments: words.whole(),
        }))
    );
  }

  get #ordered(): CallDraft[] {
    return this.#drafts.toSorted((a, b) => a.index - b.index);
  }

  #draftOf(index: unknown, id: string, name: string, words: string): CallDraft {
    const numbered = typeof index === "number" && Number.isFinite(index);
    const open = numbered ? this.#open.get(index) : this.#drafts.at(-1);
    // Some providers give all calls the same index or none; then a different id means a new call.
    const another =
      open === undefined ||
      (id !== "" && open.id !== "" && id !== open.id) ||
      (id === "" && this.#isBehind(open, name, words));
    if (!another && (numbered || id !== "" || name === "")) return open;
    if (this.#drafts.length >= callsMax) throw new MalformedAnswer("the answer asks for too many tool calls");
    const draft: CallDraft = {
      index: numbered ? index : this.#drafts.length,
      id: "",
      name: "",
      arguments: new ArgumentText(),
      vendor: null,
      mayBeWhole: false,
    };
    this.#drafts.push(draft);
    this.#open.set(draft.index, draft);
    return draft;
  }

  /** True if a piece without an id starts a new call after a complete one; Google sends each call as one piece. */
  #isBehind(open: CallDraft, name: string, words: string): boolean {
    if (name === "" || open.name === "" || (name === open.name && !words.startsWith("{"))) return false;
    if (!open.mayBeWhole || this.#looks >= looksMax) return false;
    try {
      JSON.parse(open.arguments.joined);
      return true;
    } catch {
      this.#looks++;
      return false;
    }
  }
}

/**
 * Returns the tool name without the control token that servers of gpt-oss append
 * (https://github.com/ollama/ollama/issues/11704).
 */
export function toolName(name: string): string {
  const end = name.indexOf("<|");
  return soundText(end > 0 ? name.slice(0, end).trimEnd() : name);
}

/** Some servers send the arguments as an object instead of text. */
function argumentsOf(value: unknown): string {
  return typeof value === "object" && value !== null ? JSON.stringify(value) : text(value);
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}
