import { SvcError } from "../../bus/errors.ts";
import { systemSql } from "../store/statements.ts";
import type { Scope } from "../store/store.ts";

// When tasks are due that are done at times of their own, once for all processes: a row for each, that whoever begins it moves on.

const selectTime = systemSql("task_time", "SELECT value FROM counters WHERE name = ?");
const insertTime = systemSql(
  "task_time_insert",
  "INSERT INTO counters (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING",
);
const moveTime = systemSql("task_time_move", "UPDATE counters SET value = ? WHERE name = ? AND value = ?");

/** When a task is due, epoch milliseconds. One that never was is due at `first`. */
export async function taskTime(store: Scope, name: string, first: number): Promise<number> {
  const read = async () => (await store.read(selectTime, `task:${name}`))[0]?.value as number | undefined;
  const known = await read();
  if (known !== undefined) return known;
  await store.write([store.op(insertTime, [`task:${name}`, first])]);
  return (await read()) ?? first;
}

/** Takes the time `due` of a task, which is due at `next` then. False when somebody else has taken it. */
export async function takeTaskTime(store: Scope, name: string, due: number, next: number): Promise<boolean> {
  try {
    await store.write([store.op(moveTime, [next, `task:${name}`, due], 1)]);
    return true;
  } catch (error) {
    if (error instanceof SvcError && error.code === "conflict") return false;
    throw error;
  }
}
