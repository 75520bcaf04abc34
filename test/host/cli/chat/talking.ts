import { spawn } from "node:child_process";
import { join } from "node:path";
import type { Cleanup } from "../../../support/temp.ts";
import { root } from "../started.ts";

// A client command of svc as a process with pipes, or on a terminal of `script`.

/** Longer than any output takes; reaching it fails the test. */
const printMsMax = 10_000;

/** A running command. */
export interface Talking {
  stdout(): string;
  stderr(): string;
  /** Resolves when stdout or stderr matches. */
  printed(pattern: RegExp): Promise<void>;
  write(text: string): void;
  endInput(): void;
  /** Closes the reading end of the command's output. */
  closeOutput(): void;
  signal(signal: NodeJS.Signals): void;
  readonly exited: Promise<number | null>;
}

interface Options {
  readonly atEnd: Cleanup;
  readonly env?: Readonly<Record<string, string>>;
  /** Input that is typed or piped at once; then the input ends. */
  readonly input?: string;
  /** Runs the command on a terminal with this number of columns. */
  readonly columns?: number;
}

/** Starts `svc` with these arguments. */
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
  // The command may end before it has read its input.
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

/** The output of a command that has ended, and its exit code. */
export async function said(words: readonly string[], options: Options) {
  const talking = talk(words, { input: "", ...options });
  const code = await talking.exited;
  return { code, stdout: talking.stdout(), stderr: talking.stderr() };
}
