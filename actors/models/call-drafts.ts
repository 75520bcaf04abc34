import { type CallPart, ChunkError } from "./chunk.ts";
import type { RequestedCall } from "./provider.ts";
import { soundText } from "./sound-text.ts";

/** More calls in one answer than this are an attack or a defect. */
const callsMax = 1024;

interface CallDraft {
  readonly index: number;
  id: string;
  name: string;
  arguments: string;
}

/** Puts the tool calls of one answer together from the pieces in which they come. */
export class CallDrafts {
  readonly #drafts: CallDraft[] = [];
  /** The draft that a piece with this index goes on with. */
  readonly #open = new Map<number, CallDraft>();

  get size(): number {
    return this.#drafts.length;
  }

  /** Takes one piece and answers how many characters it added. Throws ChunkError. */
  take(part: CallPart): number {
    if (typeof part !== "object" || part === null) return 0;
    const id = text(part.id);
    const name = text(part.function?.name);
    const words = text(part.function?.arguments);
    const draft = this.#draftOf(part.index, id, name);
    const before = draft.id.length + draft.name.length;
    if (id !== "") draft.id = id;
    // A name comes once, in pieces at some providers; others repeat it whole with every piece of the arguments.
    if (name !== draft.name) draft.name += name;
    draft.arguments += words;
    return Math.max(0, draft.id.length + draft.name.length - before) + words.length;
  }

  /** The calls by their index; those that share one as they came. */
  finish(): RequestedCall[] {
    return (
      this.#drafts
        .toSorted((a, b) => a.index - b.index)
        // The arguments stay as they are, so that a tool can refuse what is no text.
        .map(({ id, name, arguments: words }) => ({ id: soundText(id), name: soundText(name), arguments: words }))
    );
  }

  #draftOf(index: unknown, id: string, name: string): CallDraft {
    const numbered = typeof index === "number" && Number.isFinite(index);
    const open = numbered ? this.#open.get(index) : this.#drafts.at(-1);
    // Some providers number all calls alike, or not at all: then another id is another call.
    const another = open === undefined || (id !== "" && open.id !== "" && id !== open.id);
    if (!another && (numbered || id !== "" || name === "")) return open;
    if (this.#drafts.length >= callsMax) throw new ChunkError("the answer asks for too many tool calls");
    const draft: CallDraft = { index: numbered ? index : this.#drafts.length, id: "", name: "", arguments: "" };
    this.#drafts.push(draft);
    this.#open.set(draft.index, draft);
    return draft;
  }
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}
