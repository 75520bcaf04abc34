import { SvcError } from "../../bus/errors.ts";
import type { ExpandedSize } from "../../bus/expanded-size.ts";
import { placeOfItem } from "../../bus/frames/response-object.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { findResponse, readResponse } from "./stored-response.ts";

/** Max responses that one input may refer to. */
const responsesMax = 64;

/**
 * Replaces item references of an input by the items: clients may send the id of an earlier item in place of its text. `size` counts the
 * whole item for each reference. Refuses with unknown_response, invalid_request and payload_too_large.
 */
export async function withReferred(input: unknown, store: TenantStore, size: ExpandedSize): Promise<unknown> {
  if (!Array.isArray(input) || !input.some(isReference)) return input;
  const items: unknown[] = [...input];
  for (const [responseId, references] of referencesOf(input)) {
    // Reads one response at a time, so that memory holds only the named items.
    const { output } = await readResponse(store, await findResponse(store, responseId));
    const sizes = new Map<unknown, number>();
    for (const { at, id, index } of references) {
      const found = output[index] as { readonly id?: unknown } | undefined;
      if (found?.id !== id) throw malformed(at, "names no item of its response");
      const bytes = sizes.get(found) ?? Buffer.byteLength(JSON.stringify(found));
      sizes.set(found, bytes);
      size.add(bytes);
      items[at] = found;
    }
  }
  return items;
}

/** A reference of an input: its index in the input, and the item's id and index in its response. */
interface Reference {
  readonly at: number;
  readonly id: unknown;
  readonly index: number;
}

/** Returns the references of an input by response. */
function referencesOf(input: readonly unknown[]): Map<string, Reference[]> {
  const byResponse = new Map<string, Reference[]>();
  for (const [at, item] of input.entries()) {
    if (!isReference(item)) continue;
    const place = typeof item.id === "string" ? placeOfItem(item.id) : null;
    if (place === null) throw malformed(at, "must be the id of an item of a response");
    const known = byResponse.get(place.responseId);
    if (known === undefined && byResponse.size === responsesMax)
      throw malformed(at, `is of one more than ${responsesMax} responses`);
    const reference = { at, id: item.id, index: place.index };
    if (known === undefined) byResponse.set(place.responseId, [reference]);
    else known.push(reference);
  }
  return byResponse;
}

function isReference(item: unknown): item is { readonly id?: unknown } {
  return (item as { type?: unknown } | null)?.type === "item_reference";
}

function malformed(at: number, msg: string): SvcError {
  return new SvcError("invalid_request", {
    detail: [{ loc: ["body", "input", at, "id"], msg: `id ${msg}`, type: "value_error" }],
  });
}
