import { appendFile, readdirSync, readFileSync } from "node:fs";
import { threadId } from "node:worker_threads";

/** A note is in its file at the latest after twice this time. */
export const flushMs = 200;

/**
 * Notes when a turn was at a point, in milliseconds of the clock that all processes of a machine share. Each thread has a file of
 * its own in the directory; nothing is written while a turn is on its way but the note in memory.
 */
export class Marks {
  readonly #path: string;
  #lines = "";
  readonly #timer: NodeJS.Timeout;
  #writing = false;
  #closed = false;

  constructor(dir: string) {
    this.#path = `${dir}/${process.pid}-${threadId}.marks`;
    this.#timer = setInterval(() => this.#flush(), flushMs).unref();
  }

  note(turn: string, point: string, at: number = now()): void {
    this.#lines += `${turn} ${point} ${at}\n`;
  }

  /** Writes what it has, and takes no more notes. */
  close(): void {
    clearInterval(this.#timer);
    this.#closed = true;
    this.#flush();
  }

  #flush(): void {
    if (this.#writing || this.#lines === "") return;
    const lines = this.#lines;
    this.#lines = "";
    this.#writing = true;
    appendFile(this.#path, lines, () => {
      this.#writing = false;
      // Nobody comes by again to write what was noted meanwhile.
      if (this.#closed) this.#flush();
    });
  }
}

/** The time on that clock. */
export function now(): number {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1e3 + nanoseconds / 1e6;
}

/** Of each turn whose id begins with `prefix`: when it was at each point for the first time. */
export function readMarks(dir: string, prefix: string): Map<string, Map<string, number>> {
  const turns = new Map<string, Map<string, number>>();
  for (const name of readdirSync(dir).filter((file) => file.endsWith(".marks"))) {
    for (const line of readFileSync(`${dir}/${name}`, "utf8").split("\n")) {
      const [turn = "", point = "", time = ""] = line.split(" ");
      if (!turn.startsWith(prefix) || time === "") continue;
      const points = turns.get(turn) ?? new Map<string, number>();
      turns.set(turn, points);
      points.set(point, Math.min(points.get(point) ?? Number.POSITIVE_INFINITY, Number(time)));
    }
  }
  return turns;
}
