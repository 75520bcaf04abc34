import { defineTool } from "../../actors/tools/tool.ts";
import { Type } from "../../bus/type.ts";
import { definePlugin } from "../../plugins/plugin.ts";
import { gif, jpeg, png, svg, webp } from "./image-bytes.ts";

// A plugin whose tool makes images of any kind and number, and invalid ones.

const kinds: Readonly<Record<string, () => unknown>> = {
  png: () => png(),
  gif: () => gif,
  jpeg: () => jpeg,
  webp: () => webp,
  svg: () => svg,
  empty: () => Buffer.alloc(0),
  large: () => png(600 * 1024 + 1),
  nothing: () => null,
};

const draw = defineTool({
  name: "draw",
  description: "Draws.",
  parameters: Type.Object({ kinds: Type.Array(Type.String()) }, { additionalProperties: false }),
  effect: "read",
  risk: "reads",
  execute: ({ kinds: wanted }) => ({
    text: "drawn",
    images: wanted.map((kind, at) => ({ data: kinds[kind]?.() as Uint8Array, filename: `../${kind}-${at}` })),
  }),
});

export const plugin = definePlugin({
  name: "images",
  description: "Draws images.",
  tools: [draw],
  hooks: [{ name: "images_guard", afterTool: (_call, text) => (text === "drawn" ? "drawn (seen)" : text) }],
});
