import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import type { Env } from "../../../bus/env.ts";
import { nowhere } from "./target.ts";

/** The command that starts a server: the program and the arguments before `serve`. */
export interface Program {
  readonly path: string;
  readonly args: readonly string[];
}

/** A start that takes longer has failed. */
const startMsMax = 120_000;
/** Max output lines kept to explain a failed start. */
const printedLines = 50;

/** A server in a child process, which is killed and restarted on the same data. */
export class KilledServer {
  url = nowhere;
  readonly #program: Program;
  readonly #variables: Readonly<Record<string, string>>;
  readonly #env: Env;
  #child: ChildProcess | null = null;
  #exited: Promise<void> = Promise.resolve();
  /** Called if a server that was ready exits without being killed. */
  onCrash: (words: string) => void = () => {};

  constructor(program: Program, variables: Readonly<Record<string, string>>, env: Env) {
    this.#program = program;
    this.#variables = variables;
    this.#env = env;
  }

  /** Resolves when the server is ready; rejects with its output if it exits before that. */
  start(): Promise<void> {
    const { path, args } = this.#program;
    const child = spawn(path, [...args, "serve"], { env: this.#variables, stdio: ["ignore", "pipe", "pipe", "ipc"] });
    this.#child = child;
    const printed: string[] = [];
    const keep = (line: string): void => {
      printed.push(line);
      if (printed.length > printedLines) printed.shift();
    };
    createInterface({ input: child.stderr as NodeJS.ReadableStream }).on("line", keep);
    const exited = new Promise<void>((resolve) => child.on("close", () => resolve()));
    this.#exited = exited;
    let isReady = false;
    return new Promise((resolve, reject) => {
      const late = this.#env.timer(startMsMax, () => child.kill("SIGKILL"));
      createInterface({ input: child.stdout as NodeJS.ReadableStream }).on("line", (line) => {
        keep(line);
        const url = readyAt(line);
        if (url === null) return;
        this.url = url;
        isReady = true;
        late.cancel();
        resolve();
      });
      void exited.then(() => {
        late.cancel();
        if (this.#child === child) this.url = nowhere;
        const words = `the server ended without being killed:\n${printed.join("\n")}`;
        reject(new Error(words));
        if (this.#child === child && isReady) this.onCrash(words);
      });
    });
  }

  /** True while the process exists. */
  get isRunning(): boolean {
    return this.#child !== null && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** Pauses the process without ending it, or continues it. */
  signal(signal: "SIGSTOP" | "SIGCONT"): void {
    this.#child?.kill(signal);
  }

  /** Kills the server with SIGKILL. */
  async kill(): Promise<void> {
    const child = this.#child;
    this.#child = null;
    this.url = nowhere;
    child?.kill("SIGKILL");
    await this.#exited;
  }
}

function readyAt(line: string): string | null {
  try {
    const { msg, url } = JSON.parse(line) as { msg?: string; url?: string };
    return msg === "svc is ready" && url !== undefined ? url : null;
  } catch {
    return null;
  }
}
