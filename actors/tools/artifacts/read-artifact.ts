import { readArtifact as spec } from "../../../manifests/sections/artifacts.ts";
import { type Tool, type ToolContext, type ToolResult, toolError } from "../tool.ts";

/** Max time of a read from the object store. */
const timeoutMs = 30_000;

/** Reads a window of a stored result of the same conversation. The control that stores results never stores this one. */
export const readArtifact: Tool = {
  ...spec,
  timeoutMs,
  needs: "thread",
  async execute({ artifact_id, offset = 0, length }: Asked, { artifacts }: ToolContext): Promise<ToolResult> {
    const page = await artifacts.read(artifact_id, offset, length ?? null);
    if (page === null) return toolError("not_found", "artifact not found");
    const { text, end, chars, taint } = page;
    if (offset >= chars)
      return toolError("invalid_arguments", `offset ${offset} is behind the end: it has ${chars} characters`);
    const rest = end < chars ? `the next begins at offset ${end}` : "this is the end";
    return {
      text: `${text}\n[characters ${page.offset} to ${end} of ${chars}; ${rest}]`,
      ...(taint.length > 0 && { taint }),
    };
  },
};

interface Asked {
  readonly artifact_id: string;
  readonly offset?: number;
  readonly length?: number;
}
