import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import type { Env } from "../../../bus/env.ts";

/** How a server is started: the program and what stands before `serve`. */
export interface Program {
  readonly path: string;
  readonly args: readonly string[];
}

/** A start that takes longer has failed. */
const startMsMax = 120_000;
/** Of what it prints, kept for whoever asks why it did not start. */
const printedLines = 50;

/** A server in a process of its own, to be killed and started again on the same data. */
export class KilledServer {
  url = "";
  readonly #program: Program;
  readonly #variables: Readonly<Record<string, string>>;
  readonly #env: Env;
  #child: ChildProcess | null = null;
  #exited: Promise<void> = Promise.resolve();
  /** It ends when nobody has asked it to. */
  onCrash: (words: string) => void = () => {};

  constructor(program: Program, variables: Readonly<Record<string, string>>, env: Env) {
    this.#program = program;
    this.#variables = variables;
    this.#env = env;
  }

  /** Resolves when it takes requests; rejects, with what it has printed, when it ends before that. */
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
    return new Promise((resolve, reject) => {
      const late = this.#env.timer(startMsMax, () => child.kill("SIGKILL"));
      createInterface({ input: child.stdout as NodeJS.ReadableStream }).on("line", (line) => {
        keep(line);
        const url = readyAt(line);
        if (url === null) return;
        this.url = url;
        late.cancel();
        resolve();
      });
      void exited.then(() => {
        late.cancel();
        const words = `the server ended without being killed:\n${printed.join("\n")}`;
        reject(new Error(words));
        if (this.#child === child) this.onCrash(words);
      });
    });
  }

  /** Ends it without asking it. */
  async kill(): Promise<void> {
    const child = this.#child;
    this.#child = null;
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
