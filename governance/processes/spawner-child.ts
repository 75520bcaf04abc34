import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import type { Writable } from "node:stream";
import { systemEnv, type Timer } from "../../bus/env.ts";
import { KeptOutput } from "./kept-output.ts";
import { killMarked, treeOf } from "./process-table.ts";
import {
  type CommandExit,
  encodeFrame,
  FrameReader,
  frameKinds,
  type SpawnerFrame,
  type SpawnJob,
  untakenBytesMax,
} from "./spawner-frames.ts";

// Entry of the spawner process (decision 110): it starts the commands of svc and ends them when svc asks or is gone. A fork of this
// small process is cheap, while a fork of svc would stop its event loop. Every command is the leader of a process group and bears
// a mark in its environment, by which processes are found that have left the group.

/** Time between SIGTERM and SIGKILL. */
const graceMs = 2_000;
/** Time after the end of a command in which its output must end. */
const outputEndMs = 1_000;
/** Interval at which the processes of the superuser are counted. */
const countMs = 150;

const env = systemEnv();
const [, , mark = ""] = process.argv;
const isSuperuser = process.getuid?.() === 0;
const jobs = new Map<number, Job>();

class Job {
  readonly #number: number;
  readonly #spec: SpawnJob;
  readonly #child: ChildProcess;
  #untaken = 0;
  #isEnding = false;
  #failure: CommandExit["failure"];
  #ended: readonly [code: number | null, signal: string | null] | null = null;
  #count: Timer | null = null;
  readonly #kept: Readonly<Record<"stdout" | "stderr", KeptOutput>>;

