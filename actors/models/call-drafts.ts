import { soundText } from "../../bus/sound-text.ts";
import { ArgumentText } from "./argument-text.ts";
import { type CallPart, MalformedAnswer } from "./chunk.ts";
import type { RequestedCall } from "./provider.ts";

/** More calls in one answer than this are an attack or a defect. */
const callsMax = 1024;
/** How often it is looked in vain whether a call is whole: each time all of its arguments are read. */
const looksMax = 8;

interface CallDraft {
  readonly index: number;
  id: string;
  name: string;
  readonly arguments: ArgumentText;
  /** Fields of the provider's own. */
  vendor: Readonly<Record<string, unknown>> | null;
  /** Whether they end as those of a whole call do. To ask them themselves makes one text of all their pieces each time. */
  mayBeWhole: boolean;
}

/** Puts the tool calls of one answer together from the pieces in which they come. */
export class CallDrafts {
  readonly #drafts: CallDraft[] = [];
  /** The draft that a piece with this index goes on with. */
  readonly #open = new Map<number, CallDraft>();
  #looks = 0;

  get size(): number {
    return this.#drafts.length;
  }

  /** Takes one piece and answers how many characters it added. Throws MalformedAnswer. */
  take(part: CallPart): number {
    if (typeof part !== "object" || part === null) return 0;
    const id = text(part.id);
    const name = text(part.function?.name);
    const words = argumentsOf(part.function?.arguments);
    const draft = this.#draftOf(part.index, id, name, words);
    const before = draft.id.length + draft.name.length;
    if (id !== "") draft.id = id;
    // A name comes once, in pieces at some providers; others repeat it whole with every piece of the arguments.
    if (name !== draft.name) draft.name += name;
    draft.arguments.add(words);
    if (words !== "") draft.mayBeWhole = words.endsWith("}");
    if (isObject(part.extra_content)) draft.vendor = { ...draft.vendor, extra_content: part.extra_content };
    return Math.max(0, draft.id.length + draft.name.length - before) + words.length;
  }

  /** The fields of the provider's own, each with the place of its call. */
  vendorFields(): { readonly call: number; readonly fields: Readonly<Record<string, unknown>> }[] {
    return this.#ordered.flatMap(({ vendor }, call) => (vendor === null ? [] : [{ call, fields: vendor }]));
  }

  /** The calls by their index; those that share one as they came. */
  finish(): RequestedCall[] {
    return (
      this.#ordered
        // The arguments stay as they are, so that a tool can refuse what is no text.
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
    // Some providers number all calls alike, or not at all: then another id is another call.
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

  /** Whether a piece without an id begins a call behind a whole one: Google's come so, each in one piece. */
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
 * A tool's name as the model meant it. Servers of gpt-oss leave the model's next control token behind it
 * (https://github.com/ollama/ollama/issues/11704).
 */
export function toolName(name: string): string {
  const end = name.indexOf("<|");
  return soundText(end > 0 ? name.slice(0, end).trimEnd() : name);
}

/** Some servers send the arguments themselves, and not their text. */
function argumentsOf(value: unknown): string {
  return typeof value === "object" && value !== null ? JSON.stringify(value) : text(value);
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}
