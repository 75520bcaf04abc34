import type { Env } from "../../../bus/env.ts";
import { requestMs, type Store, type WriteOp } from "../../../storage/store/store.ts";
import { releaseKeyOp } from "../../../storage/tables/idempotency.ts";
import { insertEndedRunOp, type NewRun } from "../../../storage/tables/runs.ts";
import { isUsageOp } from "../../../storage/tables/usage.ts";
import { earlierAnswer, storedAnswer } from "../../log/earlier-answer.ts";
import type { OpenThread } from "../../log/messages.ts";
import type { EventLog } from "./event-log.ts";

/** The opened thread of a run that has none. */
const nothing: OpenThread = {
  exists: false,
  thread_key: -1,
  uid: "",
  next_seq: -1,
  leaf_seq: -1,
  thinking_level: null,
  output_style: null,
  permission_mode: null,
  pinned: false,
  queued: null,
  branch: [],
  closing: [],
  closingAside: [],
  room: Number.POSITIVE_INFINITY,
};

/**
 * Returns the event log of a turn without a thread. It stores the run row, the usage and the answer for an idempotency key, all
 * at the end of the run. `writeUsage` stores the usage earlier.
 */
export function inMemoryEventLog(store: Store, tenantId: string, runId: string, env: Env): EventLog {
  const kept: WriteOp[] = [];
  let row: NewRun | null = null;
  /** The write of usage before the end. */
  let writing: Promise<void> = Promise.resolve();
  const tenant = store.tenant(tenantId);
  const log: EventLog = {
    nextSeq: -1,
    durableSeq: -1,
    threadId: "",
    hasBegun: true,
    leafIdAfter: () => "",
    async open({ idempotency }) {
      const earlier = await earlierAnswer(tenant, idempotency, env.now());
      return earlier === null
        ? { kind: "open", thread: nothing }
        : { kind: "earlier", accepted: storedAnswer(earlier.answer) };
    },
    async begin({ run, ops }) {
      row = run;
      if (ops.length > 0) await tenant.write(ops, requestMs);
      return null;
    },
    async append(_entries, ops = []) {
      kept.push(...ops);
      return -1;
    },
    buffer: (entries, ops) => log.append(entries, ops),
    async writeUsage() {
      const usage = kept.filter(isUsageOp);
      if (usage.length === 0) return;
      for (const op of usage) kept.splice(kept.indexOf(op), 1);
      writing = writing.then(() =>
        tenant.write(usage).then(
          () => {},
          (error) => {
            // The end of the run tries again.
            kept.unshift(...usage);
            throw error;
          },
        ),
      );
      const written = writing;
      writing = written.catch(() => {});
      await written;
    },
    async suspend() {
      throw new Error("a run without a thread waits in memory and cannot be suspended");
    },
    async takeInputs() {
      throw new Error("a run without a thread has no queued input");
    },
    async end(_entries, ops, ending) {
      await writing;
      kept.push(...ops());
      if (row !== null) kept.push(insertEndedRunOp(tenant, row, { ...ending, ended_at: env.now(), last_seq: null }));
      await tenant.write(kept);
      return true;
    },
    // The answer was not stored, so the key is released, and the client can repeat the request.
    release(key) {
      if (key !== null) void tenant.write([releaseKeyOp(tenant, key.scope, runId)]).catch(() => {});
    },
    // Only a durable run is cut off, and it has a thread.
    cutOff: () => {},
    publish: () => {},
  };
  return log;
}
