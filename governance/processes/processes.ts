import { access, constants } from "node:fs/promises";
import { tmpdir } from "node:os";
import type { Env } from "../../bus/env.ts";
import type { Outgoing } from "../egress/outgoing.ts";
import type { Settings } from "../settings/settings.ts";
import type { CommandRequest } from "./command-request.ts";
import { RunnerClient, RunnerRefusal } from "./runner-client.ts";
import { limited, type ProcessLimits, type Programs, pathOf, sandboxed } from "./sandbox.ts";
import { type OnOutput, type RunningCommand, Spawner } from "./spawner.ts";
import type { SpawnJob } from "./spawner-frames.ts";

/** The settings that decide how commands run. */
export type ProcessSettings = Pick<
  Settings,
  "shellLocal" | "shellNetwork" | "shellPath" | "shellReadable" | "shellRunnerUrl" | "shellRunnerToken"
>;

/** No command can be started, for the reason in the message. */
export class CommandsUnavailable extends Error {
  override readonly name = "CommandsUnavailable";
}

const sandboxLimits: ProcessLimits = {
  processes: 512,
  memoryBytes: 4 * 1024 ** 3,
  fileBytes: 1024 ** 3,
  openFiles: 4096,
};
/** Without a sandbox the kernel counts all processes of the user, those of svc and of others too. */
const bareLimits: ProcessLimits = { ...sandboxLimits, processes: 4096 };

/** Where programs of the system are. */
const programFolders = ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin", "/run/current-system/sw/bin"];

/**
 * Starts commands (decision 110): on a runner if there is one, otherwise on this machine, in a sandbox of bubblewrap, or bare if the
 * operator trusts them. Their environment has nothing of svc's.
 */
export class Processes {
  readonly #settings: ProcessSettings;
  readonly #spawner: Spawner;
  readonly #runner: RunnerClient | null;
  readonly #programFolders: readonly string[];
  #programs: Promise<Programs> | null = null;

  /** `outgoing` connects to the runner; without it commands run on this machine. `folders` has bubblewrap and prlimit. */
  constructor(
    settings: ProcessSettings,
    env: Pick<Env, "id" | "timer">,
    outgoing: Pick<Outgoing, "send" | "whole"> | null = null,
    folders: readonly string[] = programFolders,
  ) {
    this.#settings = settings;
    this.#programFolders = folders;
    this.#spawner = new Spawner(env);
    const { shellRunnerUrl: url, shellRunnerToken: token } = settings;
    this.#runner = outgoing === null || url === "" ? null : new RunnerClient(outgoing, { url, token }, env);
  }

  /** Number of running commands. */
  get size(): number {
    return this.#spawner.size;
  }

  /** Starts a command. Throws CommandsUnavailable if this deployment starts none; a failure to start is the command's exit. */
  async start(request: CommandRequest): Promise<RunningCommand> {
    const { argv, env = {}, folder, cwd: begins, keepBytes, onOutput } = request;
    if (this.#runner !== null) return startedBy(this.#runner, request);
    const { shellLocal: mode, shellNetwork: hasNetwork, shellPath, shellReadable: readable } = this.#settings;
    this.#programs ??= findPrograms(this.#programFolders);
    const programs = await this.#programs;
    const fault = faultOf(mode, programs);
    if (fault !== null) throw new CommandsUnavailable(fault);
    const isSandbox = mode === "bwrap";
    const limits = isSandbox ? sandboxLimits : bareLimits;
    const home = isSandbox ? "/tmp" : folder === null ? tmpdir() : pathOf(folder);
    const within = limited(argv, limits, programs);
    const cwd = folder === null ? (begins ?? tmpdir()) : folder.cwd === "" ? home : `${home}/${folder.cwd}`;
    return this.#spawner.start(
      {
        argv: isSandbox
          ? sandboxed(within, programs.bwrap as string, { folder, cwd: begins ?? "/tmp", readable, hasNetwork })
          : within,
        env: { PATH: shellPath, HOME: home, LANG: "C.UTF-8", ...env },
        folder: isSandbox ? null : cwd,
        isSandbox,
        processesMax: limits.processes,
        keepBytes: keepBytes ?? null,
      },
      onOutput,
    );
  }

  /**
   * Starts a program of svc's own, such as git, on this machine and outside of the sandbox. Its environment is `env` alone. A
   * failure to start is its exit.
   */
  startOwn(
    {
      argv,
      env,
      folder,
      keepBytes,
      secret,
    }: Pick<SpawnJob, "argv" | "env" | "keepBytes" | "secret"> & { readonly folder: string },
    onOutput: OnOutput,
  ): RunningCommand {
    const { processes: processesMax } = bareLimits;
    const job = { argv, env, folder, keepBytes, isSandbox: false, processesMax };
    return this.#spawner.start({ ...job, ...(secret !== undefined && { secret }) }, onOutput);
  }

  /** Ends all commands. */
  close(): void {
    this.#spawner.close();
  }
}

async function startedBy(runner: RunnerClient, request: CommandRequest): Promise<RunningCommand> {
  try {
    return await runner.start(request);
  } catch (error) {
    throw error instanceof RunnerRefusal ? new CommandsUnavailable(error.message) : error;
  }
}

function faultOf(mode: Settings["shellLocal"], { bwrap, prlimit }: Programs): string | null {
  if (mode === "none") return "commands are not enabled on this server";
  if (mode === "bwrap" && (bwrap === null || prlimit === null))
    return `${bwrap === null ? "bubblewrap" : "prlimit"} is not installed on this server`;
  return null;
}

async function findPrograms(folders: readonly string[]): Promise<Programs> {
  const find = async (name: string): Promise<string | null> => {
    for (const folder of folders) if (await isProgram(`${folder}/${name}`)) return `${folder}/${name}`;
    return null;
  };
  return { bwrap: await find("bwrap"), prlimit: await find("prlimit") };
}

async function isProgram(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
