import type { Env } from "../../bus/env.ts";
import type { CommandScope, CommandState, NamedCommand, StartedCommand } from "../../bus/protocol/commands.ts";
import { CommandsUnavailable } from "../../governance/processes/processes.ts";
import { requestMs } from "../../storage/store/store.ts";
import {
  deleteCommandOp,
  endCommandOp,
  keptMs,
  keptOfScopeMax,
  ofScopeMax,
  ofTenantMax,
  runningCommands,
  startCommandOp,
} from "../../storage/tables/shell-commands.ts";
import { BackgroundCommand } from "./background-command.ts";
import type { CommandsDeps } from "./deps.ts";

/** Max commands of the host that run at once. */
const ofHostMax = 32;
/** Max finished commands of a tenant, and of the host, that are kept. */
const keptOfTenantMax = 64;
const keptOfHostMax = 256;
/** Time in which a command that was ended does end: its grace, and a second for its output. */
const endMs = 5_000;

/** The background commands of one host (decision 173). Their rows are in the store, their output is here. */
export class HostCommands {
  readonly #host: string;
  readonly #env: Env;
  readonly #deps: CommandsDeps;
  /** By tenant and id. */
  readonly #commands = new Map<string, BackgroundCommand>();
  /** Starts one after the other, so that each counts those before. */
  #starting: Promise<unknown> = Promise.resolve();

  constructor(host: string, env: Env, deps: CommandsDeps) {
    this.#host = host;
    this.#env = env;
    this.#deps = deps;
  }

  get isIdle(): boolean {
    return this.#commands.size === 0;
  }

  /** Starts a command after its row is durable. One that was started before is not started again. */
  start(asked: StartedCommand): Promise<{ readonly refused: string | null }> {
    const started = this.#starting.then(() => this.#start(asked));
    this.#starting = started.catch(() => {});
    return started;
  }

  /** Returns the state of a command with its unread output; null for an unknown one. */
  async read(named: NamedCommand, waitMs: number): Promise<CommandState | null> {
    const command = this.#find(named);
    await command?.changed(waitMs);
    return command?.read() ?? null;
  }

  /** Ends a command and returns its state. */
  async kill(named: NamedCommand): Promise<CommandState | null> {
    const command = this.#find(named);
    command?.kill();
    await command?.ended(endMs);
    return command?.read() ?? null;
  }

  /** Ends the commands of a thread, and forgets them. */
  async forget(threadId: string): Promise<void> {
    const own = [...this.#commands].filter(([, { asked }]) => asked.thread_id === threadId);
    for (const [, command] of own) command.kill();
    await Promise.all(own.map(([, command]) => command.ended(endMs)));
    for (const [key] of own) this.#commands.delete(key);
  }

  /** Ends all commands. */
  end(): void {
    for (const command of this.#commands.values()) command.kill();
  }

  #find(named: NamedCommand): BackgroundCommand | undefined {
    const command = this.#commands.get(keyOf(named));
    return command?.asked.scope === named.scope ? command : undefined;
  }

  async #start(asked: StartedCommand): Promise<{ readonly refused: string | null }> {
    const key = keyOf(asked);
    if (this.#commands.has(key)) return { refused: null };
    const { command_id, scope, thread_id, manifest, tool, argv } = asked;
    const store = this.#deps.store.tenant(asked.tenant_id);
    const refused = this.#running() >= ofHostMax ? hostIsFull : await isFull(store, scope);
    if (refused !== null) return { refused };
    const command = new BackgroundCommand(asked, this.#env);
    await store.write(
      [
        deleteCommandOp(store, command_id),
        startCommandOp(store, {
          ...{ command_id, scope, thread_id, manifest, tool, argv },
          owner: `${this.#host}:commands`,
          started_at: this.#env.now(),
        }),
      ],
      requestMs,
    );
    this.#commands.set(key, command);
    try {
      const { folder, tenant_id: tenantId } = asked;
      const running = await this.#deps.processes.start({
        ...{ argv, folder, tenantId },
        onOutput: (stream, bytes) => command.output(stream, bytes),
      });
      void command.follow(running).then(() => this.#ended(key, command));
      return { refused: null };
    } catch (error) {
      command.finish("failed");
      await this.#ended(key, command);
      this.#commands.delete(key);
      if (error instanceof CommandsUnavailable) return { refused: error.message };
      throw error;
    }
  }

  #running(): number {
    return [...this.#commands.values()].filter(({ status }) => status === "running").length;
  }

  /** Records the end, and keeps the command for an hour, as one of the last of its workspace, its tenant and the host. */
  async #ended(key: string, command: BackgroundCommand): Promise<void> {
    const { asked, status, exitCode } = command;
    if (status === "running") return;
    const store = this.#deps.store.tenant(asked.tenant_id);
    this.#env.timer(keptMs, () => void this.#drop(key, command));
    // In the order of their ends: a long command whose end is not read yet is not the oldest.
    if (this.#commands.get(key) === command) {
      this.#commands.delete(key);
      this.#commands.set(key, command);
    }
    const dropped = this.#surplus(asked);
    await store
      .write([endCommandOp(store, asked.command_id, status, exitCode, this.#env.now())], requestMs)
      // The row stays `running` until the host has ended; its reader asks this actor.
      .catch(() => {});
    for (const [oldKey, old] of dropped) await this.#drop(oldKey, old);
  }

  /** Returns the oldest of the finished commands that are too many. */
  #surplus(asked: CommandScope): Map<string, BackgroundCommand> {
    const ofHost = [...this.#commands].filter(([, { status }]) => status !== "running");
    const ofTenant = ofHost.filter(([, one]) => one.asked.tenant_id === asked.tenant_id);
    const ofScope = ofTenant.filter(([, one]) => one.asked.scope === asked.scope);
    return new Map([
      ...ofScope.slice(0, Math.max(0, ofScope.length - keptOfScopeMax)),
      ...ofTenant.slice(0, Math.max(0, ofTenant.length - keptOfTenantMax)),
      ...ofHost.slice(0, Math.max(0, ofHost.length - keptOfHostMax)),
    ]);
  }

  async #drop(key: string, command: BackgroundCommand): Promise<void> {
    if (this.#commands.get(key) !== command) return;
    this.#commands.delete(key);
    const store = this.#deps.store.tenant(command.asked.tenant_id);
    // The sweep deletes what remains.
    await store.write([deleteCommandOp(store, command.asked.command_id)], requestMs).catch(() => {});
  }
}

const hostIsFull = `${ofHostMax} background commands run on this server, and no more may`;

async function isFull(store: Parameters<typeof runningCommands>[0], scope: string): Promise<string | null> {
  const { ofScope, ofTenant } = await runningCommands(store, scope);
  if (ofScope >= ofScopeMax)
    return `${ofScopeMax} background commands run in this workspace, and no more may: end one first`;
  if (ofTenant >= ofTenantMax) return `${ofTenantMax} background commands of this tenant run, and no more may`;
  return null;
}

function keyOf({ tenant_id, command_id }: Pick<NamedCommand, "tenant_id" | "command_id">): string {
  return `${tenant_id}:${command_id}`;
}
