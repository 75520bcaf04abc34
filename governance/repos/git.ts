import type { Env } from "../../bus/env.ts";
import type { Processes } from "../processes/processes.ts";

// git as a child process of svc (decisions 236 and 253). It reads no configuration but the one below: no hooks, no filters, no
// submodules, no LFS, https only. A repository cannot make it run a program.

/** A git directory with a work tree, and an index of its own. */
export interface GitPlace {
  readonly gitDir: string;
  /** Null for commands that read and write objects only. */
  readonly workTree: string | null;
  /** Absent for that of the git directory. */
  readonly index?: string;
}

/** How a command runs. */
export interface GitOptions {
  readonly input?: string | Uint8Array;
  /** Absent for a command that connects to nothing. */
  readonly remote?: GitRemote;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  /** Bytes of output that are kept; more fail the command. */
  readonly outputBytesMax?: number;
  /** Exit codes that are no failure, beside 0. */
  readonly accepts?: readonly number[];
  /** Name and time of the author of a commit. */
  readonly author?: { readonly name: string; readonly email: string; readonly at: number };
}

/** The way to a code host. */
export interface GitRemote {
  /** URL of the forward proxy with its password. */
  readonly proxy: string;
  /** File of trusted certificates; null for those of the system. */
  readonly caFile: string | null;
  /** Token for the code host; null to ask without one. */
  readonly token: string | null;
}

/** A command of git failed. The message has its last words, which may name paths of this machine. */
export class GitError extends Error {
  override readonly name = "GitError";
  readonly reason: "exit" | "timeout" | "aborted" | "output" | "missing";

  constructor(reason: GitError["reason"], message: string) {
    super(message);
    this.reason = reason;
  }
}

const outputBytesDefault = 64 * 1024 * 1024;
const timeoutMsDefault = 120_000;
const wordsMax = 2_000;
const pathOfPrograms = "/usr/local/bin:/usr/bin:/bin:/run/current-system/sw/bin";
/** The lowest version that has `merge-tree --write-tree` and asks for a safe directory. */
const versionMin = [2, 39] as const;
/** Prints the credentials that come through descriptor 3. The other questions of git, `store` and `erase`, have no answer. */
const credentialHelper = '!f() { test "$1" = get && cat <&3; }; f';

const configuration: readonly (readonly [string, string])[] = [
  ["core.hooksPath", "/dev/null"],
  ["core.fsmonitor", "false"],
  ["core.attributesFile", "/dev/null"],
  ["core.excludesFile", "/dev/null"],
  ["core.protectHFS", "true"],
  ["core.protectNTFS", "true"],
  ["core.symlinks", "true"],
  ["core.autocrlf", "false"],
  ["core.quotePath", "false"],
  ["core.bigFileThreshold", "16m"],
  ["core.editor", "false"],
  ["core.pager", "cat"],
  ["core.sshCommand", "false"],
  ["core.askPass", ""],
  ["credential.helper", ""],
  ["diff.external", ""],
  ["diff.ignoreSubmodules", "all"],
  ["submodule.recurse", "false"],
  ["fetch.recurseSubmodules", "false"],
  ["push.recurseSubmodules", "no"],
  ["protocol.allow", "never"],
  ["protocol.https.allow", "always"],
  ["http.followRedirects", "false"],
  ["http.sslVerify", "true"],
  ["gc.auto", "0"],
  ["maintenance.auto", "false"],
  ["init.defaultBranch", "main"],
  ["safe.directory", "*"],
  ["commit.gpgSign", "false"],
  ["advice.detachedHead", "false"],
  ["transfer.bundleURI", "false"],
  ["uploadpack.packObjectsHook", ""],
];

/** Runs git. */
export class Git {
  readonly #processes: Pick<Processes, "startOwn">;
  readonly #env: Pick<Env, "timer">;
  #version: Promise<boolean> | null = null;

  constructor(processes: Pick<Processes, "startOwn">, env: Pick<Env, "timer">) {
    this.#processes = processes;
    this.#env = env;
  }

