import type { ComputePool } from "../../../governance/compute/compute-pool.ts";
import type { ResultImage } from "../../../governance/controls/verdicts.ts";
import type { WholeAnswer } from "../../../governance/egress/outgoing.ts";
import { type PageTask, readPage } from "./read-page.ts";
import { decodeText, indentJson, isHtml, isJsonType, plainText } from "./text.ts";

/** The content of an answer for the model. */
interface Content {
  readonly text: string;
  readonly images: readonly ResultImage[];
}

/** Larger answers are converted in the compute pool, so that they stall no other request. */
const inlineBytesMax = 64 * 1024;
/** Bytes of a page that are shown as plain text if it cannot be converted. */
const plainBytesMax = 256 * 1024;

/** Returns an answer as text: HTML as Markdown, JSON indented, other text as it is, a mark for anything else. */
export async function contentOf(
  answer: Pick<WholeAnswer, "bytes" | "headers" | "url">,
  format: "text" | "raw",
  compute: Pick<ComputePool, "run">,
): Promise<Content> {
  const { bytes, headers, url } = answer;
  const type = headers["content-type"] ?? "";
  if (/^image\/(?:gif|jpeg|png|webp)\b/i.test(type))
    return { text: `[image of ${bytes.length} bytes]`, images: [{ data: bytes }] };
  const text = decodeText(bytes, type);
  if (text === null) return { text: `[binary content of ${bytes.length} bytes]`, images: [] };
  if (format === "raw") return { text, images: [] };
  const task: PageTask = { text, url, kind: isHtml(type, text) ? "html" : "json" };
  if (task.kind === "json" && !isJsonType(type)) return { text, images: [] };
  if (task.kind === "json" && bytes.length <= inlineBytesMax) return { text: indentJson(text), images: [] };
  try {
    return { text: await compute.run(readPage, task), images: [] };
  } catch {
    return { text: task.kind === "json" ? text : plainText(text.slice(0, plainBytesMax)), images: [] };
  }
}
