import { SvcError } from "../bus/errors.ts";
import type { RepeatedTask } from "../bus/task-declaration.ts";
import type { Flushed } from "./actor-node.ts";

const flushMs = 60_000;

interface FlushDeps {
  /** Makes every thread write its buffered rows. Returns false if the store does not accept all of them. */
  flush(what: Flushed): Promise<boolean>;
}

/** The tasks that write buffered rows of audit and usage. */
export const flushTasks: readonly RepeatedTask<FlushDeps>[] = (["audit", "usage"] as const).map((what) => ({
  name: `flush_${what}`,
  of: "process",
  async run({ flush }) {
    if (!(await flush(what))) throw new SvcError("storage_unavailable");
    return flushMs;
  },
}));
