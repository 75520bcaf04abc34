// Images for models, independent of the protocol, and their form in the OpenAI protocol. Providers with another protocol have
// their own form.

/** An image of a message: its bytes, or a URL that the provider fetches. */
export type ModelImage = {
  /** The requested resolution, for providers that support it. */
  readonly detail?: string;
} & (
  | { readonly kind: "bytes"; readonly media_type: string; readonly base64: string }
  /** svc itself never fetches the URL. */
  | { readonly kind: "url"; readonly url: string }
);

/** The images of one message that a call contains. */
export interface ShownImages {
  readonly images: readonly ModelImage[];
  /** Their indexes among the message's attachments. */
  readonly attachments: readonly number[];
  /** Number of images that are omitted. */
  readonly omitted: number;
}

/** By message; messages without images are absent. */
export type ImagesOfCall = ReadonlyMap<object, ShownImages>;

const goneMark = "[an attached image is no longer there]";

/** Returns the text of a message with images, with a mark for omitted ones, because providers refuse empty messages. */
export function wordsWith(content: string, { images, omitted }: Omit<ShownImages, "attachments">): string {
  const mark = omitted > 0 ? omittedMark(omitted) : content === "" && images.length === 0 ? goneMark : "";
  return content === "" || mark === "" ? content + mark : `${content}\n${mark}`;
}

/** Returns the mark for omitted images. */
function omittedMark(count: number): string {
  return `[${count} ${count === 1 ? "image" : "images"} omitted]`;
}

/** Returns the JSON of an OpenAI message's content: the text, then the images. */
export function openAiContent(text: string, images: readonly ModelImage[]): string {
  const parts = images.map(openAiPart);
  if (text !== "" || parts.length === 0) parts.unshift(openAiText(text));
  return `[${parts.join(",")}]`;
}

/** Returns the JSON of an OpenAI text part. */
export function openAiText(text: string): string {
  return `{"type":"text","text":${JSON.stringify(text)}}`;
}

/**
 * Returns the JSON of an OpenAI image part. Concatenated by hand: base64 needs no escapes, and searching for some takes
 * milliseconds.
 */
export function openAiPart(image: ModelImage): string {
  const url = image.kind === "url" ? JSON.stringify(image.url) : `"data:${image.media_type};base64,${image.base64}"`;
  const detail = image.detail === undefined ? "" : `,"detail":${JSON.stringify(image.detail)}`;
  return `{"type":"image_url","image_url":{"url":${url}${detail}}}`;
}
