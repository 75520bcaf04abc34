import { SvcError } from "../../bus/errors.ts";

/** An error in lines for a person: each problem of a manifest by itself, any other error in one. */
export function problemLines(error: unknown): readonly string[] {
  if (!(error instanceof SvcError)) return [errorText(error)];
  const { detail } = error.details;
  if (error.code !== "invalid_manifest" || !Array.isArray(detail)) return [error.message];
  return detail.map(({ msg, type }: { msg: string; type: string }) => `${msg} (${type})`);
}

/** What an error says; a refused connection has a code and no words. */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.message || (error as NodeJS.ErrnoException).code || error.name;
}
