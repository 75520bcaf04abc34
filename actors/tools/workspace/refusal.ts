import type { ToolErrorCode, ToolResult } from "../tool.ts";
import { toolError } from "../tool.ts";

/**
 * Machine-readable reason of a refusal: the path leads outside, is reserved, is not a file, or has changed, or the tenant may
 * not use its scope.
 */
type Ground = "elsewhere" | "reserved" | "not_a_file" | "changed" | "scope";

/** Thrown inside a tool to refuse a call, in words for the model. `answer` converts it to the tool's result. */
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

/**
 * Returns the text of `work`, or its refusal, as the tool's result. `taint` is the source of the text; null for text of svc. Other
 * errors are defects and pass through.
 */
export async function answer(work: () => string | Promise<string>, taint: "file" | null = null): Promise<ToolResult> {
  try {
    const text = await work();
    return taint === null ? { text } : { text, taint: [taint] };
  } catch (error) {
    if (error instanceof ToolRefusal) return toolError(error.code, error.message);
    throw error;
  }
}

/** Refuses after the call was aborted, because no result is needed any more. */
export function checkSignal(signal: AbortSignal): void {
  if (signal.aborted) throw new ToolRefusal("interrupted", "the call was given up");
}

/** Texts for errors of the file system. Other errors are reported by their code. */
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
 * Converts an error of a file operation to a refusal about `label`. The system's message is not passed on, because it contains
 * host paths. Returns other errors unchanged.
 */
export function explainFileError(error: unknown, label: string): unknown {
  if (!(error instanceof Error) || !("syscall" in error) || !("code" in error) || typeof error.code !== "string")
    return error;
  const [code, words] = fileErrors[error.code] ?? ["internal", `the file system failed (${error.code})`];
  if (error.code === "ELOOP") return new ToolRefusal(code, words, "elsewhere");
  return new ToolRefusal(code, `${label}: ${words}`);
}
