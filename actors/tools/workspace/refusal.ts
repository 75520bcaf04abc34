import type { ToolErrorCode, ToolResult } from "../tool.ts";
import { toolError } from "../tool.ts";

/**
 * What of a workspace a refusal is about, for those to whom its words say too little: it leads elsewhere, belongs to the service or to
 * git, is no file, is another than it was, or is a scope that the tenant may not have.
 */
type Ground = "elsewhere" | "reserved" | "not_a_file" | "changed" | "scope";

/** Thrown inside a tool to refuse a call in words for the model. `answer` makes the tool's result of it. */
export class ToolRefusal extends Error {
  readonly code: ToolErrorCode;
  readonly ground: Ground | null;

  constructor(code: ToolErrorCode, text: string, ground: Ground | null = null) {
    super(text);
    this.name = "ToolRefusal";
    this.code = code;
    this.ground = ground;
  }
}

/** The tool's result: the text that `work` gives, or its refusal as data. Any other throw is a defect and passes through. */
export async function answer(work: () => string | Promise<string>): Promise<ToolResult> {
  try {
    return { text: await work() };
  } catch (error) {
    if (error instanceof ToolRefusal) return toolError(error.code, error.message);
    throw error;
  }
}

/** Refuses once the call was given up: nobody waits for its result any more. */
export function checkSignal(signal: AbortSignal): void {
  if (signal.aborted) throw new ToolRefusal("interrupted", "the call was given up");
}

/** Words for what the file system may answer. Anything else is told by its code alone. */
const fileErrors: Readonly<Record<string, readonly [ToolErrorCode, string]>> = {
  ENOENT: ["not_found", "no such file or directory"],
  ENOTDIR: ["invalid_arguments", "a part of the path is not a directory"],
  EISDIR: ["invalid_arguments", "is a directory"],
  EEXIST: ["invalid_arguments", "something of this name is there already"],
  ENAMETOOLONG: ["invalid_arguments", "the name is too long"],
  EILSEQ: ["invalid_arguments", "the file system does not take this name"],
  EACCES: ["permission_denied", "the server has no permission"],
  EPERM: ["permission_denied", "the server has no permission"],
  EROFS: ["permission_denied", "the file system is read-only"],
  ELOOP: ["permission_denied", "symlinks are not followed in workspace paths"],
  EBUSY: ["interrupted", "it is in use"],
  ENOSPC: ["internal", "the disk is full"],
  EDQUOT: ["internal", "the disk quota is spent"],
  EFBIG: ["internal", "the file is too large for the file system"],
  EMFILE: ["rate_limited", "too many files are open; try again"],
  ENFILE: ["rate_limited", "too many files are open; try again"],
};

/**
 * What a file operation threw, as a refusal about `label`. The system's own message is never passed on: it names places on the
 * host. What the file system did not throw is returned as it is.
 */
export function explainFileError(error: unknown, label: string): unknown {
  if (!(error instanceof Error) || !("syscall" in error) || !("code" in error) || typeof error.code !== "string")
    return error;
  const [code, words] = fileErrors[error.code] ?? ["internal", `the file system failed (${error.code})`];
  if (error.code === "ELOOP") return new ToolRefusal(code, words, "elsewhere");
  return new ToolRefusal(code, `${label}: ${words}`);
}
