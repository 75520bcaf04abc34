import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, realpathSync } from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { HttpClient } from "../../support/http-client.ts";
import type { Env } from "../../support/server.ts";
import { type Cleanup, tempDir } from "../../support/temp.ts";

// `svc serve` as a shell starts it: a separate process group, its output, and a client.

/** The root of the repository. */
export const root = fileURLToPath(new URL("../../../", import.meta.url));

/** Signals closer together than this count as one. */
export const sameSignalMs = 300;

/** The Nodes to test: the one that runs the tests, and the system's, which svc.js uses only to start the first. */
export const nodes = [...new Set([process.execPath, systemNode() ?? process.execPath])];

/** PATH without the folders that npm adds in front. */
export function systemPath(): string {
  const folders = (process.env.PATH ?? "").split(delimiter);
  return folders.filter((folder) => !folder.includes("node_modules")).join(delimiter);
}

function systemNode(): string | undefined {
  const folders = systemPath().split(delimiter);
  const found = folders.map((folder) => join(folder, "node")).find((path) => existsSync(path));
  return found && realpathSync(found);
}

/** Longer than any output takes; reaching it fails the test. */
const printMsMax = 30_000;

/** Children with living processes. */
const running = new Set<ChildProcess>();
process.on("exit", () => {
  for (const { pid = 0 } of running) process.kill(-pid, "SIGKILL");
});

/** A started program. */
export interface Started {
  readonly child: ChildProcess;
  url(): string;
  readonly client: HttpClient;
  /** Resolves with the exit code when the process has ended and no descendant holds its output open. */
  readonly exited: Promise<number | null>;
  /** The output so far. */
  output(): string;
  /** Resolves with the text of the first group once the output matches. */
  printed(pattern: RegExp): Promise<string>;
  /** Sends a signal to the whole process group, as a terminal does on a key. */
  signal(signal: NodeJS.Signals): void;
}

interface Options {
  readonly atEnd: Cleanup;
  /** A program and its arguments; default: `svc serve` under the Node of the tests. */
  readonly command?: readonly string[];
  readonly env?: Env;
}

/** The command `svc serve` under a Node. */
export function serveUnder(node: string, args: readonly string[] = []): readonly string[] {
  return [node, "svc.js", "serve", ...args];
}

/** The shell's PATH and HOME, the defaults of the tests, and `env`. */
export function environment(env: Env): Env {
  const { PATH = "", HOME = "" } = process.env;
  return { PATH, HOME, SVC_PORT: "0", SVC_GRACEFUL_SHUTDOWN_SECONDS: "20", ...env };
}

/** Starts a server in the repository, on a new data directory unless `env` names one. */
export function start({ atEnd, command = serveUnder(process.execPath), env = {} }: Options): Started {
  const [program = "", ...args] = command;
  const child = spawn(program, args, {
    cwd: root,
    env: environment({ SVC_DATA_DIR: join(tempDir(atEnd), "data"), ...env }),
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  running.add(child);
  let output = "";
  const listeners = new Set<() => void>();
  const take = (chunk: Buffer): void => {
    output += chunk.toString("utf8");
    for (const listener of [...listeners]) listener();
  };
  child.stdout?.on("data", take);
  child.stderr?.on("data", take);
  const exited = new Promise<number | null>((resolve) => {
    child.once("close", (code) => {
      running.delete(child);
      for (const listener of [...listeners]) listener();
      resolve(code);
    });
  });
  const url = (): string => output.match(/url[=":]+(http:\/\/[^\s",]+)/)?.[1] ?? "";
  const client = new HttpClient(url);
  const signal = (name: NodeJS.Signals): void => void process.kill(-(child.pid as number), name);
  atEnd.after(async () => {
    client.close();
    // Only the children of a failed test, because the id of an ended process may have been reused.
    if (running.has(child)) signal("SIGKILL");
    await exited;
  });
  return {
    child,
    url,
    client,
    exited,
    output: () => output,
    printed(pattern) {
      return new Promise((resolve, reject) => {
        const look = (): void => {
          const found = output.match(pattern);
          if (found) resolve(found[1] ?? found[0]);
          else if (!running.has(child)) reject(new Error(`it ended without printing ${pattern}:\n${output}`));
          else return;
          listeners.delete(look);
          clearTimeout(late);
        };
        const late = setTimeout(() => reject(new Error(`it has not printed ${pattern}:\n${output}`)), printMsMax);
        listeners.add(look);
        look();
      });
    },
    signal,
  };
}
