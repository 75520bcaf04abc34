import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";

const stripTypes = new URL("../strip-types.js", import.meta.url).href;

/** A child process of the harness. It answers one message at a time and ends with the harness. */
export interface Child<Ready> {
  readonly pid: number;
  /** The message that the process sent when it was ready. */
  readonly ready: Ready;
  /** Sends a job and waits for its result. Kills a process that does not answer in time. */
  ask<Result>(job: unknown, timeoutMs: number): Promise<Result>;
  /** Throws if the process has ended unexpectedly. */
  assertAlive(): void;
  stop(): Promise<void>;
}

/** Starts a file of this folder as a process and waits until it is ready. */
export async function startChild<Ready>(entry: URL, args: readonly string[] = []): Promise<Child<Ready>> {
  const child = fork(fileURLToPath(entry), args, { execArgv: ["--import", stripTypes] });
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));

  const assertAlive = () => {
    const how = child.signalCode ?? child.exitCode;
    if (how !== null) throw new Error(`${entry.pathname} ended with ${how}`);
  };

  const answer = <Result>() =>
    new Promise<Result>((resolve, reject) => {
      const gone = (code: number | null, signal: string | null) =>
        reject(new Error(`${entry.pathname} ended with ${signal ?? code}`));
      child.once("exit", gone);
      child.once("message", (message) => {
        child.off("exit", gone);
        resolve((message as { result: Result }).result);
      });
    });

  const ready = await answer<Ready>();
  return {
    pid: child.pid ?? 0,
    ready,
    ask(job, timeoutMs) {
      assertAlive();
      const late = setTimeout(() => child.kill("SIGKILL"), timeoutMs);
      child.send(job as object);
      return answer<never>().finally(() => clearTimeout(late));
    },
    assertAlive,
    stop() {
      child.kill("SIGKILL");
      return exited;
    },
  };
}
