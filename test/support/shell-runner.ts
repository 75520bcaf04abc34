import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { Cleanup } from "./temp.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));

/** A `svc shell-runner` in a process of its own. */
export interface ShellRunner {
  readonly url: string;
  readonly process: ChildProcess;
}

/** Starts a runner; resolves when it listens. */
export function startShellRunner(
  atEnd: Cleanup,
  env: Readonly<Record<string, string>>,
  args: readonly string[] = [],
): Promise<ShellRunner> {
  const child = spawn(
    process.execPath,
    ["--import", `${root}strip-types.js`, `${root}svc.ts`, "shell-runner", "--port", "0", ...args],
    {
      cwd: root,
      env: { PATH: process.env.PATH ?? "", SVC_LOG_FORMAT: "json", ...env },
      stdio: ["ignore", "pipe", "pipe"],
    },
  );
  atEnd.after(async () => {
    const ended = new Promise((resolve) => child.once("close", resolve));
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGKILL");
    await ended;
  });
  let printed = "";
  return new Promise((resolve, reject) => {
    child.stderr.on("data", (bytes: Buffer) => {
      printed += bytes.toString("utf8");
    });
    createInterface({ input: child.stdout }).on("line", (line) => {
      printed += `${line}\n`;
      const { url } = /"url":"(?<url>[^"]+)"/.exec(line)?.groups ?? {};
      if (url !== undefined) resolve({ url, process: child });
    });
    child.once("close", () => reject(new Error(`the runner has ended: ${printed}`)));
  });
}
