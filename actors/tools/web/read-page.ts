import type { ComputeJob } from "../../../governance/compute/compute-pool.ts";

/** A document to convert. */
export interface PageTask {
  readonly text: string;
  /** The base of relative links. */
  readonly url: string;
  readonly kind: "html" | "json";
}

/** Converts a page to Markdown, or indents JSON. */
export const readPage: ComputeJob<PageTask, string> = {
  name: "convertPage",
  file: new URL("./page-worker.ts", import.meta.url),
  deadlineMs: 10_000,
  heapMb: 512,
  waitingMax: 64,
};
