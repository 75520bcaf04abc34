import type { ComputeJob } from "../compute/compute-pool.ts";
import type { Redaction } from "./redactor.ts";

/** A text to redact. */
export interface RedactTask {
  readonly text: string;
  /** URLs of the modules with detectors. */
  readonly files: readonly string[];
}

/** Redacts a long text. */
export const redactText: ComputeJob<RedactTask, Redaction> = {
  name: "redact",
  file: new URL("./redact-worker.ts", import.meta.url),
  deadlineMs: 20_000,
  heapMb: 512,
  waitingMax: 64,
};
