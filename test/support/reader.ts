import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type Block, type Command, commandsOf, type Printed, readPrinted } from "./document.ts";
import { type Env, type ProcessServer, startServerProcess } from "./server.ts";
import { root } from "./source.ts";
import { type Cleanup, tempDir } from "./temp.ts";

// Follows a document as its reader, in order, in a directory that looks like a clone:
//
// - A block of `sh` is typed into a shell, command by command. A command that ends in `npm start` or `svc serve` starts the server, or
//   restarts it when its settings differ.
// - The output of a command is compared with the comments or the block below it. Printed ids and times replace those of the document
//   from there on.
// - A block after a text that names a file is saved in that file, and run where the text says so.
// - A block after `<!-- not run: why -->` is skipped.

const commandMsMax = 60_000;
const printedMsMax = 20_000;
const pollMs = 20;
const startsServer =
  /^(?:.*&& )?((?:\w+=(?:'[^']*'|"[^"]*"|\S+)\s+(?:\\\n\s*)?)*)(?:npm start|(?:svc|node svc\.js) serve)\s*(?:#.*)?$/s;

interface ReaderOptions {
  /** Settings added to those that the documents name. */
  readonly env?: Env;
  /** Placeholders of the documents for things of this machine, with their values. */
  readonly places?: Readonly<Record<string, string>>;
  /** The reader starts with a running server. */
  readonly isServed?: boolean;
}

/** A reader in front of a shell, with a clone. */
export class Reader {
  readonly directory: string;
  readonly #atEnd: Cleanup;
  readonly #options: ReaderOptions;
  readonly #shell: ChildProcess;
  readonly #seen = new Map<string, string>();
  #server: ProcessServer | null = null;
  /** The settings that the server was started with. */
  #settings = "";
  /** The newest API key that was printed. */
  #key = "svc_…";
  #printed = "";
  #read = 0;

  constructor(atEnd: Cleanup, options: ReaderOptions = {}) {
    this.#atEnd = atEnd;
    this.#options = options;
    this.directory = tempDir(atEnd);
    for (const name of readdirSync(root))
      if (!["data", "agents", "try", ".git"].includes(name)) symlinkSync(join(root, name), join(this.directory, name));
    const path = `${dirname(process.execPath)}:${join(root, "node_modules/.bin")}:${process.env.PATH}`;
    this.#shell = spawn("bash", ["--noprofile", "--norc"], {
      cwd: this.directory,
      env: { HOME: this.directory, LANG: "C.UTF-8", PATH: path, ...options.env },
      stdio: ["pipe", "pipe", "pipe"],
      // Background processes of the shell end with it.
      detached: true,
    });
    atEnd.after(() => {
      if (this.#shell.pid !== undefined) process.kill(-this.#shell.pid, "SIGKILL");
    });
    for (const stream of [this.#shell.stdout, this.#shell.stderr])
      stream?.setEncoding("utf8").on("data", (text: string) => {
        this.#printed += text;
      });
    this.#shell.stdin?.write('curl() { command curl --silent --show-error --fail-with-body "$@"; }\n');
    this.#shell.stdin?.write('svc() { node svc.js "$@"; }\n');
  }

  /** The output since the last call. */
  printed(): string {
    const text = this.#printed.slice(this.#read);
    this.#read = this.#printed.length;
    return text;
  }

  /** The server that was started last. */
  get server(): ProcessServer {
    if (this.#server === null) throw new Error("nothing was started");
    return this.#server;
  }

  /**
   * Follows one block. Rejects with the output when a command fails, or prints something else than the document says.
   */
  async follow(block: Block): Promise<void> {
    const { language, code, above, isPrinted } = block;
    // The end of the paragraph describes the block.
    const [, file] = /`([\w./-]+\.(?:ya?ml|json|mjs|ts|py))`/.exec(above.slice(-300)) ?? [];
    if (isPrinted) return;
    if (language !== "sh" && file === undefined) throw new Error(`${above}\ndoes not say where it is to be saved`);
    if (language !== "sh" && file !== undefined) {
      mkdirSync(join(this.directory, dirname(file)), { recursive: true });
      writeFileSync(join(this.directory, file), this.#placed(code));
      const [, command] = /run\s+`([^`]+)`/i.exec(above) ?? [];
      if (command !== undefined) await this.#type(command);
    } else if (language === "sh") {
      for (const command of commandsOf(block)) await this.#obey(command);
    }
  }

  async #obey({ text, printed }: Command): Promise<void> {
    if (this.#options.isServed && this.#server === null) {
      mkdirSync(join(this.directory, "agents"), { recursive: true });
      await this.#start("SVC_MANIFEST_DIR=agents");
    }
    const [, settings] = startsServer.exec(text) ?? [];
    if (settings !== undefined) {
      if (text.startsWith("kill -9")) await this.#server?.kill();
      return this.#start(settings);
    }
    return printed === null ? this.#type(text) : this.#typeAndSee(text, readPrinted(printed));
  }

  /** Starts a server with the exported variables and these settings; one with the same settings keeps running. */
  async #start(settings: string): Promise<void> {
    await this.#type(`${settings} env -0 > "$HOME/.started"`);
    const given = readFileSync(join(this.directory, ".started"), "utf8")
      .split("\0")
      .map((line): [string, string] => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)])
      .filter(([name]) => name.startsWith("SVC_") && name !== "SVC_PORT")
      .map(([name, value]) => [name, this.#absolute(value)]);
    const isSame = JSON.stringify(given) === this.#settings && this.#server?.isRunning;
    if (isSame) return;
    const before = this.#server?.url;
    await this.#server?.stop();
    this.#settings = JSON.stringify(given);
    this.#server = await startServerProcess({
      atEnd: this.#atEnd,
      dataDir: join(this.directory, "data"),
      env: Object.fromEntries(given),
    });
    await this.#type(
      `export SVC_PORT=${new URL(this.#server.url).port}; if [ "\${U-}" = "${before}" ]; then U=${this.#server.url}; fi`,
    );
  }

  /** A setting that names a path in the reader's directory, resolved for the server. */
  #absolute(value: string): string {
    const path = join(this.directory, value);
    return value !== "" && existsSync(path) ? path : value;
  }

  /** Replaces the document's values by the reader's: paths, the created key, and the printed ids. */
  #placed(code: string): string {
    const here = new URL(this.#server?.url ?? "http://127.0.0.1:8080");
    const places = Object.entries(this.#options.places ?? {});
    const placed = code
      .replaceAll("http://127.0.0.1:8080", here.origin)
      .replaceAll("localhost:8080", here.host)
      .replaceAll("svc_…", this.#key);
    return [...places, ...this.#seen].reduce((text, [theirs, ours]) => text.replaceAll(theirs, ours), placed);
  }

  /**
   * Types a command, and waits until it has printed the expected output. A command that only reads is repeated until
   * then.
   */
  async #typeAndSee(command: string, wanted: Printed): Promise<void> {
    let from = this.#printed.length;
    const isStream = /^curl .*-N\b/.test(command);
    const isRead = /^curl /.test(command) && !/ (-d|-X|-T)\b/.test(command);
    const [, assigned] = /^(\w+)=\$\(/.exec(command) ?? [];
    // The output decides, not the exit code: some commands end with 1 when they report something.
    const mayFail = !command.includes("curl ");
    if (isStream) this.#shell.stdin?.write(`{ ${this.#placed(command)}\n} </dev/null &\n`);
    else await this.#type(command, mayFail);
    if (assigned !== undefined) await this.#type(`printf '%s\\n' "$${assigned}"`);
    for (const deadline = performance.now() + printedMsMax; ; ) {
      const found = wanted.pattern.exec(this.#printed.slice(from));
      if (found) {
        for (const [index, id] of wanted.ids.entries()) this.#seen.set(id, found[index + 1] as string);
        return;
      }
      const isOver = performance.now() > deadline || /curl: \(\d+\)/.test(this.#printed.slice(from));
      if (isOver || !(isStream || isRead))
        throw new Error(`${command}\nwas to print ${wanted.pattern}\nand has printed ${this.#printed.slice(from)}`);
      await new Promise((resolve) => setTimeout(resolve, pollMs));
      if (isStream) continue;
      from = this.#printed.length;
      await this.#type(command);
    }
  }

  async #type(command: string, mayFail = false): Promise<void> {
    // A stream that only listens stays open until the reader has seen enough.
    const listens = /curl -N \S*\/chat\/stream\//.test(command);
    const from = this.#printed.length;
    const typed = this.#placed(command);
    this.#shell.stdin?.write(
      `{ ${listens ? typed.replace("curl -N", "curl -N --max-time 1") : typed}\n} </dev/null; echo "<exit $?>"\n`,
    );
    const code = await this.#exitCode(command, from);
    const printed = this.#printed.slice(from);
    this.#key = /svc_[\w-]{20,}/.exec(printed)?.[0] ?? this.#key;
    if (code !== 0 && !mayFail && !(listens && code === 28))
      throw new Error(`${command}\nended with ${code}: ${printed}`);
  }

  async #exitCode(command: string, from: number): Promise<number> {
    const deadline = performance.now() + commandMsMax;
    while (performance.now() < deadline) {
      const [, code] = /<exit (\d+)>/.exec(this.#printed.slice(from)) ?? [];
      if (code !== undefined) return Number(code);
      await new Promise((resolve) => setTimeout(resolve, pollMs / 2));
    }
    throw new Error(`${command}\ndoes not end: ${this.#printed.slice(from)}`);
  }
}
