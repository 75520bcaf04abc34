import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { startServer, type TestServer } from "./server.ts";
import { type Cleanup, tempDir } from "./temp.ts";

// Does what a document tells its reader to do, in the order in which it stands there, in a directory that looks like a clone:
//
// - a block of `sh` is typed into a shell, line by line; one that ends in `npm start` starts the server, or starts it again with those settings;
// - a block after a text that names a file in which to save it is saved there, and run where the text says so;
// - a block behind `<!-- not run: why -->` is left alone.

const root = fileURLToPath(new URL("../../", import.meta.url));
const commandMsMax = 60_000;

/** A piece of code of a document. */
export interface Block {
  readonly language: string;
  readonly code: string;
  /** The paragraph above it. */
  readonly above: string;
  readonly line: number;
}

/** The blocks of code of a document. */
export function blocksOf(path: string): Block[] {
  const text = readFileSync(`${root}${path}`, "utf8");
  return [...text.matchAll(/^```(\w*)[^\n]*\n(.*?)^```$/gms)].map((found) => {
    const [, language = "", code = ""] = found;
    const before = text.slice(0, found.index);
    const above =
      before
        .trimEnd()
        .split(/\n\n|```\n/)
        .at(-1) ?? "";
    return { language, code, above, line: before.split("\n").length };
  });
}

/** Why a block is left alone; null for one that is run. */
export function whyNotRun({ above }: Block): string | null {
  return /<!-- not run: (.*?) -->\s*$/s.exec(above)?.[1] ?? null;
}

/** A reader in front of a shell, with a clone and nothing running. */
export class Reader {
  readonly #atEnd: Cleanup;
  readonly #directory: string;
  readonly #shell: ChildProcess;
  #server: TestServer | null = null;
  /** The newest API key that was printed. */
  #key = "svc_…";
  #printed = "";
  #read = 0;

  constructor(atEnd: Cleanup) {
    this.#atEnd = atEnd;
    this.#directory = tempDir(atEnd);
    for (const name of readdirSync(root))
      if (!["data", "agents", "try", ".git"].includes(name)) symlinkSync(join(root, name), join(this.#directory, name));
    const path = `${dirname(process.execPath)}:${join(root, "node_modules/.bin")}:${process.env.PATH}`;
    this.#shell = spawn("bash", ["--noprofile", "--norc"], {
      cwd: this.#directory,
      env: { HOME: this.#directory, LANG: "C.UTF-8", PATH: path },
      stdio: ["pipe", "pipe", "pipe"],
    });
    atEnd.after(() => void this.#shell.kill("SIGKILL"));
    for (const stream of [this.#shell.stdout, this.#shell.stderr])
      stream?.setEncoding("utf8").on("data", (text: string) => {
        this.#printed += text;
      });
    this.#shell.stdin?.write('curl() { command curl --silent --show-error --fail-with-body "$@"; }\n');
  }

  /** What was printed since the last time that this was asked. */
  printed(): string {
    const text = this.#printed.slice(this.#read);
    this.#read = this.#printed.length;
    return text;
  }

  /** Follows one block. Rejects with what was printed where a command of it fails. */
  async follow({ language, code, above }: Block): Promise<void> {
    const [, file] = /`([\w./-]+\.(?:ya?ml|json|mjs|ts|py))`/.exec(lastSentences(above)) ?? [];
    if (language !== "sh" && file !== undefined) {
      mkdirSync(join(this.#directory, dirname(file)), { recursive: true });
      writeFileSync(join(this.#directory, file), this.#placed(code));
      const [, command] = /run\s+`([^`]+)`/i.exec(above) ?? [];
      if (command !== undefined) await this.#type(command);
    } else if (language === "sh") {
      for (const command of code.replaceAll("\\\n", "").trimEnd().split("\n")) await this.#obey(command);
    }
  }

  async #obey(command: string): Promise<void> {
    const isStart = /(?:^|\s)npm start$/.test(command);
    if (!isStart) return this.#type(command);
    const given = [...this.#placed(command).matchAll(/(SVC_\w+)=('[^']*'|\S+)/g)].map(([, name = "", value = ""]) => [
      name,
      this.#absolute(value.replace(/^'|'$/g, "")),
    ]);
    await this.#server?.stop();
    this.#server = await startServer({
      atEnd: this.#atEnd,
      dataDir: join(this.#directory, "data"),
      env: Object.fromEntries(given),
    });
    await this.#type(`export SVC_PORT=${new URL(this.#server.url).port}`);
  }

  /** A setting that names something of the reader's directory, as the server finds it from its own. */
  #absolute(value: string): string {
    const path = join(this.#directory, value);
    return value !== "" && existsSync(path) ? path : value;
  }

  /** What the reader would put in its place: where the server is, and the key that was made. */
  #placed(code: string): string {
    const here = this.#server?.url ?? "http://127.0.0.1:8080";
    return code.replaceAll("http://127.0.0.1:8080", here).replaceAll("svc_…", this.#key);
  }

  async #type(command: string): Promise<void> {
    // A stream that only listens goes on until the reader has seen enough.
    const listens = /curl -N \S*\/chat\/stream\//.test(command);
    const from = this.#printed.length;
    const typed = this.#placed(command);
    this.#shell.stdin?.write(
      `{ ${listens ? typed.replace("curl -N", "curl -N --max-time 1") : typed}\n} </dev/null; echo "<exit $?>"\n`,
    );
    const code = await this.#exitCode(command, from);
    const printed = this.#printed.slice(from);
    this.#key = /svc_[\w-]{20,}/.exec(printed)?.[0] ?? this.#key;
    if (code !== 0 && !(listens && code === 28)) throw new Error(`${command}\nended with ${code}: ${printed}`);
  }

  async #exitCode(command: string, from: number): Promise<number> {
    const deadline = performance.now() + commandMsMax;
    while (performance.now() < deadline) {
      const [, code] = /<exit (\d+)>/.exec(this.#printed.slice(from)) ?? [];
      if (code !== undefined) return Number(code);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    throw new Error(`${command}\ndoes not end: ${this.#printed.slice(from)}`);
  }
}

/** The end of a paragraph, which says what the block is. */
function lastSentences(above: string): string {
  return above.slice(-300);
}
