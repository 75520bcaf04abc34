import { appendFile, readdirSync, readFileSync } from "node:fs";
import { threadId } from "node:worker_threads";

/** Interval of writes; a note is in its file after at most twice this time. */
export const flushMs = 200;

/**
 * Notes the times of turns at points, on a clock that all processes of the machine share. Each thread has its own file in the directory. A
 * note goes to memory first and is written later, so that it does not delay the turn.
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

  /** Writes the remaining notes and stops. */
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
      // The timer is stopped, so notes that were added during the write are written now.
      if (this.#closed) this.#flush();
    });
  }
}

/** The current time on the shared clock, in milliseconds. */
export function now(): number {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1e3 + nanoseconds / 1e6;
}

/** Returns the first time at each point, for the turns whose ids start with `prefix`. */
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
