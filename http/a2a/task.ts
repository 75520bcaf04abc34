import { SvcError } from "../../bus/errors.ts";
import type { A2aTask, TaskStatus } from "../../bus/frames/a2a-objects.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { durableRunById } from "../../storage/tables/durable-runs.ts";
import { readEvents } from "../../storage/tables/events.ts";
import { a2aTaskRun, type RunRow } from "../../storage/tables/runs.ts";
import { type ThreadRow, threadByKey } from "../../storage/tables/threads.ts";
import { noThread, openWaitsOfThread, waitsOfThreadMax } from "../../storage/tables/waits.ts";
import { failureOf, saidIn } from "../streams/logged-output.ts";

// A task has no row of its own: it is a run and the run's events in the log of its context.

/** A stored task. */
export interface StoredTask {
  readonly run: RunRow;
  readonly thread: ThreadRow;
}

/** Messages of the caller in a task, unless the caller asks for fewer. */
const historyMax = 20;

/** Returns the tenant's task with this id. Refuses with run_not_found. */
export async function findTask(store: TenantStore, id: string): Promise<StoredTask> {
  const run = /^[0-9a-f]{32}$/.test(id) ? await a2aTaskRun(store, id) : undefined;
  const thread = run?.thread_key == null ? undefined : await threadByKey(store, run.thread_key);
  if (run === undefined || thread === undefined) throw new SvcError("run_not_found");
  return { run, thread };
}

/** Returns the task as far as it is in the log; `historyLength` is the max number of messages, null for the default. */
export async function readTask(
  store: TenantStore,
  found: StoredTask,
  historyLength: number | null = null,
): Promise<A2aTask> {
  const { run, thread } = found;
  const most = Math.min(historyLength ?? historyMax, historyMax);
  const end = run.last_seq === null ? thread.next_seq : run.last_seq + 1;
  const history: { id: string; text: string }[] = [];
  let answer: string | null = null;
  for (let seq = run.first_seq ?? end; seq < end; ) {
    const page = await readEvents(store, thread.thread_key, seq, end);
    const last = page.at(-1);
    if (last === undefined) break;
    for (const event of page) {
      const said = saidIn(event);
      if (said !== null) answer = said.findLast(({ kind }) => kind !== "thought")?.text ?? answer;
      if (event.kind === "message" && event.role === "user" && event.extra?.metadata?.subtask === undefined)
        history.push({ id: `${run.run_id}-${event.seq}`, text: event.content });
      if (history.length > most) history.shift();
    }
    seq = last.seq + 1;
  }
  const { manifest, run_id: id } = run;
  const final = await finalOf(store, run);
  return {
    ...{ id, contextId: run.a2a_context ?? "", manifest, history },
    answer: final ?? answer,
    status: await statusOf(store, run),
  };
}

/** Returns the answer of a durable run; null for every other run, whose answer is in the log. */
export async function finalOf(store: TenantStore, { run_id, asked }: RunRow): Promise<string | null> {
  return asked.durable === undefined ? null : ((await durableRunById(store, run_id))?.durable.final ?? null);
}

/** Returns the state of a task. For one that waits for an approval, its text names the tool. */
export async function statusOf(store: TenantStore, run: RunRow): Promise<TaskStatus> {
  const { status, result, started_at, ended_at } = run;
  if (status === "completed") return { state: "completed", at: ended_at, text: null };
  if (status === "accepted") return { state: "submitted", at: started_at, text: null };
  if (status === "running") return { state: "working", at: started_at, text: null };
  if (status === "waiting") {
    const waits = await openWaitsOfThread(store, run.thread_key ?? noThread, waitsOfThreadMax);
    const asked = waits.find(({ kind }) => kind === "approval");
    if (asked === undefined) return { state: "working", at: started_at, text: null };
    const text = `A person must approve the call of ${asked.call.tool}. Approvals are not answered over this protocol.`;
    return { state: "auth-required", at: asked.opened_at, text };
  }
  if (result?.error === "aborted") return { state: "canceled", at: ended_at, text: null };
  return { state: "failed", at: ended_at, text: failureOf(run) };
}
