import { defineTool } from "../../actors/tools/tool.ts";
import { Type } from "../../bus/type.ts";
import { definePlugin } from "../../plugins/plugin.ts";
import { png } from "./image-bytes.ts";

// A plugin whose tool returns a text of any length, with an image or as a failure if asked.

/** The text of a report: `length` UTF-16 code units of numbered words. */
export function reportText(length: number, word = "line"): string {
  let text = "";
  for (let at = 0; text.length < length; at++) text += `${word}-${at} `;
  return text.slice(0, length);
}

const report = defineTool({
  name: "report",
  description: "Returns a long report.",
  parameters: Type.Object(
    {
      length: Type.Integer(),
      word: Type.Optional(Type.String()),
      fails: Type.Optional(Type.Boolean()),
      draws: Type.Optional(Type.Boolean()),
    },
    { additionalProperties: false },
  ),
  effect: "read",
  risk: "reads",
  execute: ({ length, word, fails, draws }) => ({
    text: reportText(length, word),
    ...(fails === true && { error: "provider_error" as const }),
    ...(draws === true && { images: [{ data: png() }, { data: Buffer.alloc(0) }] }),
  }),
});

export const plugin = definePlugin({ name: "reports", description: "Returns long reports.", tools: [report] });
