import { hash, timingSafeEqual } from "node:crypto";
import { mkdir, realpath } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import type { Logger } from "pino";
import type { Env } from "../../../bus/env.ts";
import { CommandsUnavailable, type Processes } from "../../../governance/processes/processes.ts";
import type {
  RunnerCommand,
  RunnerEvent,
  RunnerInput,
  RunnerRun,
} from "../../../governance/processes/runner-protocol.ts";
import type { RunningCommand } from "../../../governance/processes/spawner.ts";
import { beginsWithOne } from "../../../manifests/sections/shell-tools.ts";
import { Programs } from "./programs.ts";
import { isFolderName, RunnerFault, readCommand, readInput, readRun } from "./runner-bodies.ts";

/** Bytes of one request: the largest carries a megabyte of input and the files of a program. */
const bodyBytesMax = 16 * 1024 * 1024;
/** Commands that run at once. */
const commandsMax = 64;
/** Interval of events that keep a silent stream open. */
const beatMs = 15_000;

/** The configuration of a runner. */
export interface RunnerConfig {
  readonly token: string;
  /** Absolute path of the root of all workspaces; null refuses commands with files. */
  readonly root: string | null;
  /** How commands may begin; empty for any. */
  readonly allowed: readonly (readonly string[])[];
  /** The command of each image and binding. */
  readonly programs: Readonly<Record<string, readonly string[]>>;
  /** Certificate and key in PEM; null for plain HTTP. */
  readonly tls: { readonly cert: string; readonly key: string } | null;
}

/** The HTTP server of `svc shell-runner`. governance/processes/runner-protocol.ts describes its protocol. */
export class RunnerServer {
  readonly #config: RunnerConfig;
  readonly #processes: Pick<Processes, "start">;
  readonly #env: Env;
  readonly #log: Pick<Logger, "info" | "error">;
  readonly #server: Server;
  readonly #programs: Programs;
  readonly #commands = new Map<string, RunningCommand>();
  readonly #digest: Buffer;
  #starting = 0;

  constructor(
    config: RunnerConfig,
    processes: Pick<Processes, "start">,
    env: Env,
    log: Pick<Logger, "info" | "error">,
  ) {
    this.#config = config;
    this.#processes = processes;
    this.#env = env;
    this.#log = log;
    this.#digest = digestOf(`Bearer ${config.token}`);
    this.#programs = new Programs(config.programs, processes, env);
    const take = (request: IncomingMessage, response: ServerResponse): void => void this.#take(request, response);
    this.#server = config.tls === null ? createServer(take) : createTlsServer(config.tls, take);
  }

  /** Resolves with the port. Rejects if the address cannot be used. */
  listen(host: string, port: number): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen(port, host, () => resolve((this.#server.address() as AddressInfo).port));
    });
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      if (!timingSafeEqual(this.#digest, digestOf(request.headers.authorization ?? "")))
        throw new RunnerFault(401, "unauthorized");
      await this.#route(request, response);
    } catch (error) {
      if (!(error instanceof RunnerFault)) this.#log.error({ err: error }, "a request of the runner has failed");
      const { status, code } = error instanceof RunnerFault ? error : new RunnerFault(500, "internal");
      if (!response.headersSent) answer(response, status, { error: code });
      else response.destroy();
    }
  }

  async #route(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method, url = "" } = request;
    const [, id, part] = /^\/commands\/([0-9a-f]{32})(\/input)?$/.exec(url) ?? [];
    if (method === "GET" && url === "/health") return answer(response, 200, { status: "ok" });
    if (method === "POST" && url === "/commands") return this.#start(readCommand(await bodyOf(request)), response);
    if (method === "POST" && url === "/run") return this.#run(readRun(await bodyOf(request)), response);
    const command = id === undefined ? undefined : this.#commands.get(id);
    if (command === undefined) throw new RunnerFault(404, "not_found");
    if (method === "DELETE" && part === undefined) command.kill();
    else if (method === "POST" && part !== undefined) await pass(command, readInput(await bodyOf(request)));
    else throw new RunnerFault(405, "method_not_allowed");
    answer(response, 200, {});
  }

