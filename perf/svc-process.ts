import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { closeSync, mkdirSync, openSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { listProcessTree } from "./process-stats.ts";
import { models, perfTenant, skillsScenario } from "./scenarios.ts";

/** The server under test. */
export interface SvcProcess {
  readonly port: number;
  readonly apiKey: string;
  /** The API key of another tenant. */
  readonly neighbourKey: string;
  /** The ids of the process and its descendants. */
  readonly pids: readonly number[];
  /** Throws, with the end of its log, if the process has ended unexpectedly. */
  assertAlive(): void;
  /** Stops the server with SIGTERM, and with SIGKILL after ten seconds. */
  stop(): Promise<void>;
}

export interface SvcStart {
  readonly launcher: string;
  /** A new directory for the data and the log. */
  readonly dir: string;
  readonly mockPort: number;
  /** Fills the data directory before the server starts. */
  readonly prepare?: ((dataDir: string) => Promise<void>) | undefined;
  readonly env: Readonly<Record<string, string>>;
  /** Aborts the start and ends the process. */
  readonly signal: AbortSignal;
}

const readyMs = 30_000;
const stopMs = 10_000;

/** Starts svc like a user, with an empty data directory, and waits until it is ready. */
export async function startSvc(start: SvcStart): Promise<SvcProcess> {
  mkdirSync(start.dir, { recursive: true });
  await start.prepare?.(`${start.dir}/data`);
  const port = await findFreePort();
  const [apiKey, neighbourKey] = [newKey(), newKey()];
  const logPath = `${start.dir}/svc.log`;
  const log = openSync(logPath, "w");
  const child = spawn(process.execPath, [start.launcher, "serve"], {
    cwd: dirname(start.launcher),
    env: {
      ...inheritedEnv(),
      ...settingsOf(start, port, { [perfTenant]: apiKey, neighbour: neighbourKey }),
      ...start.env,
    },
    // The IPC channel carries no messages. It closes if the harness dies, and svc then ends too.
    stdio: ["ignore", log, log, "ipc"],
  });
  closeSync(log);
  let gone: string | undefined;
  const exited = new Promise<void>((resolve) => {
    const end = (why: string) => {
      gone = why;
      resolve();
    };
    child.once("exit", (code, signal) => end(`it ended with ${signal ?? code}`));
    child.once("error", (error) => end(error.message));
  });
  const stop = async () => {
    child.kill("SIGTERM");
    const late = AbortSignal.timeout(stopMs);
    late.onabort = () => killTree(child.pid);
    await exited;
    late.onabort = null;
  };

  const failure = (text: string) => new Error(`${text}\n${lastLines(logPath)}`);
  const assertAlive = () => {
    if (gone !== undefined) throw failure(`svc is gone: ${gone}`);
  };

  const deadline = performance.now() + readyMs;
  while (gone === undefined && performance.now() < deadline && !start.signal.aborted) {
    if (await isReady(port))
      return { port, apiKey, neighbourKey, pids: listProcessTree(child.pid ?? 0), assertAlive, stop };
    await Promise.race([sleep(50), exited]);
  }
  const why = gone ?? "no 200 from /ready";
  await stop();
  throw failure(`svc did not get ready: ${why}`);
}

function killTree(root: number | undefined): void {
  for (const pid of root === undefined ? [] : listProcessTree(root)) process.kill(pid, "SIGKILL");
}

function newKey(): string {
  return `perf-${randomBytes(16).toString("hex")}`;
}

/** `keys` are the API keys by tenant. */
function settingsOf(start: SvcStart, port: number, keys: Readonly<Record<string, string>>): Record<string, string> {
  const wireModels = [...new Set([...Object.values(models), skillsScenario.itemModel])];
  const routes = Object.fromEntries(wireModels.map((model) => [model, { provider: "openai", model }]));
  const provider = { base_url: `http://127.0.0.1:${start.mockPort}/v1`, api_key: "mock-key" };
  return {
    SVC_HOST: "127.0.0.1",
    SVC_PORT: String(port),
    SVC_DATA_DIR: `${start.dir}/data`,
    SVC_AUTH_MODE: "api_key",
    SVC_AUTH_API_KEYS: JSON.stringify(
      Object.fromEntries(
        Object.entries(keys).map(([tenant_id, key]) => [key, { tenant_id, sub: "load", scopes: ["*"] }]),
      ),
    ),
    SVC_RATE_LIMIT: "1000000000",
    SVC_MODEL_ROUTES: JSON.stringify(routes),
    SVC_MODEL_PROVIDER_OPTIONS: JSON.stringify({ openai: provider }),
    SVC_DEFAULT_MODEL_ID: "mock-burst",
    SVC_MANIFEST_DIR: fileURLToPath(new URL("./manifests", import.meta.url)),
  };
}

/** Leaves out the shell's own SVC_ settings, which would change the measurement. */
function inheritedEnv(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("SVC_")));
}

async function isReady(port: number): Promise<boolean> {
  try {
    const response = await fetch(`http://127.0.0.1:${port}/ready`, { signal: AbortSignal.timeout(2000) });
    await response.body?.cancel();
    return response.ok;
  } catch {
    return false;
  }
}

function findFreePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0));
    });
  });
}

function lastLines(path: string): string {
  return readFileSync(path, "utf8").split("\n").slice(-20).join("\n");
}
