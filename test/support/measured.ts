import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { HttpClient } from "./http-client.ts";
import type { Order, Report } from "./measured-server.ts";
import { baseEnv, type Env } from "./server.ts";
import { type Cleanup, tempDir } from "./temp.ts";

/** A server that reports how much processor time its thread has used without a yield. */
export class MeasuredServer extends HttpClient {
  readonly #child: ChildProcess;

  constructor(url: string, child: ChildProcess) {
    super(() => url);
    this.#child = child;
  }

  /** The longest time between two turns of the server's event loop until the work is done, in milliseconds of its processor. */
  async longestMs(work: () => Promise<unknown>): Promise<number> {
    await ask(this.#child, "begin");
    await work();
    const report = await ask(this.#child, "end");
    if (typeof report !== "object" || !("longestMs" in report)) throw new Error(`no figure: ${JSON.stringify(report)}`);
    return report.longestMs;
  }
}

/** Starts one whose thread both speaks HTTP and runs the actors. */
export async function startMeasured(atEnd: Cleanup, env: Env): Promise<MeasuredServer> {
  const settings = {
    ...{ ...baseEnv(tempDir(atEnd)), SVC_HTTP_THREADS: "0", SVC_ACTOR_THREADS: "0", SVC_LOG_LEVEL: "error" },
    ...env,
  };
  const child = fork(fileURLToPath(new URL("measured-server.ts", import.meta.url)), [JSON.stringify(settings)], {
    execArgv: ["--import", fileURLToPath(new URL("../../strip-types.js", import.meta.url))],
  });
  const kill = () => child.kill("SIGKILL");
  process.on("exit", kill);
  const ended = new Promise((resolve) => child.once("exit", resolve));
  atEnd.after(async () => {
    server.close();
    kill();
    await ended;
    process.off("exit", kill);
  });
  const report = await said(child);
  if (typeof report !== "object" || !("url" in report)) throw new Error(`no address: ${JSON.stringify(report)}`);
  const server = new MeasuredServer(report.url, child);
  return server;
}

function ask(child: ChildProcess, order: Order): Promise<Report> {
  const report = said(child);
  child.send(order);
  return report;
}

/** The next report of the process. */
function said(child: ChildProcess): Promise<Report> {
  return new Promise((resolve, reject) => {
    const end = (code: number | null): void => reject(new Error(`the server has ended with ${code}`));
    child.once("exit", end);
    child.once("message", (report: Report) => {
      child.off("exit", end);
      resolve(report);
    });
  });
}
