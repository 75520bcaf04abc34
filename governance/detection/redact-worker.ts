import { loadRedactor } from "./load-redactor.ts";
import type { RedactTask } from "./redact-task.ts";
import type { Redaction, Redactor } from "./redactor.ts";

// Entry of the thread that redacts long texts; it calls `redact` for each task.

let redactor: Promise<Redactor> | null = null;

/** Returns the redacted text. */
export async function redact({ text, files }: RedactTask): Promise<Redaction> {
  redactor ??= loadRedactor(files);
  return (await redactor).redact(text);
}
