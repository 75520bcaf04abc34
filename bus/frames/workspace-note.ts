import type { ThreadNote } from "../protocol/thread.ts";

/** What somebody has done to a file of a conversation's workspace. */
export interface WorkspaceEdit {
  readonly op: "write" | "delete" | "rename";
  readonly path: string;
  /** Of the file as it is now; null where nobody has said, and for one that is gone. */
  readonly bytes: number | null;
  /** Where it is now, if it was renamed. */
  readonly to_path: string | null;
}

/**
 * The note by which a model learns of an edit that is not its own. Its words are the service's; paths stand in it quoted, on one line and
 * with nothing that is not seen.
 */
export function workspaceNote({ op, path, bytes, to_path }: WorkspaceEdit): ThreadNote {
  const size = bytes === null ? "" : ` (${bytes} bytes)`;
  const did = { write: "wrote", delete: "deleted", rename: "renamed" }[op];
  const to = to_path === null ? "" : ` to ${quoted(to_path)}`;
  const edit = { path, op, ...(bytes !== null && { bytes }), ...(to_path !== null && { to_path }) };
  return {
    subject: `workspace ${path}`,
    content: `[workspace] The user ${did} ${quoted(path)}${to}${size}.`,
    metadata: { type: "workspace_edit", ...edit },
    frame: { name: "workspace_note", data: edit },
  };
}

/** A text as JSON, with what has no shape of its own in its escaped form. */
function quoted(path: string): string {
  return JSON.stringify(path).replace(/[\p{Cf}\p{Zl}\p{Zp}]/gu, (sign) => {
    const units = sign.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
    return units.join("");
  });
}
