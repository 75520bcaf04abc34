import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import Database from "better-sqlite3";
import type { StoreConfig } from "../../storage/store/config.ts";
import type { Store } from "../../storage/store/store.ts";
import { readEvents } from "../../storage/tables/events.ts";
import { onServer } from "./postgres-server.ts";

const childFile = fileURLToPath(new URL("./store-child.ts", import.meta.url));
const stripTypes = fileURLToPath(new URL("../../strip-types.js", import.meta.url));

/** The command line of `store-child.ts`, with its job. */
export function childCommand(config: StoreConfig, job: Record<string, unknown> = {}): string[] {
  const all = { config, writers: 8, turnsMax: 1_000_000, textChars: 200, patient: false, ...job };
  return [process.execPath, "--import", stripTypes, childFile, JSON.stringify(all)];
}

/** A writing process, and the acknowledgements that it has printed. */
export interface WritingChild {
  readonly process: ChildProcess;
  readonly lines: string[];
  /** Resolves when `count` lines were printed that pass `filter`; rejects when the process ends before. */
  printed(count: number, filter?: (line: string) => boolean): Promise<void>;
  /** Resolves with the exit code, or the signal. */
  readonly ended: Promise<number | string>;
}

export function startChild([command, ...args]: readonly string[]): WritingChild {
  const child = spawn(command as string, args, { stdio: ["ignore", "pipe", "inherit"] });
  const lines: string[] = [];
  const watchers = new Set<() => void>();
  let rest = "";
  child.stdout.on("data", (chunk: Buffer) => {
    const parts = (rest + chunk).split("\n");
    rest = parts.pop() as string;
    lines.push(...parts);
    for (const look of watchers) look();
  });
  let over = false;
  const ended = new Promise<number | string>((resolve) => {
    child.once("close", (code, signal) => {
      over = true;
      for (const look of watchers) look();
      resolve(code ?? (signal as string));
    });
  });
  return {
    process: child,
    lines,
    ended,
    printed: (count, filter = () => true) =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          if (lines.filter(filter).length >= count) resolve();
          else if (over) reject(new Error(`the child ended after ${lines.length} lines`));
          else return;
          watchers.delete(look);
        };
        watchers.add(look);
        look();
      }),
  };
}

export function isAcknowledgement(line: string): boolean {
  return /^\d+ \d+$/.test(line);
}

/**
 * Starts a writing process and kills it, `times` times, each after some acknowledgements; then checks that the database
 * has everything acknowledged.
 */
export async function killAndCount(config: StoreConfig, times: number): Promise<{ acknowledged: string[] }> {
  const acknowledged: string[] = [];
  for (let round = 0; round < times; round++) {
    const child = startChild(childCommand(config));
    // Another moment each time, so that the work in progress differs.
    await child.printed(100 + round * 37, isAcknowledgement);
    child.process.kill("SIGKILL");
    assert.equal(await child.ended, "SIGKILL");
    acknowledged.push(...child.lines.filter(isAcknowledgement));
  }
  return { acknowledged };
}

/** Asserts that every acknowledged event exists, that no thread's log has a gap, and that its row agrees with it. */
export async function checkEvents(store: Store, config: StoreConfig, acknowledged: readonly string[]): Promise<void> {
  const tenant = store.tenant("acme");
  const highest = new Map<number, number>();
  for (const line of acknowledged) {
    const [key, seq] = line.split(" ").map(Number) as [number, number];
    highest.set(key, Math.max(highest.get(key) ?? -1, seq));
  }
  for (const { thread_key, next_seq } of await allThreads(config)) {
    const events = await readEvents(tenant, thread_key, 0, 100);
    assert.deepEqual(
      events.map(({ seq }) => seq),
      Array.from({ length: next_seq }, (_, i) => i),
      `the log of thread ${thread_key}`,
    );
    const last = highest.get(thread_key) ?? -1;
    assert.ok(last < next_seq, `event ${last} of thread ${thread_key} was acknowledged and is gone`);
    highest.delete(thread_key);
  }
  assert.deepEqual([...highest.keys()], [], "threads that were acknowledged and are gone");
}

async function allThreads(config: StoreConfig): Promise<{ thread_key: number; next_seq: number }[]> {
  const query = "SELECT thread_key, next_seq FROM threads ORDER BY thread_key";
  if (config.engine === "postgres")
    return onServer(config.postgres.url, async (client) =>
      (await client.query(query)).rows.map((row) => ({
        thread_key: Number(row.thread_key),
        next_seq: Number(row.next_seq),
      })),
    );
  const db = new Database(config.path);
  try {
    assert.deepEqual(db.pragma("integrity_check"), [{ integrity_check: "ok" }]);
    return db.prepare<[], { thread_key: number; next_seq: number }>(query).all();
  } finally {
    db.close();
  }
}
