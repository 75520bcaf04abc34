import { messageFields, type SpokenField, spokenFields, vendorCharsMax } from "../../bus/protocol/vendor-fields.ts";
import type { SignedThought } from "./provider.ts";
import { isSpoken } from "./vendor-fields.ts";

type Fields = Readonly<Record<string, unknown>>;

/** Fields that arrive in pieces. */
const written = ["text", "summary", "thinking"] as const;

/** Assembles the vendor fields of one reply from their pieces. */
export class VendorDrafts {
  readonly #lists = new Map<string, Fields[]>();
  #objects: Fields = {};
  #spoken: SpokenField | null = null;
  /** Positions in the text and the reasoning at which each thought began. */
  readonly #starts: { readonly text: number; readonly from: number }[] = [];

  /** Returns the reasoning text of a delta. */
  spokenIn(delta: Fields): string {
    const field =
      spokenFields.find((name) => typeof delta[name] === "string" && delta[name] !== "") ??
      spokenFields.find((name) => typeof delta[name] === "string");
    if (field === undefined) return "";
    this.#spoken ??= field;
    return delta[field] as string;
  }

  /** Records the start of a thought. */
  think(text: number, from: number): void {
    if (this.#starts.at(-1)?.text !== text) this.#starts.push({ text, from });
  }

  /** Adds the fields of one delta; returns their number of characters. */
  take(delta: Fields): number {
    let characters = 0;
    for (const field of messageFields) {
      const value = delta[field];
      if (isSpoken(field) || typeof value !== "object" || value === null) continue;
      if (Array.isArray(value) && value.length === 0) continue;
      characters += JSON.stringify(value).length;
      if (Array.isArray(value)) this.#takeList(field, value as readonly unknown[]);
      else this.#objects = { ...this.#objects, [field]: { ...(this.#objects[field] as Fields), ...value } };
    }
    return characters;
  }

  /** Returns the thoughts and vendor fields that are returned to `by` with this reply; undefined for none. */
  thoughts(
    by: string,
    reasoning: string,
    calls: readonly { readonly call: number; readonly fields: Fields }[],
    hasCalls: boolean,
  ): readonly SignedThought[] | undefined {
    if (by === "") return undefined;
    const vendor = [{ fields: { ...Object.fromEntries(this.#lists), ...this.#objects } }, ...calls].flatMap(
      ({ fields, ...of }): SignedThought[] => {
        const json = JSON.stringify(fields);
        return json === "{}" || json.length > vendorCharsMax ? [] : [{ type: "vendor", json, by, ...of }];
      },
    );
    // The vendor lists already contain the text.
    const isListed = this.#lists.size > 0 && vendor.length > 0;
    const field = this.#spoken !== null && !isListed ? { field: this.#spoken } : {};
    if (vendor.length === 0 && (this.#spoken === null || (reasoning === "" && !hasCalls))) return undefined;
    const spoken = this.#starts.map(({ text, from }, at): SignedThought => {
      const thinking = reasoning.slice(from, this.#starts[at + 1]?.from);
      return { type: "thinking", thinking, signature: "", by, ...field, ...(text > 0 && { at: { text, calls: 0 } }) };
    });
    // A step without a thought is marked by an empty one.
    if (spoken.length === 0 && this.#spoken !== null && !isListed && hasCalls)
      spoken.push({ type: "thinking", thinking: "", signature: "", by, ...field });
    return [...spoken, ...vendor];
  }

  /** Adds a list. Its first item may continue the last item of the list so far. */
  #takeList(field: string, items: readonly unknown[]): void {
    const list = this.#lists.get(field) ?? [];
    for (const [at, item] of items.entries()) {
      if (typeof item !== "object" || item === null) continue;
      const last = list.at(-1);
      if (at === 0 && last !== undefined && isContinuation(last, item as Fields))
        list[list.length - 1] = joined(last, item as Fields);
      else list.push(item as Fields);
    }
    if (list.length > 0) this.#lists.set(field, list);
  }
}

/** True if an item continues the last one: same type and index, and the last one has no signature yet. */
function isContinuation(last: Fields, item: Fields): boolean {
  if (last.type !== item.type || last.index !== item.index || typeof item.data === "string") return false;
  return typeof last.signature !== "string" || last.signature === "";
}

function joined(last: Fields, item: Fields): Fields {
  const known = Object.entries(item).filter(([, value]) => value !== null && value !== "");
  const words = written.flatMap((name) =>
    typeof last[name] === "string" && typeof item[name] === "string" ? [[name, last[name] + item[name]] as const] : [],
  );
  return { ...last, ...Object.fromEntries(known), ...Object.fromEntries(words) };
}
