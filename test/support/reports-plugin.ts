import { defineTool } from "../../actors/tools/tool.ts";
import { Type } from "../../bus/type.ts";
import { definePlugin } from "../../plugins/plugin.ts";
import { png } from "./image-bytes.ts";

// A plugin whose tool returns a text of any length, with an image or as a failure if asked. Agents with the name `catalog` also get a
// thousand tools from a source.

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
    taint: ["web:reports.test"],
    ...(fails === true && { error: "provider_error" as const }),
    ...(draws === true && { images: [{ data: png() }, { data: Buffer.alloc(0) }] }),
  }),
});

/** A tool of the catalog, with a word of its own. */
const listed = Array.from({ length: 1_000 }, (_, at) =>
  defineTool({
    name: `catalog_${at}`,
    description: `Looks up the parts of machine model${at}. ${"It returns a list of parts with their prices. ".repeat(20)}`,
    parameters: Type.Object({}, { additionalProperties: false }),
    effect: "read",
    risk: "reads",
    execute: () => ({ text: `parts of model${at}` }),
  }),
);

export const plugin = definePlugin({
  name: "reports",
  description: "Returns long reports.",
  tools: [report],
  toolSources: [{ name: "catalog", serves: ({ name }) => name === "catalog", open: () => ({ tools: listed }) }],
});
