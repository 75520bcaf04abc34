import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { noteBoot } from "../runner/boots.ts";
import { busInBytes } from "./bus-in-bytes.ts";
import type { HostOrder, HostWord } from "./server-host.ts";
import { noteLine } from "./server-output.ts";

// Starts test servers in one child process that all files of this process share. The program is loaded once, so a start costs about a
// sixth of the start of a server process.

type Environment = Readonly<Record<string, string>>;

/** The time for an unused server to end before the next file begins. */
const leaveMsMax = 300;
const printedMax = 100_000;

/** One run of a server. */
export interface HostedRun {
  readonly url: string;
  /** Resolves when the server has ended, with the error or null. */
  readonly ended: Promise<string | null>;
  /** Tells it to drain and end. */
  stop(): Promise<string | null>;
  /** Tells it to end, and does not wait for its drain. */
  leave(): Promise<void>;
}

let host: Host | null = null;
let lastId = 0;

/** Starts a server with these settings. */
export async function runHosted(environment: Environment): Promise<HostedRun> {
  if (host === null || host.isGone) host = new Host();
  noteBoot("hosted");
  return host.start(++lastId, environment);
}

/** Resolves when the servers that run then have printed this many lines that fit. */
export function printed(count: number, fits: (line: string) => boolean): Promise<void> {
  if (host === null || host.isGone) host = new Host();
  return host.printed(count, fits);
}

process.on("exit", () => void host?.kill());

/** Ends the process of the servers, with all of them. */
export async function endHost(): Promise<void> {
  await host?.kill();
}

interface Awaited {
  readonly ready: PromiseWithResolvers<string>;
  readonly ended: PromiseWithResolvers<string | null>;
}

class Host {
  isGone = false;
  readonly #child: ChildProcess;
  readonly #gone: Promise<void>;
  readonly #awaited = new Map<number, Awaited>();
  readonly #listeners = new Set<(line: string) => void>();
  #printed = "";
  #waits = 0;

  constructor() {
    noteBoot("host");
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#gone = promise;
    const { PATH = "", HOME = "", TMPDIR = "/tmp" } = process.env;
    const stripTypes = fileURLToPath(new URL("../../strip-types.js", import.meta.url));
    const program = fileURLToPath(new URL("server-host.ts", import.meta.url));
    const child = spawn(process.execPath, ["--import", stripTypes, ...busInBytes(), program], {
      cwd: fileURLToPath(new URL("../../", import.meta.url)),
      env: { PATH, HOME, TMPDIR },
      stdio: ["ignore", "pipe", "pipe", "ipc"],
    });
    this.#child = child;
    for (const stream of [child.stdout, child.stderr]) {
      if (!stream) continue;
      createInterface({ input: stream }).on("line", (line) => {
        noteLine(line);
        for (const listener of this.#listeners) listener(line);
        this.#printed = `${this.#printed}${line}\n`.slice(-printedMax);
      });
      (stream as unknown as { unref(): void }).unref();
    }
    child.on("message", (word: HostWord) => this.#hear(word));
    child.on("exit", (code, signal) => {
      this.isGone = true;
      resolve();
      const error = `the process of the shared servers has ended with ${signal ?? code}:\n${this.#printed}`;
      for (const id of [...this.#awaited.keys()]) this.#hear({ ended: id, error });
    });
    child.unref();
    child.channel?.unref();
  }

  async start(id: number, environment: Environment): Promise<HostedRun> {
    const awaited: Awaited = { ready: Promise.withResolvers(), ended: Promise.withResolvers() };
    this.#awaited.set(id, awaited);
    this.#send({ start: id, environment });
    const url = await this.#waited(awaited.ready.promise);
    const ended = awaited.ended.promise;
    const order = (): void => {
      if (this.#awaited.has(id)) this.#send({ stop: id });
    };
    const stop = (): Promise<string | null> => {
      order();
      return this.#waited(ended);
    };
    // The timer alone keeps this process: a server that drains for longer must not count as a resource that the file left open.
    const leave = async (): Promise<void> => {
      order();
      let late: NodeJS.Timeout | undefined;
      await Promise.race([ended, new Promise((resolve) => (late = setTimeout(resolve, leaveMsMax)))]);
      clearTimeout(late);
    };
    return { url, ended, stop, leave };
  }

  printed(count: number, fits: (line: string) => boolean): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    let left = count;
    const listener = (line: string): void => {
      if (!fits(line) || --left > 0) return;
      this.#listeners.delete(listener);
      resolve();
    };
    this.#listeners.add(listener);
    return this.#waited(promise);
  }

  /** Resolves when the process has ended. */
  kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    return this.#gone;
  }

  #send(order: HostOrder): void {
    this.#child.send(order, () => {});
  }

  /** Keeps this process from ending while it waits for the other one. */
  async #waited<T>(promise: Promise<T>): Promise<T> {
    if (++this.#waits === 1) this.#child.channel?.ref();
    try {
      return await promise;
    } finally {
      if (--this.#waits === 0) this.#child.channel?.unref();
    }
  }

  #hear(word: HostWord): void {
    if ("ready" in word) {
      this.#awaited.get(word.ready)?.ready.resolve(word.url);
      return;
    }
    const awaited = this.#awaited.get(word.ended);
    this.#awaited.delete(word.ended);
    awaited?.ready.promise.catch(() => {});
    awaited?.ready.reject(new Error(`the server ended before it was ready: ${word.error}`));
    awaited?.ended.resolve(word.error);
  }
}
