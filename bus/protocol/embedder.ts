import type { ChannelRef } from "./channel.ts";

/** What makes vectors of the texts of one tenant, a page at a time: vectors of many texts are more than one message may carry. */
export interface EmbedderMessages {
  /**
   * Asks the provider for the vectors of a page. What comes of it is the one text of the channel, an `EmbeddedPage` as JSON. Refuses with
   * unknown_embedding_model, model_not_configured and mailbox_full.
   */
  embed: { body: EmbedPage; reply: Record<string, never> };
  /** Nobody waits for a page any more. */
  stop: { body: { readonly id: string } };
}

/** A text, or the tokens of one. */
export type EmbeddingInput = string | readonly number[];

/** A page, and where what comes of it is to go. */
export interface EmbedPage {
  /** Names the page for `stop`. */
  readonly id: string;
  /** The logical id of the route. */
  readonly model: string;
  readonly inputs: readonly EmbeddingInput[];
  /** Of each vector; null leaves it to the model. */
  readonly dimensions: number | null;
  readonly request_id: string;
  readonly channel: ChannelRef;
}

/** What is known of the vectors of a route. */
export interface VectorForm {
  readonly dimensions: number;
  /** Whether the provider sends bytes, and not numbers in digits, which are several times as long. */
  readonly isBinary: boolean;
}

/** Inputs of a page: hosted providers take about a hundred in one call. */
const pageInputsMax = 96;
/** Inputs of the first page of a route, of which nobody knows how long its vectors are. */
const firstPageInputs = 24;
/** Numbers of a page, so that reading the provider's answer is a few milliseconds' work: as bytes, and in digits. */
const binaryFloatsMax = 256 * 1024;
const digitFloatsMax = 64 * 1024;
/** Characters or tokens of a page, beyond its first input. */
const pageLengthMax = 128 * 1024;

/** Where the page ends that begins with the input at `from`; `form` is null where nobody knows it yet. */
export function endOfPage(inputs: readonly EmbeddingInput[], from: number, form: VectorForm | null): number {
  const floatsMax = form?.isBinary ? binaryFloatsMax : digitFloatsMax;
  const count =
    form === null ? firstPageInputs : Math.max(1, Math.min(pageInputsMax, Math.floor(floatsMax / form.dimensions)));
  let length = 0;
  let end = from;
  while (end < inputs.length && end - from < count) {
    length += inputs[end]?.length ?? 0;
    if (length > pageLengthMax && end > from) break;
    end++;
  }
  return end;
}
