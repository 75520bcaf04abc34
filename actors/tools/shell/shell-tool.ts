import { FairSemaphore } from "../../../bus/queues/fair-semaphore.ts";
import { CommandsUnavailable } from "../../../governance/processes/processes.ts";
import type { CommandExit } from "../../../governance/processes/spawner-frames.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import { beginsWithOne, type ShellTool, tokensOf } from "../../../manifests/sections/shell-tools.ts";
import type { ToolSource } from "../source.ts";
import { type Tool, type ToolContext, type ToolResult, toolError } from "../tool.ts";
import { ToolRefusal } from "../workspace/refusal.ts";
import { type CommandFolder, folderOfCommands } from "../workspace/workspace.ts";
import { parseDirectoryPath } from "../workspace/workspace-path.ts";
import { BackgroundCommands } from "./background-commands.ts";
import { StreamParts, streamBytesMax } from "./command-text.ts";
import type { ShellDeps } from "./deps.ts";

// spec.shell_tools: commands in the workspace of the conversation. No shell reads them.

/** Commands that run at once: on one thread of svc, and of one tenant there. Those in the background count apart. */
const commandsMax = 32;
const ofTenantMax = 8;
/** Time that a call may wait for its turn, and for the end of its command after the timeout. */
const waitMs = 120_000;

/** Returns the source of the tools in spec.shell_tools, with those for commands in the background. */
export function shellToolSource(deps: ShellDeps): ToolSource {
  const shell = new Shell(deps);
  const background = new BackgroundCommands(deps);
  return {
    name: "spec.shell_tools",
    offers: [],
    resolve(name: string, { shellTools }: CompiledAgent) {
      const declared = shellTools.get(name);
      if (declared !== undefined) return shellTool(declared, shell, background);
      if (![...shellTools.values()].some(({ mayRunInBackground }) => mayRunInBackground)) return undefined;
      return background.tool(name);
    },
  };
}

interface Arguments {
  readonly argv: readonly string[];
  readonly cwd?: string;
  readonly stdin?: string;
  readonly run_in_background?: boolean;
}

function shellTool(declared: ShellTool, shell: Shell, background: BackgroundCommands): Tool {
  return {
    ...declared,
    timeoutMs: declared.timeoutMs + waitMs,
    async execute(args: Arguments, context) {
      const refusal = shell.refusal(declared, args);
      if (refusal !== null) return refusal;
      const folder = await shell.folder(declared, args.cwd, context);
      if ("refused" in folder) return folder.refused;
      if (args.run_in_background === true)
        return background.start(declared, args.argv, args.stdin ?? "", folder, context);
      return shell.run(declared, args, folder, context);
    },
    preview: ({ argv }: Arguments) => Promise.resolve(argv.map(quoted).join(" ")),
  };
}

/** Shows the limits of an argument that a reader could not see. */
function quoted(argument: string): string {
  return /^[\w@%+=:,./-]+$/.test(argument) ? argument : JSON.stringify(argument);
}

/** Runs commands of one thread of svc to their end. */
class Shell {
  readonly #deps: ShellDeps;
  readonly #permits = new FairSemaphore(commandsMax, ofTenantMax);
  readonly #allowed: readonly (readonly string[])[];

  constructor(deps: ShellDeps) {
    this.#deps = deps;
    this.#allowed = deps.settings.shellAllowedCommands.map(tokensOf);
  }

  /** Returns why the manifest or the operator does not allow the command; null if they do. */
  refusal({ name, prefixes }: ShellTool, { argv }: Arguments): ToolResult | null {
    if (argv.some((argument) => argument.includes("\0")))
      return toolError("invalid_arguments", "an argument has a NUL character");
    const isListed = beginsWithOne(argv, prefixes);
    if (isListed && (this.#allowed.length === 0 || beginsWithOne(argv, this.#allowed))) return null;
    this.#deps.metrics.count("svc_shell_denied_total", { tool: name, reason: "argv" });
    const allowed = prefixes.map((prefix) => prefix.join(" ")).join("; ");
    return toolError(
      "permission_denied",
      isListed
        ? "the operator of this server does not allow the command"
        : `the command is not allowed; allowed are commands that begin with: ${allowed}`,
    );
  }

  /** Returns the folder in which the command works, or why it cannot. */
  async folder(
    { name }: ShellTool,
    cwd: string | undefined,
    context: ToolContext,
  ): Promise<CommandFolder | { readonly refused: ToolResult }> {
    try {
      return await folderOfCommands(context, parseDirectoryPath(cwd));
    } catch (error) {
      if (!(error instanceof ToolRefusal)) throw error;
      if (error.code !== "transport_unavailable")
        this.#deps.metrics.count("svc_shell_denied_total", { tool: name, reason: "cwd" });
      return { refused: toolError(error.code, error.message) };
    }
  }

  /** Runs a command to its end, or to the end of its call. */
  async run(
    { timeoutMs }: ShellTool,
    { argv, stdin = "" }: Arguments,
    folder: CommandFolder,
    { tenantId, signal }: ToolContext,
  ): Promise<ToolResult> {
    const { env, processes } = this.#deps;
    await this.#permit(tenantId);
    try {
      if (signal.aborted) return toolError("interrupted", "the call was given up");
      const streams = { stdout: new StreamParts(), stderr: new StreamParts() };
      const startedAt = env.monotonic();
      const command = await processes.start({
        ...{ argv, folder, tenantId, keepBytes: streamBytesMax, signal },
        onOutput: (stream, bytes) => streams[stream].add(bytes),
      });
      let isLate = false;
      const kill = (): void => command.kill();
      const timer = env.timer(timeoutMs, () => {
        isLate = true;
        kill();
      });
      signal.addEventListener("abort", kill);
      // The abort may have come while the command started.
      if (signal.aborted) kill();
      void command.write(Buffer.from(stdin)).then(() => command.endInput());
      const exit = await command.exit;
      timer.cancel();
      signal.removeEventListener("abort", kill);
      return resultOf(exit, {
        stdout: streams.stdout.text(exit.skipped?.stdout ?? 0),
        stderr: streams.stderr.text(exit.skipped?.stderr ?? 0),
        ...{ timed_out: isLate, duration_ms: Math.round(env.monotonic() - startedAt) },
      });
    } catch (error) {
      if (error instanceof CommandsUnavailable) return toolError("transport_unavailable", error.message);
      throw error;
    } finally {
      this.#permits.free(tenantId);
    }
  }

  #permit(tenantId: string): Promise<void> {
    if (this.#permits.take(tenantId)) return Promise.resolve();
    return new Promise((resolve) => this.#permits.await(tenantId, this.#deps.env.id(), resolve));
  }
}

interface Ran {
  readonly stdout: string;
  readonly stderr: string;
  readonly timed_out: boolean;
  readonly duration_ms: number;
}

function resultOf({ code, signal, failure }: CommandExit, ran: Ran): ToolResult {
  if (failure !== undefined) {
    const text = failureTexts[failure];
    return toolError(
      failure === "not_found" ? "not_found" : failure === "lost" ? "interrupted" : "provider_error",
      text,
    );
  }
  const text = JSON.stringify({ exit_code: code, ...(signal !== null && { signal }), ...ran });
  return { text, taint: ["sandbox"], ...(ran.timed_out && { error: "timeout" as const }) };
}

/** Why a command has no exit code, in words for the model. */
const failureTexts: Readonly<Record<NonNullable<CommandExit["failure"]>, string>> = {
  not_found: "the program does not exist",
  not_started: "the program could not be started",
  too_many_processes: "the command was ended because it had started too many processes",
  lost: "outcome unknown: the connection to the command was lost",
};
