import { SvcError } from "../../bus/errors.ts";

/** An error in lines for a person: each problem of a manifest by itself, any other error in one. */
export function problemLines(error: unknown): readonly string[] {
  if (!(error instanceof SvcError)) return [errorText(error)];
  const { detail } = error.details;
  if (error.code !== "invalid_manifest" || !Array.isArray(detail)) return [error.message];
  return detail.map(({ msg, type }: { msg: string; type: string }) => `${msg} (${type})`);
}

/** What an error says; a refused connection has a code and no words, and of SQLite's words the longer code says more. */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { code } = error as NodeJS.ErrnoException;
  if (code !== undefined && extendedCode.test(code)) return `${error.message} (${code})`;
  return error.message || code || error.name;
}

/** Such as SQLITE_IOERR_SHORT_READ, whose words are "disk I/O error" as those of thirty others are. */
const extendedCode = /^SQLITE_[A-Z]+_/;
