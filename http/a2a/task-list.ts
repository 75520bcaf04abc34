import { taskObject } from "../../bus/frames/a2a-objects.ts";
import { readCursor, writeCursor } from "../../storage/store/cursor.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { a2aTaskPage, countA2aTasks } from "../../storage/tables/a2a-tasks.ts";
import type { RunRow } from "../../storage/tables/runs.ts";
import { threadByKey } from "../../storage/tables/threads.ts";
import type { ListedTasks } from "./params.ts";
import { readTask, statusOf } from "./task.ts";

// Lists are of version 1.0 only. A caller lists the tasks that it has started itself: the id of a task is what lets others read it.

/** Tasks of a page whose messages or artifacts are read from the log. */
const wholeMax = 20;

/** Returns a page of the caller's tasks, the last changed first. Refuses with invalid_cursor. */
export async function taskList(
  store: TenantStore,
  { pageSize, cursor, historyLength, includeArtifacts, ...filter }: ListedTasks,
  owner: string,
): Promise<object> {
  const isWhole = includeArtifacts || historyLength > 0;
  const most = isWhole ? Math.min(pageSize, wholeMax) : pageSize;
  const [at, id] = cursor === null ? [null, ""] : readCursor(cursor, ["number", "string"]);
  const before = at === null ? null : { at, id };
  const rows = await a2aTaskPage(store, { ...filter, owner }, before, most + 1);
  const shown = rows.slice(0, most);
  const tasks: object[] = [];
  for (const run of shown) {
    const task = await (isWhole ? wholeTask(store, run, historyLength) : headOf(store, run));
    if (task !== null) tasks.push(taskObject("1.0", includeArtifacts ? task : { ...task, answer: null }));
  }
  const last = shown.at(-1);
  return {
    tasks,
    nextPageToken: last === undefined || rows.length <= most ? "" : writeCursor([changedAt(last), last.run_id]),
    pageSize: most,
    totalSize: await countA2aTasks(store, { ...filter, owner }),
  };
}

function changedAt({ ended_at, started_at }: RunRow): number {
  return ended_at ?? started_at;
}

/** Returns a task without its messages and its answer. */
async function headOf(store: TenantStore, run: RunRow) {
  const { run_id: id, manifest } = run;
  const status = await statusOf(store, run);
  return { id, contextId: run.a2a_context ?? "", manifest, status, answer: null, history: [] };
}

/** Returns a task; null if its context was deleted in the meantime. */
async function wholeTask(store: TenantStore, run: RunRow, historyLength: number) {
  const thread = run.thread_key === null ? undefined : await threadByKey(store, run.thread_key);
  return thread === undefined ? null : readTask(store, { run, thread }, historyLength);
}