  /** Starts a command and streams its events. The command ends with the connection. */
  async #start(asked: RunnerCommand, response: ServerResponse): Promise<void> {
    const { allowed } = this.#config;
    if (allowed.length > 0 && !beginsWithOne(asked.argv, allowed)) throw new RunnerFault(403, "command_not_allowed");
    const folder = await this.#folderOf(asked);
    const id = this.#env.id();
    const emit = (event: RunnerEvent): void | Promise<void> => {
      if (response.destroyed || response.write(`data: ${JSON.stringify(event)}\n\n`)) return;
      return new Promise((resolve) => {
        response.once("drain", resolve);
        response.once("close", resolve);
      });
    };
    const { argv, env, tenant_id: tenantId, keep_bytes } = asked;
    const command = await this.#begin(() =>
      this.#processes.start({
        ...{ argv, env, folder, tenantId },
        ...(keep_bytes !== null && { keepBytes: keep_bytes }),
        onOutput: (stream, bytes) => emit({ stream, data: bytes.toString("base64") }),
      }),
    );
    this.#commands.set(id, command);
    response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
    // Output cannot come before: the process that starts commands answers in a later turn of the event loop.
    void emit({ id });
    response.once("close", () => command.kill());
    if (response.destroyed) command.kill();
    let beat = this.#env.timer(beatMs, () => {});
    const keepOpen = (): void => {
      response.write(":\n\n");
      beat = this.#env.timer(beatMs, keepOpen);
    };
    beat = this.#env.timer(beatMs, keepOpen);
    this.#log.info({ id, tenant_id: tenantId, program: argv[0] }, "a command has started");
    const exit = await command.exit;
    beat.cancel();
    this.#commands.delete(id);
    void emit({ exit });
    response.end();
  }

  async #run(asked: RunnerRun, response: ServerResponse): Promise<void> {
    const gone = new AbortController();
    response.once("close", () => gone.abort());
    const result = await this.#begin(() => this.#programs.run(asked, gone.signal));
    answer(response, 200, result);
  }

  async #begin<T>(work: () => Promise<T>): Promise<T> {
    if (this.#commands.size + this.#starting >= commandsMax) throw new RunnerFault(429, "too_many_commands");
    this.#starting++;
    try {
      return await work();
    } catch (error) {
      if (error instanceof CommandsUnavailable) throw new RunnerFault(503, "commands_unavailable");
      throw error;
    } finally {
      this.#starting--;
    }
  }

  /** Returns the folder on this machine. Refuses one that leads out of the root. */
  async #folderOf({ folder }: RunnerCommand) {
    if (folder === null) return null;
    if (this.#config.root === null) throw new RunnerFault(409, "workspace_unavailable");
    const { below, cwd, hidden } = folder;
    if (!isFolderName(below) || !isFolderName(cwd) || !hidden.every(isFolderName))
      throw new RunnerFault(400, "invalid_folder");
    const root = await realpath(this.#config.root);
    const path = below === "" ? root : `${root}/${below}`;
    await mkdir(path, { recursive: true, mode: 0o700 });
    const within = cwd === "" ? path : `${path}/${cwd}`;
    if ((await realpath(within).catch(() => null)) !== within) throw new RunnerFault(400, "invalid_folder");
    return { root, below, cwd, hidden };
  }
}

async function pass(command: RunningCommand, { data, end }: RunnerInput): Promise<void> {
  // The command may have ended, or not read: the write then resolves at its end.
  await command.write(Buffer.from(data, "base64"));
  if (end) command.endInput();
}

function digestOf(text: string): Buffer {
  return Buffer.from(hash("sha256", text), "hex");
}

function answer(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}

async function bodyOf(request: IncomingMessage): Promise<unknown> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of request as AsyncIterable<Buffer>) {
    bytes += part.length;
    if (bytes > bodyBytesMax) throw new RunnerFault(413, "body_too_large");
    parts.push(part);
  }
  try {
    return JSON.parse(Buffer.concat(parts).toString("utf8"));
  } catch {
    throw new RunnerFault(400, "invalid_json");
  }
}