  constructor(number: number, spec: SpawnJob) {
    this.#number = number;
    this.#spec = spec;
    this.#kept = { stdout: new KeptOutput(spec.keepBytes), stderr: new KeptOutput(spec.keepBytes) };
    const [file = "", ...args] = spec.argv;
    this.#child = spawn(file, args, {
      cwd: spec.folder ?? "/",
      env: { ...spec.env, SVC_JOB: this.#mark },
      detached: true,
      stdio: ["pipe", "pipe", "pipe", ...(spec.secret === undefined ? [] : (["pipe"] as const))],
    });
    this.#giveSecret();
    for (const name of ["stdout", "stderr"] as const)
      this.#child[name]?.on("data", (bytes: Buffer) => this.#pass(name, bytes));
    this.#child.stdin?.on("error", () => {});
    this.#child.on("error", (error: NodeJS.ErrnoException) => {
      if (this.#child.pid !== undefined) return;
      // A folder that is gone has the same code.
      const isUnknown = error.code === "ENOENT" && existsSync(spec.folder ?? "/");
      this.#finish({ code: null, signal: null, failure: isUnknown ? "not_found" : "not_started" });
    });
    this.#child.on("exit", (code, signal) => {
      this.#ended = [code, signal];
      // Processes that the command has started end with it, so that its pipes close.
      this.#signalAll("SIGKILL");
      this.#awaitOutput();
    });
    this.#child.on("close", () => this.#conclude());
    if (isSuperuser) this.#watchCount();
  }

  #giveSecret(): void {
    const pipe = this.#child.stdio[3] as Writable | null | undefined;
    // A command that has not started has no pipe, and one that never asks closes it.
    pipe?.on("error", () => {});
    pipe?.end(this.#spec.secret);
  }

  get #mark(): string {
    return `${mark}.${this.#number}`;
  }

  input(bytes: Buffer): void {
    const done = () => send(encodeFrame(frameKinds.written, this.#number, ""));
    const { stdin } = this.#child;
    if (bytes.length === 0 || stdin === null || stdin.destroyed) {
      stdin?.end();
      done();
    } else stdin.write(bytes, done);
  }

  taken(bytes: number): void {
    this.#untaken -= bytes;
    if (this.#untaken > untakenBytesMax) return;
    this.#child.stdout?.resume();
    this.#child.stderr?.resume();
  }

  /** Asks the command to end, and ends it after a while. */
  kill(): void {
    if (this.#isEnding) return;
    this.#isEnding = true;
    this.#signalAll("SIGTERM");
    env.timer(graceMs, () => {
      if (this.#ended === null) this.#signalAll("SIGKILL");
    });
  }

  killNow(): void {
    this.#isEnding = true;
    this.#signalAll("SIGKILL");
  }

  #signalAll(signal: "SIGTERM" | "SIGKILL"): void {
    const { pid } = this.#child;
    if (pid === undefined) return;
    if (signal === "SIGTERM" && this.#spec.isSandbox) {
      // The sandbox would end at once without its command: the two processes of the sandbox itself are left out.
      const inside = treeOf(pid).filter(({ depth }) => depth >= 2);
      for (const one of inside) signalOne(one.pid, signal);
      if (inside.length > 0) return;
    }
    signalOne(-pid, signal);
    if (signal === "SIGKILL" && !this.#spec.isSandbox) killMarked(this.#mark, signalOne);
  }

  #pass(name: "stdout" | "stderr", output: Buffer): void {
    const bytes = this.#kept[name].take(output);
    if (bytes.length === 0) return;
    this.#untaken += bytes.length;
    if (this.#untaken > untakenBytesMax) {
      this.#child.stdout?.pause();
      this.#child.stderr?.pause();
    }
    send(encodeFrame(frameKinds[name], this.#number, bytes));
  }

  /** Gives up output that others hold open. Output that svc has not taken is no reason. */
  #awaitOutput(): void {
    env.timer(outputEndMs, () => {
      if (!jobs.has(this.#number)) return;
      if (this.#untaken > untakenBytesMax) this.#awaitOutput();
      else this.#conclude();
    });
  }

  #conclude(): void {
    const [code, signal] = this.#ended ?? [null, null];
    for (const name of ["stdout", "stderr"] as const) {
      const rest = this.#kept[name].rest();
      if (rest.length > 0) send(encodeFrame(frameKinds[name], this.#number, rest));
    }
    const [stdout, stderr] = [this.#kept.stdout.skipped, this.#kept.stderr.skipped];
    const skipped = stdout + stderr === 0 ? {} : { skipped: { stdout, stderr } };
    this.#finish({ code, signal, ...(this.#failure && { failure: this.#failure }), ...skipped });
  }

  #finish(exit: CommandExit): void {
    if (!jobs.delete(this.#number)) return;
    this.#count?.cancel();
    this.#child.stdout?.destroy();
    this.#child.stderr?.destroy();
    this.#child.stdin?.destroy();
    send(encodeFrame(frameKinds.exit, this.#number, JSON.stringify(exit)));
  }

  #watchCount(): void {
    this.#count = env.timer(countMs, () => {
      const { pid } = this.#child;
      if (pid === undefined || this.#ended !== null) return;
      if (treeOf(pid).length > this.#spec.processesMax) {
        this.#failure = "too_many_processes";
        this.killNow();
      }
      this.#watchCount();
    });
  }
}

function signalOne(pid: number, signal: "SIGTERM" | "SIGKILL"): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended.
  }
}

function receive({ kind, job: number, payload }: SpawnerFrame): void {
  if (kind === frameKinds.start) {
    const spec = JSON.parse(payload.toString()) as SpawnJob;
    try {
      jobs.set(number, new Job(number, spec));
    } catch {
      // Arguments that no process can have, such as one with a NUL.
      const exit: CommandExit = { code: null, signal: null, failure: "not_started" };
      send(encodeFrame(frameKinds.exit, number, JSON.stringify(exit)));
    }
    return;
  }
  const job = jobs.get(number);
  if (kind === frameKinds.input) job?.input(payload);
  else if (kind === frameKinds.kill) job?.kill();
  else if (kind === frameKinds.taken) job?.taken(Number(payload.toString()));
}

/** Writes to svc. The bound of untaken output bounds what is written. */
function send(frame: Buffer): void {
  process.stdout.write(frame);
}

/** Ends every command, also those that have left their group, and the spawner. */
function end(): void {
  for (const job of jobs.values()) job.killNow();
  killMarked(mark, signalOne);
  process.exit(0);
}

// Signals of the terminal and of a service manager are for svc, which ends its commands in order.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});
process.stdout.on("error", end);
// The commands of a spawner that has failed bear the same mark.
killMarked(mark, signalOne);
const reader = new FrameReader();
process.stdin
  .on("data", (bytes: Buffer) => {
    for (const frame of reader.take(bytes)) receive(frame);
  })
  .on("error", end)
  .on("end", end);
