import { SvcError } from "../../bus/errors.ts";

/** Returns an error as lines for a person: one line per problem of a manifest, one line for any other error. */
export function problemLines(error: unknown): readonly string[] {
  if (!(error instanceof SvcError)) return [errorText(error)];
  const { detail } = error.details;
  if (error.code !== "invalid_manifest" || !Array.isArray(detail)) return [error.message];
  return detail.map(({ msg, type }: { msg: string; type: string }) => `${msg} (${type})`);
}

/**
 * Returns the text of an error. A refused connection has only a code. For SQLite, the extended code is more specific than the
 * message.
 */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { code } = error as NodeJS.ErrnoException;
  if (code !== undefined && extendedCode.test(code)) return `${error.message} (${code})`;
  return error.message || code || error.name;
}

/** For example SQLITE_IOERR_SHORT_READ: its message, "disk I/O error", is shared by thirty other codes. */
const extendedCode = /^SQLITE_[A-Z]+_/;
