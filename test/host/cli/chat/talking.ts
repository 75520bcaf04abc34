import { spawn } from "node:child_process";
import { join } from "node:path";
import type { Cleanup } from "../../../support/temp.ts";
import { root } from "../started.ts";

// A client command of svc as a process of its own, with pipes at its ends, or a terminal of `script`.

/** Longer than anything takes to be printed; a test that runs into it has failed. */
const printMsMax = 10_000;

/** A command that runs. */
export interface Talking {
  stdout(): string;
  stderr(): string;
  /** Resolves when one of both has it. */
  printed(pattern: RegExp): Promise<void>;
  write(text: string): void;
  endInput(): void;
  /** Nobody reads its output any more. */
  closeOutput(): void;
  signal(signal: NodeJS.Signals): void;
  readonly exited: Promise<number | null>;
}

interface Options {
  readonly atEnd: Cleanup;
  readonly env?: Readonly<Record<string, string>>;
  /** What is typed or piped at once; the input then ends. */
  readonly input?: string;
  /** The command stands on a terminal of so many columns. */
  readonly columns?: number;
}

/** Starts `svc` with these words. */
export function talk(words: readonly string[], { atEnd, env = {}, input, columns }: Options): Talking {
  const svc = [process.execPath, "--import", join(root, "strip-types.js"), join(root, "svc.ts"), ...words];
  const quoted = svc.map((word) => `'${word}'`).join(" ");
  const [program = "", ...args] =
    columns === undefined ? svc : ["script", "-qefc", `stty cols ${columns}; ${quoted}`, "/dev/null"];
  const child = spawn(program, args, {
    env: { PATH: process.env.PATH ?? "", TERM: "xterm", ...env },
    stdio: ["pipe", "pipe", "pipe"],
  });
  let [out, err] = ["", ""];
  const listeners = new Set<() => void>();
  child.stdout.on("data", (chunk: Buffer) => {
    out += chunk.toString("utf8");
    for (const listener of [...listeners]) listener();
  });
  child.stderr.on("data", (chunk: Buffer) => {
    err += chunk.toString("utf8");
    for (const listener of [...listeners]) listener();
  });
  // It may have ended before it has read all.
  child.stdin.on("error", () => {});
  const exited = new Promise<number | null>((resolve) => child.once("close", resolve));
  atEnd.after(async () => {
    if (child.exitCode === null) child.kill("SIGKILL");
    await exited;
  });
  if (input !== undefined) child.stdin.end(input);
  return {
    stdout: () => out,
    stderr: () => err,
    printed: (pattern) =>
      new Promise((resolve, reject) => {
        const late = setTimeout(() => reject(new Error(`no ${pattern} in:\n${out}\n${err}`)), printMsMax);
        const look = (): void => {
          if (!pattern.test(out) && !pattern.test(err)) return;
          listeners.delete(look);
          clearTimeout(late);
          resolve();
        };
        listeners.add(look);
        look();
      }),
    write: (text) => void child.stdin.write(text),
    endInput: () => void child.stdin.end(),
    closeOutput: () => void child.stdout.destroy(),
    signal: (name) => void child.kill(name),
    exited,
  };
}

/** What a command has printed until it ended, and its exit code. */
export async function said(words: readonly string[], options: Options) {
  const talking = talk(words, { input: "", ...options });
  const code = await talking.exited;
  return { code, stdout: talking.stdout(), stderr: talking.stderr() };
}
