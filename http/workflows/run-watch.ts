import type { Logger } from "pino";
import type { Env, Timer } from "../../bus/env.ts";
import { doneMark, frameOfJson } from "../../bus/frames/frames.ts";
import type { WorkflowVersion } from "../../bus/protocol/workflow-versions.ts";
import type { EventStream } from "../exchange/sse.ts";
import type { WorkflowFeeds } from "./workflow-feeds.ts";

interface WatchDeps {
  readonly env: Env;
  readonly workflowFeeds: WorkflowFeeds;
  readonly log: Pick<Logger, "warn">;
}

/** Pause after which a run is read again, because the message about a version may have been lost. */
const againMs = 5_000;
/** Max time of a stream. The client then reconnects with its cursor, and proves again that its credential is valid. */
const streamMs = 10 * 60_000;

/** The stored run that a client watches; both functions return null after its deletion. */
interface WatchedRun {
  version(): Promise<{ readonly version: number; readonly isEnded: boolean } | null>;
  read(): Promise<WorkflowVersion | null>;
}

/**
 * Sends the present version of a run, unless the client has it, and then each new one. The stream ends with [DONE] after the final one, and
 * without it after ten minutes.
 */
export function watchRun(
  { env, workflowFeeds, log }: WatchDeps,
  { tenantId, runId, cursor }: { readonly tenantId: string; readonly runId: string; readonly cursor: number },
  source: WatchedRun,
  stream: EventStream,
): void {
  let sent = cursor;
  let again: Timer | null = null;
  const take = ({ version, isFinal, record }: WorkflowVersion): void => {
    if (version > sent) {
      sent = version;
      stream.write(frameOfJson("workflow_run", record, version));
    }
    if (isFinal) stream.end(doneMark);
  };
  const read = async (): Promise<void> => {
    const present = await source.version();
    // A run whose version the client has is not read as a whole.
    if (present !== null && present.version <= sent) {
      if (present.isEnded) stream.end(doneMark);
      return;
    }
    const found = present && (await source.read());
    if (found === null) stream.end("");
    else take(found);
  };
  const look = (): void => {
    read()
      .catch((err: unknown) => log.warn({ err }, "a run of a workflow could not be read for its stream"))
      .finally(() => {
        if (!stream.closed) again = env.timer(againMs, look);
      });
  };
  const leave = workflowFeeds.watch(tenantId, runId, take);
  const lifetime = env.timer(streamMs, () => stream.end(""));
  stream.onShutdown(() => stream.end(""));
  stream.onClose(() => {
    leave();
    again?.cancel();
    lifetime.cancel();
  });
  look();
}
