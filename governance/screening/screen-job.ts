import type { ComputeJob, ComputePool } from "../compute/compute-pool.ts";
import { type Screened, screenText } from "./screen-text.ts";

/** Longer texts are screened in the compute pool. */
const inlineCharsMax = 16 * 1024;

const job: ComputeJob<string, Screened> = {
  name: "screenText",
  file: new URL("./screen-text.ts", import.meta.url),
  deadlineMs: 20_000,
  heapMb: 256,
  waitingMax: 64,
};

/** Searches a text for instructions to a model. Rejects if a long text could not be searched in time. */
export async function screen(text: string, compute: ComputePool): Promise<Screened> {
  return text.length <= inlineCharsMax ? screenText(text) : compute.run(job, text);
}
