import { type ChildProcess, spawn } from "node:child_process";
import { copyFileSync, mkdtempSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { Settings } from "../../governance/settings/settings.ts";
import type { ServeOptions } from "../../host/boot.ts";
import { loadDeployment } from "../../host/deployment.ts";
import type { ActorSystem } from "../../host/system.ts";
import { noteBoot } from "../runner/boots.ts";
import { busInBytes } from "./bus-in-bytes.ts";
import { type HostedRun, runHosted } from "./hosted-server.ts";
import { HttpClient } from "./http-client.ts";
import type { MockModel } from "./mock-model.ts";
import { noteLine } from "./server-output.ts";
import { type Cleanup, tempDir } from "./temp.ts";

// Servers for tests: in a shared process, in a process of its own started by the real command, or inside the test's
// process, where a test can reach its threads. Each has its own data directory and port, and ends with the test.

export type Env = Readonly<Record<string, string>>;

interface ServerOptions {
  /** Settings added to those of every test server. */
  readonly env?: Env;
  /** The command that starts it, by default `serve`. */
  readonly command?: string;
  /** Arguments after the command. */
  readonly args?: readonly string[];
  /** Default: one of its own, removed at the end. */
  readonly dataDir?: string;
  /** False resolves as soon as the process exists; `ready` resolves when it takes requests. Default true. */
  readonly waitForReady?: boolean;
  /** The cleanup that ends the server. */
  readonly atEnd: Cleanup;
}

interface LogLine {
  readonly level: string;
  readonly msg: string;
  readonly [field: string]: unknown;
}

interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

const root = fileURLToPath(new URL("../../", import.meta.url));
const startMsMax = 60_000;
const stopMsMax = 30_000;

/** What the tests start as servers; null for one server with SQLite in the shared process. */
export const serverStarter: {
  start: ((env: Env, dataDir: string, atEnd: Cleanup) => Promise<TestServer>) | null;
  /** Makes the database of a server that will have this data directory. */
  database: ((dataDir: string, atEnd: Cleanup) => Promise<void>) | null;
} = { start: null, database: null };

/** The HTTP engine of the test servers; the gate runs engine-dependent tests on both. */
export const httpEngine: "uws" | "node" = process.env.SVC_TEST_HTTP_ENGINE === "node" ? "node" : "uws";

/** The settings of every test server: any free port, no rate limit, and logs as JSON. */
export function baseEnv(dataDir: string): Env {
  return {
    SVC_PORT: "0",
    SVC_DATA_DIR: dataDir,
    SVC_LOG_FORMAT: "json",
    SVC_RATE_LIMIT: "0",
    // No test reaches the real code host.
    SVC_GITHUB_API_URL: "http://127.0.0.1:9",
    SVC_AUDIT_FLUSH_SECONDS: "0.02",
    SVC_GRACEFUL_SHUTDOWN_SECONDS: "10",
    SVC_HTTP_ENGINE: httpEngine,
    SVC_HTTP_THREADS: "1",
    SVC_ACTOR_THREADS: "1",
    // Tests of the shop switch it on.
    SVC_COMMERCE_ENABLED: "false",
  };
}

/** Starts a server in a shared process. Signals, kills, logs and memory need `startServerProcess`. */
export async function startServer({
  atEnd,
  ...options
}: Pick<ServerOptions, "env" | "dataDir" | "atEnd">): Promise<TestServer> {
  const dataDir = options.dataDir ?? newDataDir(atEnd);
  const { SVC_ACTOR_THREADS: _, ...base } = baseEnv(dataDir);
  const { start } = serverStarter;
  if (start !== null) return start({ ...base, ...options.env }, dataDir, atEnd);
  const server = new HostedServer({ ...base, ...options.env }, dataDir);
  atEnd.after(() => server.leave());
  await server.start();
  return server;
}

/** Starts a server as a process of its own. */
export async function startServerProcess({ atEnd, ...options }: ServerOptions): Promise<ProcessServer> {
  const dataDir = options.dataDir ?? newDataDir(atEnd);
  const server = new ProcessServer({ ...baseEnv(dataDir), ...options.env }, dataDir, [
    options.command ?? "serve",
    ...(options.args ?? []),
  ]);
  atEnd.after(async () => void (await server.kill()));
  if (options.waitForReady !== false) await server.ready;
  return server;
}

/** An empty one, with the schema if the runner has made it already. */
function newDataDir(atEnd: Cleanup): string {
  const path = tempDir(atEnd);
  const image = process.env.SVC_TEST_SQLITE_IMAGE;
  if (image !== undefined) copyFileSync(image, join(path, "svc.db"));
  return path;
}

/** A server, and a client of it. */
export interface TestServer extends HttpClient {
  readonly url: string;
  readonly dataDir: string;
  /** The settings it was started with. */
  readonly environment: Env;
  /** Asks the server to end; resolves when it has. */
  stop(): Promise<unknown>;
  /** Restarts the server on its data; a running one is asked to end first. */
  restart(env?: Env): Promise<void>;
}

/** A server in a shared process. */
class HostedServer extends HttpClient implements TestServer {
  readonly dataDir: string;
  environment: Env;
  #run: HostedRun | null = null;

  constructor(env: Env, dataDir: string) {
    super(() => this.url);
    this.dataDir = dataDir;
    this.environment = env;
  }

  get url(): string {
    if (this.#run === null) throw new Error("the server is not there");
    return this.#run.url;
  }

  async start(): Promise<void> {
    // The file is read once per process.
    if (this.environment.SVC_HTTP_MAX_HEADER_BYTES !== undefined)
      throw new Error("SVC_HTTP_MAX_HEADER_BYTES needs a process: startServerProcess");
    this.#run = await runHosted(this.environment);
  }

  async stop(): Promise<void> {
    this.close();
    await this.#run?.stop();
  }

  async restart(env: Env = {}): Promise<void> {
    await this.stop();
    this.environment = { ...this.environment, ...env };
    await this.start();
  }

  /** Ends it at the end of a test. */
  async leave(): Promise<void> {
    this.close();
    await this.#run?.leave();
  }
}

/** A server in a process of its own, and a client of it. */
export class ProcessServer extends HttpClient implements TestServer {
  readonly dataDir: string;
  #env: Env;
  readonly #args: readonly string[];
  #process: ServerProcess;

  constructor(env: Env, dataDir: string, args: readonly string[]) {
    super(() => this.url);
    this.dataDir = dataDir;
    this.#env = env;
    this.#args = args;
    this.#process = new ServerProcess(env, args);
  }

  /** The settings the process was started with. */
  get environment(): Env {
    return this.#env;
  }

  /** Resolves when the server takes requests. Rejects with its output when it ends before that. */
  get ready(): Promise<void> {
    return this.#process.ready;
  }

  /** Resolves when the process has ended. */
  get exited(): Promise<Exit> {
    return this.#process.exited;
  }

  get url(): string {
    return this.#process.url;
  }

  get pid(): number {
    return this.#process.pid;
  }

  /** True while the process exists. */
  get isRunning(): boolean {
    return this.#process.isRunning;
  }

  /** The log lines of the process so far. */
  get logs(): readonly LogLine[] {
    return this.#process.logs;
  }

  /** The output of the process so far, log lines included. */
  get output(): string {
    return this.#process.output;
  }

  /** Asks the server to end; resolves when it has. */
  stop(signal: NodeJS.Signals = "SIGTERM"): Promise<Exit> {
    this.close();
    return this.#process.end(signal);
  }

  /** Ends the server without asking it. */
  kill(): Promise<Exit> {
    return this.stop("SIGKILL");
  }

  /** Restarts the server on its data; a running one is asked to end first. */
  async restart(env: Env = {}): Promise<void> {
    await this.stop();
    this.#env = { ...this.#env, ...env };
    this.#process = new ServerProcess(this.#env, this.#args);
    await this.ready;
  }
}

/** Running processes: they end with the test's process, however that ends. */
const running = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

class ServerProcess {
  readonly logs: LogLine[] = [];
  readonly ready: Promise<void>;
  readonly exited: Promise<Exit>;
  output = "";
  #url: string | null = null;
  readonly #child: ChildProcess;

  constructor(env: Env, args: readonly string[]) {
    const { PATH = "", HOME = "", TMPDIR = "/tmp" } = process.env;
    noteBoot("server");
    const child = spawn(
      process.execPath,
      ["--import", join(root, "strip-types.js"), ...busInBytes(), join(root, "svc.ts"), ...args],
      {
        cwd: root,
        // No other variable of the shell: a provider key would change the default model. The channel ends the server
        // with the test.
        env: { PATH, HOME, TMPDIR, ...env },
        stdio: ["ignore", "pipe", "pipe", "ipc"],
      },
    );
    this.#child = child;
    running.add(child);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.ready = promise;
    promise.catch(() => {});
    const late = setTimeout(() => child.kill("SIGKILL"), startMsMax);
    createInterface({ input: child.stdout as NodeJS.ReadableStream }).on("line", (line) => {
      this.output += `${line}\n`;
      noteLine(line);
      const logged = readLogLine(line);
      if (!logged) return;
      this.logs.push(logged);
      if (logged.msg !== "svc is ready") return;
      this.#url = logged.url === undefined ? null : String(logged.url);
      clearTimeout(late);
      resolve();
    });
    child.stderr?.on("data", (chunk: Buffer) => {
      this.output += chunk.toString("utf8");
      noteLine(chunk.toString("utf8"));
    });
    this.exited = new Promise((ended) => {
      child.on("close", (code, signal) => {
        running.delete(child);
        clearTimeout(late);
        reject(new Error(`the server ended with ${signal ?? code} before it was ready:\n${this.output}`));
        ended({ code, signal });
      });
    });
  }

  get url(): string {
    if (this.#url === null) throw new Error(`the server is not ready:\n${this.output}`);
    return this.#url;
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  get isRunning(): boolean {
    return running.has(this.#child);
  }

  async end(signal: NodeJS.Signals): Promise<Exit> {
    this.#child.kill(signal);
    const late = setTimeout(() => this.#child.kill("SIGKILL"), stopMsMax);
    const exit = await this.exited;
    clearTimeout(late);
    return exit;
  }
}

function readLogLine(line: string): LogLine | null {
  try {
    return JSON.parse(line) as LogLine;
  } catch {
    return null;
  }
}

/** A server in the test's own process. */
export interface LocalServer extends HttpClient {
  readonly url: string;
  readonly settings: Settings;
  readonly dataDir: string;
  /** Its threads. */
  readonly system: ActorSystem;
  /** Drains it; resolves when it has ended. */
  stop(): Promise<void>;
}

/** Starts a server inside this process. */
export async function startInProcess({
  atEnd,
  ...options
}: Pick<ServerOptions, "env" | "dataDir" | "atEnd"> & Pick<ServeOptions, "cores">): Promise<LocalServer> {
  // The whole program; most files that start servers do not load it.
  const { serve } = await import("../../host/serve.ts");
  const dataDir = options.dataDir ?? tempDir(atEnd);
  const { settings } = await loadDeployment({ ...baseEnv(dataDir), SVC_LOG_LEVEL: "silent", ...options.env });
  const stopping = new AbortController();
  const started = Promise.withResolvers<{ url: string; system: ActorSystem }>();
  const { cores } = options;
  const ended = serve(settings, {
    version: "0.0.0-test",
    stop: stopping.signal,
    onReady: started.resolve,
    ...(cores && { cores }),
  });
  ended.catch(started.reject);
  const client = new HttpClient(() => url);
  const stop = (): Promise<void> => {
    client.close();
    stopping.abort();
    return ended;
  };
  atEnd.after(() => stop().catch(() => {}));
  const { url, system } = await started.promise;
  return Object.assign(client, { url, settings, dataDir, system, stop });
}

interface KeyEntry {
  readonly tenant_id?: string;
  readonly sub?: string;
  readonly scopes: readonly string[];
}

/** Settings of mode api_key, and a key for each entry; of tenant `acme` by default. */
export function apiKeys<Name extends string>(
  entries: Readonly<Record<Name, KeyEntry>>,
): { readonly env: Env; readonly keys: Readonly<Record<Name, string>> } {
  const names = Object.keys(entries) as Name[];
  const keys = Object.fromEntries(names.map((name) => [name, `key-of-${name}-0123456789`])) as Record<Name, string>;
  const map = Object.fromEntries(
    names.map((name) => {
      const { tenant_id = "acme", sub = name, scopes } = entries[name];
      return [keys[name], { tenant_id, sub, scopes }];
    }),
  );
  return { env: { SVC_AUTH_MODE: "api_key", SVC_AUTH_API_KEYS: JSON.stringify(map) }, keys };
}

/**
 * Settings under which these model ids are routes to a mock model, the first of them the default, with known prices.
 */
export function modelEnv(mock: Pick<MockModel, "url">, models: readonly string[]): Env {
  const price = { input: 2, output: 8, cache_read: 0.5, cache_write: 2 };
  const figures = { max_output_tokens: 32_768, price };
  const routes = Object.fromEntries(models.map((model) => [model, { provider: "openai", model, ...figures }]));
  return {
    SVC_MODEL_ROUTES: JSON.stringify(routes),
    SVC_MODEL_PROVIDER_OPTIONS: JSON.stringify({ openai: { base_url: mock.url, api_key: "mock-provider-key" } }),
    SVC_DEFAULT_MODEL_ID: models[0] ?? "",
  };
}

/** Settings under which these manifests, by name, are the operator's own. A manifest is a spec, or a whole one. */
export function manifestEnv(atEnd: Cleanup, manifests: Readonly<Record<string, object>>): Env {
  const directory = mkdtempSync(join(tempDir(atEnd), "manifests-"));
  for (const [name, given] of Object.entries(manifests)) {
    const { metadata = {}, ...rest } = ("spec" in given ? given : { spec: given }) as { metadata?: object };
    writeFileSync(join(directory, `${name}.json`), JSON.stringify({ metadata: { ...metadata, name }, ...rest }));
  }
  return { SVC_MANIFEST_DIR: directory };
}
