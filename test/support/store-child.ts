import { writeSync } from "node:fs";
import { systemEnv } from "../../bus/env.ts";
import { openStore } from "../../storage/client.ts";
import { startStoreThread } from "../../storage/start.ts";
import type { StoreConfig } from "../../storage/store/config.ts";
import { appendOp } from "../../storage/tables/events.ts";
import { endRunOp, insertRunOp, runKey } from "../../storage/tables/runs.ts";
import { insertThreadOp, progressOp, reserveThreadKeys } from "../../storage/tables/threads.ts";
import { newRun, threadRow } from "./rows.ts";

// A process that writes turns through the real store thread and prints each acknowledgement, `key seq`, at once. It
// runs until it is killed, or for a given number of turns.

interface ChildJob {
  readonly config: StoreConfig;
  /** Conversations at once. */
  readonly writers: number;
  readonly turnsMax: number;
  readonly textChars: number;
  /** Continues after a refused write, and prints `refused`. */
  readonly patient: boolean;
}

const job = JSON.parse(process.argv[2] as string) as ChildJob;
const env = systemEnv();
const thread = startStoreThread(job.config);
await thread.ready;
const store = openStore(env, job.config, thread.attach());
const tenant = store.tenant("acme");
const text = "x".repeat(job.textChars);
let turns = 0;
say("ready");

await Promise.all(Array.from({ length: job.writers }, converse));
store.close();
await thread.close();
say("done");

/** One thread after the other, each with a few events in as many batches. */
async function converse(): Promise<void> {
  while (turns < job.turnsMax) {
    turns++;
    try {
      await oneThread();
    } catch (error) {
      if (!job.patient) throw error;
      say("refused");
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

async function oneThread(): Promise<void> {
  const key = await reserveThreadKeys(store.system, 1);
  const suffix = env.id();
  const now = env.now();
  await tenant.write([
    insertThreadOp(tenant, threadRow(key, suffix, { uid: env.id().slice(0, 20), created_at: now, updated_at: now })),
    insertRunOp(tenant, newRun(suffix, { started_at: now }), { thread_key: key, epoch: 0, first_seq: 0 }),
  ]);
  for (let seq = 0; seq < 5; seq++) {
    await tenant.write([
      appendOp(tenant, key, {
        seq,
        parent_seq: seq - 1,
        ts: now,
        kind: "message",
        role: "user",
        content: `${seq} ${text}`,
        extra: null,
      }),
      progressOp(
        tenant,
        { epoch: 0, next_seq: seq },
        {
          thread_key: key,
          updated_at: now,
          next_seq: seq + 1,
          leaf_seq: seq,
          bytes: 0,
          epoch: 0,
          manifest: null,
          model_id: null,
        },
      ),
    ]);
    say(`${key} ${seq}`);
  }
  await tenant.write([
    endRunOp(
      tenant,
      { run_key: runKey(key, 0), epoch: 0 },
      { status: "completed", ended_at: now, last_seq: 4, stop_reason: "end_turn", error: null, usage: null },
    ),
  ]);
}

/** Written to the system at once and whole, so that a kill of the process does not lose it. */
function say(line: string): void {
  const bytes = Buffer.from(`${line}\n`);
  for (let sent = 0; sent < bytes.length; ) {
    try {
      sent += writeSync(1, bytes, sent);
    } catch (error) {
      // The pipe is full: the reader is slow.
      if ((error as NodeJS.ErrnoException).code !== "EAGAIN") throw error;
    }
  }
}
