import { type ChildProcess, fork } from "node:child_process";
import type { Env } from "../../bus/env.ts";
import {
  type CommandExit,
  encodeFrame,
  FrameReader,
  frameBytesMax,
  frameKinds,
  type SpawnerFrame,
  type SpawnJob,
} from "./spawner-frames.ts";

/** Bytes of standard input in one frame. */
const inputBytesMax = 1024 * 1024;

/** A stream of output. */
export type OutputStream = "stdout" | "stderr";

/** Takes output. The command waits if this promise has not resolved and 256 KiB are untaken. */
export type OnOutput = (stream: OutputStream, bytes: Buffer) => void | Promise<void>;

/** A command that was started. */
export interface RunningCommand {
  /** Writes to standard input; resolves when the command's pipe has taken the bytes, or when it has ended. */
  write(bytes: Uint8Array): Promise<void>;
  /** Closes standard input. */
  endInput(): void;
  /** Sends SIGTERM to the command and all that it has started, and SIGKILL two seconds later. Repeated calls change nothing. */
  kill(): void;
  /** Resolves after the last output was passed on. Never rejects. */
  readonly exit: Promise<CommandExit>;
}

/** The spawner process of one thread of svc; started with its first command. If it dies, its commands are lost. */
export class Spawner {
  /** Mark of the commands in their environment; no other spawner has it. */
  readonly #mark: string;
  readonly #jobs = new Map<number, LiveJob>();
  #child: ChildProcess | null = null;
  #last = 0;
  #isClosed = false;

  constructor(env: Pick<Env, "id">) {
    this.#mark = env.id();
  }

  /** Number of commands that have not ended. */
  get size(): number {
    return this.#jobs.size;
  }

  /** Starts a command. A failure to start is its exit. */
  start(spec: SpawnJob, onOutput: OnOutput): RunningCommand {
    if (this.#isClosed) return ended({ code: null, signal: null, failure: "lost" });
    const text = JSON.stringify(spec);
    // The spawner would end at such a frame, and with it the commands of others. No system has arguments that long.
    if (Buffer.byteLength(text) > frameBytesMax) return ended({ code: null, signal: null, failure: "not_started" });
    this.#child ??= this.#startChild();
    const number = ++this.#last;
    const job = new LiveJob(onOutput, (kind, payload) => this.#send(kind, number, payload));
    this.#jobs.set(number, job);
    this.#hold(this.#child);
    this.#send(frameKinds.start, number, text);
    return job;
  }

  /** Ends the spawner and all commands. */
  close(): void {
    this.#isClosed = true;
    this.#child?.stdin?.end();
  }

  #send(kind: number, job: number, payload: Uint8Array | string): void {
    const stdin = this.#child?.stdin;
    if (stdin?.writable) stdin.write(encodeFrame(kind, job, payload));
  }

  /** Only a running command keeps svc running. */
  #hold(child: ChildProcess | null): void {
    if (child === null) return;
    for (const part of [child, child.stdin, child.stdout] as unknown as ({ ref(): void; unref(): void } | null)[])
      if (this.#jobs.size > 0) part?.ref();
      else part?.unref();
  }

  #startChild(): ChildProcess {
    const child = fork(new URL("./spawner-child.ts", import.meta.url), [this.#mark], {
      // The environment of svc holds secrets. Signals of a terminal do not reach another process group.
      ...{ env: {}, cwd: "/", detached: true },
      execArgv: ["--max-old-space-size=64", "--import", new URL("../../strip-types.js", import.meta.url).href],
      stdio: ["pipe", "pipe", "ignore", "ipc"],
    });
    const reader = new FrameReader();
    child.stdout?.on("data", (bytes: Buffer) => {
      for (const frame of reader.take(bytes)) this.#receive(frame);
    });
    // A spawner that is gone does not read.
    child.stdin?.on("error", () => {});
    child.on("error", () => this.#drop(child));
    child.on("exit", () => this.#drop(child));
    // A process that could not be started has no channel.
    if (child.connected) child.disconnect();
    return child;
  }

  #receive({ kind, job: number, payload }: SpawnerFrame): void {
    const job = this.#jobs.get(number);
    if (job === undefined) return;
    if (kind === frameKinds.exit) {
      this.#jobs.delete(number);
      this.#hold(this.#child);
      job.finish(JSON.parse(payload.toString()) as CommandExit);
    } else if (kind === frameKinds.written) job.written();
    else job.output(kind === frameKinds.stderr ? "stderr" : "stdout", payload);
  }

  /** The next command starts another spawner, which ends what this one has left. */
  #drop(child: ChildProcess): void {
    if (this.#child !== child) return;
    this.#child = null;
    const lost = [...this.#jobs.values()];
    this.#jobs.clear();
    for (const job of lost) job.finish({ code: null, signal: null, failure: "lost" });
  }
}

class LiveJob implements RunningCommand {
  readonly exit: Promise<CommandExit>;
  readonly #send: (kind: number, payload: Uint8Array | string) => void;
  readonly #onOutput: OnOutput;
  readonly #resolve: (exit: CommandExit) => void;
  #writes: (() => void)[] = [];
  /** Output is passed on in its order, the exit after it. */
  #passing: Promise<void> = Promise.resolve();
  #isOver = false;

  constructor(onOutput: OnOutput, send: (kind: number, payload: Uint8Array | string) => void) {
    this.#send = send;
    this.#onOutput = onOutput;
    const { promise, resolve } = Promise.withResolvers<CommandExit>();
    this.exit = promise;
    this.#resolve = resolve;
  }

  write(bytes: Uint8Array): Promise<void> {
    if (this.#isOver || bytes.length === 0) return Promise.resolve();
    for (let at = 0; at < bytes.length; at += inputBytesMax) {
      if (at > 0) this.#writes.push(() => {});
      this.#send(frameKinds.input, bytes.subarray(at, at + inputBytesMax));
    }
    return new Promise((resolve) => this.#writes.push(resolve));
  }

  endInput(): void {
    if (this.#isOver) return;
    this.#send(frameKinds.input, "");
    this.#writes.push(() => {});
  }

  kill(): void {
    if (!this.#isOver) this.#send(frameKinds.kill, "");
  }

  written(): void {
    this.#writes.shift()?.();
  }

  output(stream: OutputStream, bytes: Buffer): void {
    // A copy: the frame is a part of a larger buffer.
    const own = Buffer.from(bytes);
    this.#passing = this.#passing.then(async () => {
      try {
        await this.#onOutput(stream, own);
      } catch {
        // Without a reader the command has no use.
        this.kill();
      }
      if (!this.#isOver) this.#send(frameKinds.taken, String(own.length));
    });
  }

  finish(exit: CommandExit): void {
    this.#isOver = true;
    for (const resolve of this.#writes) resolve();
    this.#writes = [];
    void this.#passing.then(() => this.#resolve(exit));
  }
}

function ended(exit: CommandExit): RunningCommand {
  return { write: () => Promise.resolve(), endInput: () => {}, kill: () => {}, exit: Promise.resolve(exit) };
}
