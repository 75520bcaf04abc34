import { hash } from "node:crypto";
import { commandsAddress } from "../../../bus/address.ts";
import { SvcError } from "../../../bus/errors.ts";
import type { CommandState, NamedCommand } from "../../../bus/protocol/commands.ts";
import { type ShellTool, shellKill, shellOutput } from "../../../manifests/sections/shell-tools.ts";
import { requestMs } from "../../../storage/store/store.ts";
import { loseCommandOp, type ShellCommandRow, shellCommand } from "../../../storage/tables/shell-commands.ts";
import { type Tool, type ToolContext, type ToolResult, toolError } from "../tool.ts";
import type { CommandFolder } from "../workspace/workspace.ts";
import type { ShellDeps } from "./deps.ts";

/** Max time of a call about a command in the background. */
export const backgroundMsMax = 60_000;
/** Time for an answer of the host that runs a command. */
const answerMs = 15_000;

/** Commands that outlive their call. Each is a row, and runs on the host that the row names (decision 173). */
export class BackgroundCommands {
  readonly #deps: Pick<ShellDeps, "bus" | "host">;
  readonly #tools: ReadonlyMap<string, Tool>;

  constructor(deps: Pick<ShellDeps, "bus" | "host">) {
    this.#deps = deps;
    const output: Tool = {
      ...shellOutput,
      timeoutMs: backgroundMsMax,
      execute: ({ id, wait_ms = 0 }: { readonly id: string; readonly wait_ms?: number }, context) =>
        this.#ask(id, context, (host, named) =>
          this.#deps.bus.ask(commandsAddress(host), "read", { ...named, wait_ms }, { deadlineMs: wait_ms + answerMs }),
        ),
    };
    const kill: Tool = {
      ...shellKill,
      timeoutMs: backgroundMsMax,
      execute: ({ id }: { readonly id: string }, context) =>
        this.#ask(id, context, (host, named) =>
          this.#deps.bus.ask(commandsAddress(host), "kill", named, { deadlineMs: answerMs }),
        ),
    };
    this.#tools = new Map([output, kill].map((tool) => [tool.name, tool]));
  }

  /** Returns the tool for commands in the background with this name. */
  tool(name: string): Tool | undefined {
    return this.#tools.get(name);
  }

  /** Starts a command on this host. A repeated call finds the command that it has started. */
  async start(
    { name, timeoutMs }: ShellTool,
    argv: readonly string[],
    stdin: string,
    folder: CommandFolder,
    context: ToolContext,
  ): Promise<ToolResult> {
    const { bus, host } = this.#deps;
    const command_id = `sh_${hash("sha256", context.key).slice(0, 16)}`;
    const { refused } = await bus.ask(
      commandsAddress(host),
      "start",
      {
        ...{ tenant_id: context.tenantId, scope: scopeOf(context), command_id },
        thread_id: context.threadSuffix === null ? "" : `${context.tenantId}:${context.threadSuffix}`,
        ...{ manifest: context.manifest, tool: name, argv, stdin, folder, timeout_ms: timeoutMs },
      },
      { deadlineMs: answerMs, bytes: 1024 + stdin.length + argv.join("").length },
    );
    if (refused !== null) return toolError("rate_limited", refused);
    return { text: JSON.stringify({ id: command_id, status: "running" }) };
  }

  async #ask(
    id: string,
    context: ToolContext,
    ask: (host: string, named: NamedCommand) => Promise<{ readonly state: CommandState | null }>,
  ): Promise<ToolResult> {
    const row = await shellCommand(context.store, id);
    const scope = scopeOf(context);
    if (row === undefined || row.scope !== scope)
      return toolError("not_found", "there is no such command in this workspace");
    const named = { tenant_id: context.tenantId, scope, command_id: id };
    const state = row.status === "lost" ? null : await this.#stateOf(row.owner, ask, named);
    if (state === null) return goneResult(row, context);
    const { duration_ms, status, exit_code, stdout, stderr } = state;
    return { text: JSON.stringify({ id, status, exit_code, stdout, stderr, duration_ms }), taint: ["sandbox"] };
  }

  /** Null if the host or its commands are gone. */
  async #stateOf(
    owner: string,
    ask: (host: string, named: NamedCommand) => Promise<{ readonly state: CommandState | null }>,
    named: NamedCommand,
  ): Promise<CommandState | null> {
    try {
      const [host = ""] = owner.split(":");
      return (await ask(host, named)).state;
    } catch (error) {
      if (error instanceof SvcError && error.code === "actor_lost") return null;
      throw error;
    }
  }
}

/** Returns the state of a command whose host does not hold it any more. Its output is gone. */
async function goneResult(row: ShellCommandRow, { store, env }: ToolContext): Promise<ToolResult> {
  const { command_id: id, exit_code } = row;
  const status = row.status === "running" ? "lost" : row.status;
  if (row.status === "running") await store.write([loseCommandOp(store, id, env.now())], requestMs);
  return { text: JSON.stringify({ id, status, exit_code, stdout: "", stderr: "" }) };
}

function scopeOf({ workspaceScope, threadSuffix }: ToolContext): string {
  return workspaceScope === "thread" ? `thread:${threadSuffix ?? ""}` : workspaceScope;
}
