// Images as a model is given them, in nobody's words yet, and in those of the OpenAI protocol. Each provider that speaks another
// one has its own.

/** An image of a message: its bytes, or where the provider finds it. */
export type ModelImage = {
  /** How closely it is to be looked at, for providers that take a word on it. */
  readonly detail?: string;
} & (
  | { readonly kind: "bytes"; readonly media_type: string; readonly base64: string }
  /** The provider fetches it; we never do. */
  | { readonly kind: "url"; readonly url: string }
);

/** What a call shows of the images of one message. */
export interface ShownImages {
  readonly images: readonly ModelImage[];
  /** Which of the message's attachments they are. */
  readonly attachments: readonly number[];
  /** Images that are there and not shown. */
  readonly omitted: number;
}

/** By the message that they belong to; those that have none are not in it. */
export type ImagesOfCall = ReadonlyMap<object, ShownImages>;

const goneMark = "[an attached image is no longer there]";

/** The words of a message with images, and what is to be said of those that are not shown: providers refuse a message of nothing. */
export function wordsWith(content: string, { images, omitted }: Omit<ShownImages, "attachments">): string {
  const mark = omitted > 0 ? omittedMark(omitted) : content === "" && images.length === 0 ? goneMark : "";
  return content === "" || mark === "" ? content + mark : `${content}\n${mark}`;
}

/** Says that there are images which are not shown. */
function omittedMark(count: number): string {
  return `[${count} ${count === 1 ? "image" : "images"} omitted]`;
}

/** JSON text of the content of an OpenAI message: the words, then the images. */
export function openAiContent(text: string, images: readonly ModelImage[]): string {
  const parts = images.map(openAiPart);
  if (text !== "" || parts.length === 0) parts.unshift(openAiText(text));
  return `[${parts.join(",")}]`;
}

/** JSON text of an OpenAI text part. */
export function openAiText(text: string): string {
  return `{"type":"text","text":${JSON.stringify(text)}}`;
}

/** JSON text of an OpenAI image part. Joined by hand: base64 needs no escapes, and looking for some costs milliseconds. */
export function openAiPart(image: ModelImage): string {
  const url = image.kind === "url" ? JSON.stringify(image.url) : `"data:${image.media_type};base64,${image.base64}"`;
  const detail = image.detail === undefined ? "" : `,"detail":${JSON.stringify(image.detail)}`;
  return `{"type":"image_url","image_url":{"url":${url}${detail}}}`;
}
