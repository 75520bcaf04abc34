import type { ThreadNote } from "../protocol/thread.ts";

/** A user's change of a file in a thread's workspace. */
export interface WorkspaceEdit {
  readonly op: "write" | "delete" | "rename";
  readonly path: string;
  /** Size of the file after the change; null if unknown, or if the file is deleted. */
  readonly bytes: number | null;
  /** The new path of a renamed file. */
  readonly to_path: string | null;
}

/**
 * Returns the note that informs a model of a user's edit. The text is the service's own; paths are quoted, on one line
 * and without invisible characters.
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

/** Returns a text as JSON, with invisible characters escaped. */
function quoted(path: string): string {
  return JSON.stringify(path).replace(/[\p{Cf}\p{Zl}\p{Zp}]/gu, (sign) => {
    const units = sign.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
    return units.join("");
  });
}
