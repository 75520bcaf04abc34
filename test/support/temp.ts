import { mkdtempSync, rmSync, statfsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";

/** Registers cleanup steps. The last one registered runs first. */
export interface Cleanup {
  after(work: () => void | Promise<void>): void;
}

/** Cleanup steps that the caller runs. */
export class Works implements Cleanup {
  readonly #works: (() => void | Promise<void>)[] = [];

  after(work: () => void | Promise<void>): void {
    this.#works.push(work);
  }

  /** Runs all steps, the last one first; then throws the first error. */
  async undo(): Promise<void> {
    const failures: unknown[] = [];
    // A step that fails must not skip the others: an open resource keeps the process alive.
    for (let work = this.#works.pop(); work; work = this.#works.pop()) {
      try {
        await work();
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
  }
}

/** Cleans up at the end of a test when it has the test's context, else at the end of the suite or file of the call. */
export function cleanup(context?: { after(work: () => Promise<void>): void }): Cleanup {
  const works = new Works();
  const undo = (): Promise<void> => works.undo();
  if (context) context.after(undo);
  else after(undo);
  return works;
}

/** A directory of its own, removed at the end. */
export function tempDir(atEnd: Cleanup, under: string = tmpdir()): string {
  const path = mkdtempSync(join(under, "svc-test-"));
  // Killed processes may still be writing.
  atEnd.after(() => rmSync(path, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 }));
  return path;
}

/** The space of a database that a few thousand simulated worlds have left. */
const memoryBytesMin = 1024 ** 3;

/** The same in memory, where the system has room for it: for files that are flushed often and need not survive. */
export function memoryDir(atEnd: Cleanup): string {
  return tempDir(atEnd, hasMemoryFiles() ? memoryFiles : undefined);
}

const memoryFiles = "/dev/shm";

function hasMemoryFiles(): boolean {
  try {
    const { bavail, bsize } = statfsSync(memoryFiles);
    return bavail * bsize >= memoryBytesMin;
  } catch {
    return false;
  }
}
