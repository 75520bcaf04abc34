import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Cleanup, tempDir } from "./temp.ts";

// A shell that parses commands as usual and runs none of them: every program that the documents name only records its
// arguments.

/** A call of a program. */
export interface Call {
  readonly program: string;
  readonly args: readonly string[];
  /** Settings and keys of its environment. */
  readonly env: Readonly<Record<string, string>>;
}

/** The result of typing: the calls, and the exported variables at the end. */
export interface Typed {
  readonly calls: readonly Call[];
  /** Settings that a line assigns, to a program or to the shell. */
  readonly env: Readonly<Record<string, string>>;
  /** Errors of the shell: unknown programs, and syntax errors. */
  readonly complaints: string;
}

/** Programs that the documents call. */
const programs = [
  "curl",
  "svc",
  "node",
  "npm",
  "docker",
  "kubectl",
  "systemctl",
  "git",
  "ollama",
  "vllm",
  "lms",
  "llama-server",
  "chromium",
  "certutil",
  "mkdir",
];
/** A call is written at once under a name of its own: the programs of a pipe run concurrently. */
const stub = `#!/bin/bash
{ printf '%s\\0' "\${0##*/}" "$@"; printf '\\1\\0'; env -0; } > "$RECORD/$EPOCHREALTIME-$$"
`;

/** Types these lines. */
export function typeDry(code: string, atEnd: Cleanup): Typed {
  const directory = tempDir(atEnd);
  const bin = join(directory, "bin");
  const record = join(directory, "record");
  mkdirSync(bin);
  mkdirSync(record);
  for (const program of programs) {
    writeFileSync(join(bin, program), stub);
    chmodSync(join(bin, program), 0o755);
  }
  // The program that prints a script must have been called before the next line is typed.
  const prelude = 'source() { cat "$@" > /dev/null; }\nset -a\n';
  const shell = spawnSync("bash", ["--noprofile", "--norc"], {
    cwd: directory,
    env: { PATH: `${bin}:/usr/bin:/bin`, RECORD: record },
    input: `${prelude}${code}\nenv -0 > ended\n`,
    encoding: "utf8",
  });
  const calls = readdirSync(record)
    .sort()
    .map((name): Call => {
      const [words = "", env = ""] = readFileSync(join(record, name), "utf8").split("\u0001\0");
      const [program = "", ...args] = words.split("\0").slice(0, -1);
      return { program, args, env: settingsIn(env) };
    });
  const ended = settingsIn(readFileSync(join(directory, "ended"), "utf8"));
  return { calls, env: Object.assign({}, ...calls.map(({ env }) => env), ended), complaints: shell.stderr };
}

function settingsIn(environment: string): Record<string, string> {
  const pairs = environment.split("\0").map((line): [string, string] => {
    const equals = line.indexOf("=");
    return [line.slice(0, equals), line.slice(equals + 1)];
  });
  return Object.fromEntries(pairs.filter(([name]) => /^SVC_|_API_KEY$|_PASSWORD$/.test(name)));
}
