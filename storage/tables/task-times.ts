import { SvcError } from "../../bus/errors.ts";
import { systemSql } from "../store/statements.ts";
import type { Scope } from "../store/store.ts";

// Due times of periodic tasks that run once for all processes. Each has a row; the process that runs the task advances
// it.

const selectTime = systemSql("task_time", "SELECT value FROM counters WHERE name = ?");
const insertTime = systemSql(
  "task_time_insert",
  "INSERT INTO counters (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING",
);
const moveTime = systemSql("task_time_move", "UPDATE counters SET value = ? WHERE name = ? AND value = ?");

/** Returns the due time of a task in epoch milliseconds; `first` if it has none yet. */
export async function taskTime(store: Scope, name: string, first: number): Promise<number> {
  const read = async () => (await store.read(selectTime, `task:${name}`))[0]?.value as number | undefined;
  const known = await read();
  if (known !== undefined) return known;
  await store.write([store.op(insertTime, [`task:${name}`, first])]);
  return (await read()) ?? first;
}

/** Advances the due time of a task from `due` to `next`. Returns false if another process has done so. */
export async function takeTaskTime(store: Scope, name: string, due: number, next: number): Promise<boolean> {
  try {
    await store.write([store.op(moveTime, [next, `task:${name}`, due], 1)]);
    return true;
  } catch (error) {
    if (error instanceof SvcError && error.code === "conflict") return false;
    throw error;
  }
}