  /** True if git is installed in a version that can do the work. */
  isUsable(): Promise<boolean> {
    this.#version ??= this.#run(null, ["--version"], {}).then(
      (output) => {
        const [, major = 0, minor = 0] = /(\d+)\.(\d+)/.exec(output.toString()) ?? [];
        const [least, leastMinor] = versionMin;
        return Number(major) > least || (Number(major) === least && Number(minor) >= leastMinor);
      },
      () => {
        this.#version = null;
        return false;
      },
    );
    return this.#version;
  }

  /** Runs a command and returns its output. Throws GitError. */
  run(place: GitPlace, args: readonly string[], options: GitOptions = {}): Promise<Buffer> {
    return this.#run(place, args, options);
  }

  /** Runs a command and returns its output as text, without blanks at its end. Throws GitError. */
  async text(place: GitPlace, args: readonly string[], options: GitOptions = {}): Promise<string> {
    return (await this.#run(place, args, options)).toString("utf8").trimEnd();
  }

  /** Runs a command and returns the parts of its output that end with NUL. Throws GitError. */
  async list(place: GitPlace, args: readonly string[], options: GitOptions = {}): Promise<string[]> {
    const parts = (await this.#run(place, args, options)).toString("utf8").split("\0");
    parts.pop();
    return parts;
  }

  async #run(place: GitPlace | null, args: readonly string[], options: GitOptions): Promise<Buffer> {
    const { input = "", remote, timeoutMs = timeoutMsDefault, signal } = options;
    const { outputBytesMax = outputBytesDefault, accepts = [] } = options;
    if (signal?.aborted) throw new GitError("aborted", "the call was given up");
    const parts: Buffer[] = [];
    let bytes = 0;
    let words = "";
    let failure: GitError | null = null;
    const command = this.#processes.startOwn(
      {
        argv: ["git", ...args],
        env: environmentOf(place, options),
        folder: place?.workTree ?? place?.gitDir ?? "/",
        keepBytes: null,
        ...(remote?.token != null && { secret: `username=x-access-token\npassword=${remote.token}\n` }),
      },
      (stream, output) => {
        if (stream === "stderr") words = (words + output.toString("utf8")).slice(-wordsMax);
        else {
          bytes += output.length;
          if (bytes <= outputBytesMax) parts.push(output);
          else end(new GitError("output", `git printed more than ${outputBytesMax} bytes`));
        }
      },
    );
    const end = (why: GitError): void => {
      failure ??= why;
      command.kill();
    };
    const timer = this.#env.timer(timeoutMs, () => end(new GitError("timeout", `no end within ${timeoutMs} ms`)));
    const abort = (): void => end(new GitError("aborted", "the call was given up"));
    signal?.addEventListener("abort", abort);
    void command.write(Buffer.from(input)).then(() => command.endInput());
    const exit = await command.exit;
    timer.cancel();
    signal?.removeEventListener("abort", abort);
    if (failure !== null) throw failure;
    if (exit.failure === "not_found") throw new GitError("missing", "git is not installed");
    if (exit.code === 0 || (exit.code !== null && accepts.includes(exit.code))) return Buffer.concat(parts);
    throw new GitError("exit", `git ${args[0] ?? ""}: ${words.trim() || (exit.failure ?? `exit code ${exit.code}`)}`);
  }
}

function environmentOf(place: GitPlace | null, { remote, author }: GitOptions): Readonly<Record<string, string>> {
  const pairs = [...configuration];
  if (remote !== undefined) {
    pairs.push(["http.proxy", remote.proxy], ["http.proxyAuthMethod", "basic"]);
    if (remote.caFile !== null) pairs.push(["http.sslCAInfo", remote.caFile]);
    if (remote.token !== null) pairs.push(["credential.helper", credentialHelper]);
  }
  const settings = pairs.flatMap(([key, value], at) => [
    [`GIT_CONFIG_KEY_${at}`, key],
    [`GIT_CONFIG_VALUE_${at}`, value],
  ]);
  return {
    ...{ PATH: pathOfPrograms, HOME: "/nonexistent", LC_ALL: "C", LANG: "C.UTF-8", TZ: "UTC" },
    ...{ GIT_CONFIG_NOSYSTEM: "1", GIT_CONFIG_GLOBAL: "/dev/null", GIT_ATTR_NOSYSTEM: "1" },
    ...{ GIT_TERMINAL_PROMPT: "0", GIT_ASKPASS: "false", GIT_ALLOW_PROTOCOL: "https", GIT_LFS_SKIP_SMUDGE: "1" },
    ...{ GIT_NO_REPLACE_OBJECTS: "1", GIT_OPTIONAL_LOCKS: "0" },
    GIT_CONFIG_COUNT: String(pairs.length),
    ...Object.fromEntries(settings),
    ...(place !== null && { GIT_DIR: place.gitDir }),
    ...(place?.workTree != null && { GIT_WORK_TREE: place.workTree }),
    ...(place?.index !== undefined && { GIT_INDEX_FILE: place.index }),
    ...(author && {
      ...{ GIT_AUTHOR_NAME: author.name, GIT_AUTHOR_EMAIL: author.email, GIT_AUTHOR_DATE: dateOf(author.at) },
      ...{ GIT_COMMITTER_NAME: author.name, GIT_COMMITTER_EMAIL: author.email, GIT_COMMITTER_DATE: dateOf(author.at) },
    }),
  };
}

function dateOf(at: number): string {
  return `@${Math.floor(at / 1_000)} +0000`;
}
