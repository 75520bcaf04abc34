import type { CallToolResult } from "@modelcontextprotocol/client";
import type { ResultImage } from "../../../governance/controls/verdicts.ts";
import type { ToolResult } from "../tool.ts";

/** Max characters of a result; the limit of results in general is the same. */
const textCharsMax = 1024 * 1024;
const imageTypes = new Set(["image/gif", "image/jpeg", "image/png", "image/webp"]);

/** Returns the result of a server's call for the model: its texts, marks for other content, and its images. */
export function readResult(
  { content, structuredContent, isError }: CallToolResult,
  taint: string,
  masked: (text: string) => string,
): ToolResult {
  const texts: string[] = [];
  const images: ResultImage[] = [];
  for (const block of content) {
    if (block.type === "text") texts.push(block.text);
    else if (block.type === "image" && imageTypes.has(block.mimeType)) {
      images.push({ data: Buffer.from(block.data, "base64") });
      texts.push(`[image ${images.length}]`);
    } else if (block.type === "resource" && "text" in block.resource) texts.push(block.resource.text);
    else if (block.type === "resource_link") texts.push(`[resource ${block.uri}]`);
    else texts.push(`[${block.type} content]`);
  }
  // A server with an output schema may send its data in this field alone.
  if (texts.length === 0 && structuredContent !== undefined) texts.push(JSON.stringify(structuredContent));
  const text = masked(texts.join("\n"));
  const cut = text.length > textCharsMax ? `${text.slice(0, textCharsMax).toWellFormed()}\n[cut]` : text;
  return {
    text: cut,
    taint: [taint],
    ...(isError === true && { error: "provider_error" as const }),
    ...(images.length > 0 && { images }),
  };
}
