import type { Env } from "../../../bus/env.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import type { ImageTool } from "../../../manifests/sections/image-tools.ts";
import { imageTypeOf } from "../../../storage/files/image-type.ts";
import type { ToolSource } from "../source.ts";
import { type Tool, type ToolContext, type ToolResult, toolError } from "../tool.ts";
import { readAtMost } from "../workspace/file-content.ts";
import { ToolRefusal } from "../workspace/refusal.ts";
import { inParent } from "../workspace/workspace.ts";
import { parsePath } from "../workspace/workspace-path.ts";
import { ImageFailure, ImageProcesses } from "./image-process.ts";
import type { ImageFacts, ImageWork } from "./image-work.ts";

// spec.image_tools: work on images of the conversation and of the workspace.

/** Max bytes of an image in the workspace. */
const fileBytesMax = 16 * 1024 * 1024;
/** Max images of a list. */
const listMax = 50;

/** Returns the source of tools in spec.image_tools. */
export function imageToolSource(env: Pick<Env, "timer" | "id">): ToolSource {
  const processes = new ImageProcesses(env);
  return {
    name: "spec.image_tools",
    offers: [],
    resolve(name: string, { imageTools }: CompiledAgent) {
      const declared = imageTools.get(name);
      return declared && imageTool(declared, processes);
    },
  };
}

type Arguments = Omit<ImageWork, "op"> & { readonly file_id?: string; readonly path?: string };

function imageTool(declared: ImageTool, processes: ImageProcesses): Tool {
  return {
    ...declared,
    timeoutMs: 60_000,
    execute: (args: Arguments, context) => call(declared, args, processes, context),
  };
}

async function call(
  { op, allowsPath }: ImageTool,
  { file_id, path, ...rest }: Arguments,
  processes: ImageProcesses,
  context: ToolContext,
): Promise<ToolResult> {
  if (op === "list") return list(context);
  if (allowsPath && (file_id === undefined) === (path === undefined))
    return toolError("invalid_arguments", "give either file_id or path");
  if (op === "resize" && rest.width === undefined && rest.height === undefined)
    return toolError("invalid_arguments", "give width, height or both");
  if (rest.fit !== undefined && rest.fit !== "inside" && (rest.width === undefined || rest.height === undefined))
    return toolError("invalid_arguments", `fit ${rest.fit} needs width and height`);
  let givenBytes = 0;
  const load = async (): Promise<Uint8Array> => {
    const bytes = path === undefined ? await context.images.read(file_id ?? "") : await fileOf(path, context);
    if (bytes === null) throw new ToolRefusal("not_found", "no such image in this conversation");
    if ((await imageTypeOf(bytes)) === null)
      throw new ToolRefusal("invalid_arguments", "the file is not a GIF, JPEG, PNG or WebP image");
    givenBytes = bytes.length;
    return bytes;
  };
  try {
    const { bytes: data, ...facts } = await processes.run(context.tenantId, { op, ...rest }, load, context.signal);
    if (op === "info") return { text: `${words(facts)}, ${givenBytes} bytes` };
    const text = `${words(facts)}, ${data.length} bytes`;
    return { text, images: [{ data, filename: `${op}.${facts.format}` }], taint: ["file"] };
  } catch (error) {
    if (error instanceof ImageFailure || error instanceof ToolRefusal) return toolError(error.code, error.message);
    throw error;
  }
}

/** Lists the newest images of the conversation. Their names come from people and other tools. */
function list({ images }: ToolContext): ToolResult {
  const all = images.list();
  if (all.length === 0) return { text: "There are no stored images in this conversation." };
  const lines = all
    .slice(0, listMax)
    .map(
      ({ file_id, media_type, filename }) =>
        `${file_id} ${media_type}${filename === "" ? "" : ` ${JSON.stringify(filename)}`}`,
    );
  if (all.length > listMax) lines.push(`[${all.length - listMax} older images are left out]`);
  return { text: lines.join("\n"), taint: ["file"] };
}

function words({ format, width, height, frames, hasAlpha }: ImageFacts): string {
  return `${format}, ${width} × ${height} pixels${frames > 1 ? `, ${frames} frames` : ""}${hasAlpha ? ", transparency" : ""}`;
}

function fileOf(path: string, context: ToolContext): Promise<Uint8Array> {
  return inParent(context, parsePath(path), false, async (directory, name) => {
    const { handle } = await directory.file(name);
    try {
      const bytes = await readAtMost(handle, fileBytesMax);
      if (bytes === null) throw new ToolRefusal("invalid_arguments", `${path}: has more than ${fileBytesMax} bytes`);
      return bytes;
    } finally {
      await handle.close();
    }
  });
}
