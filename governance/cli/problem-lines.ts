import { SvcError } from "../../bus/errors.ts";

/** An error in lines for a person: each problem of a manifest by itself, any other error in one. */
export function problemLines(error: unknown): readonly string[] {
  if (!(error instanceof SvcError)) return [error instanceof Error ? error.message : String(error)];
  const { detail } = error.details;
  if (error.code !== "invalid_manifest" || !Array.isArray(detail)) return [error.message];
  return detail.map(({ msg, type }: { msg: string; type: string }) => `${msg} (${type})`);
}
