import type { ToolSource } from "../../actors/tools/source.ts";
import type { Tool, ToolErrorCode, ToolResult } from "../../actors/tools/tool.ts";
import type { CompiledAgent } from "../../manifests/compile/compiled.ts";
import type { Aliases } from "./aliases.ts";
import type { RecordedEvent, RecordedLog } from "./recorded-log.ts";

/** Longer than any call takes. */
const timeoutMs = 3_600_000;

/** Receives calls that cannot be replayed. */
export interface ToolReader {
  /** A call without a recorded result. */
  unanswered(id: string): void;
  /** A result with images, which are files of the tenant. */
  withImages(): void;
}

/** Returns tools that answer each call with its recorded result. Nothing is executed. */
export function recordedTools(log: RecordedLog, aliases: Aliases, reader: ToolReader): ToolSource {
  return {
    name: "the log",
    offers: [],
    resolve(name: string, agent: CompiledAgent): Tool | undefined {
      const spec = agent.tools.find((tool) => tool.name === name);
      if (spec === undefined) return undefined;
      return {
        ...spec,
        timeoutMs,
        execute(_args, { toolCallId }) {
          const event = log.result(aliases.id(toolCallId));
          if (event !== undefined && event.metadata.attachments === undefined) return resultOf(event);
          if (event === undefined) reader.unanswered(toolCallId);
          else reader.withImages();
          return new Promise(() => {});
        },
      };
    },
  };
}

function resultOf({ content, metadata }: RecordedEvent): ToolResult {
  const [whole, code] = /^\[tool error\/([a-z_]+)\] /.exec(content) ?? [];
  const taint = metadata.taint as readonly string[] | undefined;
  const of = taint === undefined ? {} : { taint };
  if (metadata.status !== "error" || whole === undefined) return { text: content, ...of };
  return { text: content.slice(whole.length), error: code as ToolErrorCode, ...of };
}
