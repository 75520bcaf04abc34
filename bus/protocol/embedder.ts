import type { ChannelRef } from "./channel.ts";

/**
 * Messages to the embedder of one tenant. It computes vectors in pages, because those of many texts exceed one message.
 */
export interface EmbedderMessages {
  /**
   * Requests the vectors of a page from the provider. The result is the only text of the channel, an `EmbeddedPage` as
   * JSON. Refuses with unknown_embedding_model, model_not_configured and mailbox_full.
   */
  embed: { body: EmbedPage; reply: Record<string, never> };
  /** Embeds the stored texts of the tenant that wait in the queue of the store. */
  index: { body: Record<string, never> };
  /** Cancels a page. */
  stop: { body: { readonly id: string } };
}

/** A text, the tokens of one, or an image in base64. */
export type EmbeddingInput = string | readonly number[] | { readonly image: string };

/** A page of inputs, and the channel for the result. */
export interface EmbedPage {
  /** Id of the page, for `stop`. */
  readonly id: string;
  /** The logical id of the route; null for the embedder of the deployment. */
  readonly model: string | null;
  readonly inputs: readonly EmbeddingInput[];
  /** Dimensions of each vector; null for the model's default. A model of the deployment that cannot choose them must have them. */
  readonly dimensions: number | null;
  readonly request_id: string;
  /** Subject of the caller, whose budgets pay; absent for stored texts. */
  readonly subject?: string;
  readonly channel: ChannelRef;
}

/** Known properties of a route's vectors. */
export interface VectorForm {
  readonly dimensions: number;
  /** True if the provider sends bytes; decimal numbers are several times as long. */
  readonly isBinary: boolean;
}

/** Max inputs of a page: hosted providers accept about a hundred per call. */
const pageInputsMax = 96;
/** Inputs of the first page of a route, whose vector length is unknown. */
const firstPageInputs = 24;
/** Max numbers of a page if the provider sends bytes, so that parsing the reply takes a few milliseconds. */
const binaryFloatsMax = 256 * 1024;
/** Max numbers of a page if the provider sends decimal numbers. */
const digitFloatsMax = 64 * 1024;
/** Max characters or tokens of a page, not counting its first input. */
const pageLengthMax = 128 * 1024;

/** Returns the end of the page that begins with the input at `from`; `form` is null while unknown. */
export function endOfPage(inputs: readonly EmbeddingInput[], from: number, form: VectorForm | null): number {
  const floatsMax = form?.isBinary ? binaryFloatsMax : digitFloatsMax;
  const count =
    form === null ? firstPageInputs : Math.max(1, Math.min(pageInputsMax, Math.floor(floatsMax / form.dimensions)));
  let length = 0;
  let end = from;
  while (end < inputs.length && end - from < count) {
    length += lengthOf(inputs[end] ?? "");
    if (length > pageLengthMax && end > from) break;
    end++;
  }
  return end;
}

/** Returns the characters or tokens of an input. */
export function lengthOf(input: EmbeddingInput): number {
  return isImage(input) ? input.image.length : input.length;
}

/** True for an input that is an image. */
export function isImage(input: EmbeddingInput): input is { readonly image: string } {
  return typeof input === "object" && "image" in input;
}
