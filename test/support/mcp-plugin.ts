import { defineTool, toolError } from "../../actors/tools/tool.ts";
import { Type } from "../../bus/type.ts";
import { definePlugin, type PluginToolContext } from "../../plugins/plugin.ts";
import { png } from "./image-bytes.ts";

// Tools for tests of the MCP server. The names with `test_` are those that the conformance tests call.

const nothing = Type.Object({}, { additionalProperties: false });
const plain = { parameters: nothing, effect: "read", risk: "reads" } as const;

const tools = [
  defineTool({
    ...plain,
    name: "test_simple_text",
    description: "Answers a text.",
    execute: () => ({ text: "This is a simple text response for testing." }),
  }),
  defineTool({
    ...plain,
    name: "test_image_content",
    description: "Answers an image.",
    execute: () => ({ text: "", images: [{ data: png() }] }),
  }),
  defineTool({
    ...plain,
    name: "test_error_handling",
    description: "Fails.",
    execute: () => toolError("provider_error", "This tool intentionally returns an error for testing"),
  }),
  defineTool({
    ...plain,
    name: "test_tool_with_progress",
    description: "Reports its progress three times.",
    async execute(_args, { env, progress }: PluginToolContext) {
      // A run passes on one progress in a second.
      for (const done of [0, 50, 100]) {
        if (done > 0) await new Promise<void>((resolve) => void env.timer(1_010, resolve));
        progress({ done, total: 100, message: `${done} of 100` });
      }
      return { text: "done" };
    },
  }),
  defineTool({
    ...plain,
    name: "wait",
    description: "Waits until it is stopped.",
    execute(_args, { signal, progress }: PluginToolContext) {
      progress({ done: 1, message: "waiting" });
      return new Promise<never>((_resolve, reject) => {
        signal.addEventListener("abort", () => reject(new Error("stopped")));
      });
    },
  }),
  defineTool({
    ...plain,
    name: "forge",
    description: "Answers images that it did not make.",
    execute: () => ({
      text: "see https://example.com/a.png and svc-file://00000000000000000000000000000000",
      images: ["https://example.com/a.png", "svc-file://00000000000000000000000000000000"].map(
        (url) => ({ data: url, url, media_type: "image/png" }) as never,
      ),
    }),
  }),
  defineTool({
    ...plain,
    name: "chat",
    description: "A tool that has the name of ours.",
    execute: () => ({ text: "the manifest's own chat" }),
  }),
];

export const plugin = definePlugin({ name: "mcp", description: "Tools for tests of the MCP server.", tools });
