import { SvcError } from "../bus/errors.ts";
import { placeOfItem } from "../bus/frames/response-object.ts";
import type { TenantStore } from "../storage/store/store.ts";
import { findResponse, readResponse } from "./stored-response.ts";

/** Responses that one input may refer to. */
const responsesMax = 64;

/**
 * An input with the items in it that its references name: clients send the id of what a response has said instead of its words. Refuses
 * with unknown_response and invalid_request.
 */
export async function withReferred(input: unknown, store: TenantStore): Promise<unknown> {
  if (!Array.isArray(input) || !input.some(isReference)) return input;
  const outputs = new Map<string, readonly object[]>();
  const items: unknown[] = [];
  for (const [at, item] of input.entries()) {
    if (!isReference(item)) {
      items.push(item);
      continue;
    }
    const place = typeof item.id === "string" ? placeOfItem(item.id) : null;
    if (place === null) throw malformed(at, "must be the id of an item of a response");
    let output = outputs.get(place.responseId);
    if (output === undefined) {
      if (outputs.size === responsesMax) throw malformed(at, `is of one more than ${responsesMax} responses`);
      ({ output } = await readResponse(store, await findResponse(store, place.responseId)));
      outputs.set(place.responseId, output);
    }
    const found = output[place.index] as { readonly id?: unknown } | undefined;
    if (found?.id !== item.id) throw malformed(at, "names no item of its response");
    items.push(found);
  }
  return items;
}

function isReference(item: unknown): item is { readonly id?: unknown } {
  return (item as { type?: unknown } | null)?.type === "item_reference";
}

function malformed(at: number, msg: string): SvcError {
  return new SvcError("invalid_request", {
    detail: [{ loc: ["body", "input", at, "id"], msg: `id ${msg}`, type: "value_error" }],
  });
}
