import { lstat, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { Env } from "../../../bus/env.ts";
import type { Processes } from "../../../governance/processes/processes.ts";
import type { RunnerResult, RunnerRun } from "../../../governance/processes/runner-protocol.ts";
import { RunnerFault } from "./runner-bodies.ts";

/** Bytes of output that are returned: the first half and the last. */
const outputBytesMax = 1024 * 1024;
/** Results that are kept for repeated keys, and for how long. */
const keptMax = 256;
const keptMs = 600_000;
/** Bytes of all results that are kept. */
const keptBytesMax = 64 * 1024 * 1024;
/** Images that are returned, and the bytes of each. */
const imagesMax = 4;
const imageBytesMax = 600 * 1024;
const imageName = /\.(?:gif|jpe?g|png|webp)$/i;

interface Kept {
  readonly result: Promise<RunnerResult>;
  /** Null while the program runs. */
  bytes: number | null;
}

/** The programs of images and bindings. Each run has a new folder, which is removed afterwards. */
export class Programs {
  readonly #programs: Readonly<Record<string, readonly string[]>>;
  readonly #processes: Pick<Processes, "start">;
  readonly #env: Env;
  /** Results by tenant and key. */
  readonly #kept = new Map<string, Kept>();

  constructor(programs: Readonly<Record<string, readonly string[]>>, processes: Pick<Processes, "start">, env: Env) {
    this.#programs = programs;
    this.#processes = processes;
    this.#env = env;
  }

  /** Runs a program; a repeated key gets the result of its first run. `gone` ends it. */
  run(asked: RunnerRun, gone: AbortSignal): Promise<RunnerResult> {
    const name = asked.image ?? asked.binding ?? "";
    const program = Object.hasOwn(this.#programs, name) ? this.#programs[name] : undefined;
    if (program === undefined) throw new RunnerFault(404, "unknown_program");
    if (asked.key === undefined) return this.#run(program, asked, gone);
    const key = JSON.stringify([asked.tenant_id, name, asked.key]);
    const known = this.#kept.get(key);
    if (known !== undefined) return known.result;
    const result = this.#run(program, asked, gone);
    const kept: Kept = { result, bytes: null };
    const forget = (): void => {
      if (this.#kept.get(key) === kept) this.#kept.delete(key);
    };
    this.#kept.set(key, kept);
    this.#env.timer(keptMs, forget);
    result.then((done) => {
      kept.bytes = bytesOf(done);
      this.#forgetSurplus();
    }, forget);
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > keptMax && oldest !== undefined) this.#kept.delete(oldest);
    return result;
  }

  /** Drops the oldest results that are too much. Running programs stay: their keys must not run again. */
  #forgetSurplus(): void {
    let total = 0;
    for (const { bytes } of this.#kept.values()) total += bytes ?? 0;
    for (const [key, { bytes }] of this.#kept) {
      if (total <= keptBytesMax) return;
      if (bytes === null) continue;
      this.#kept.delete(key);
      total -= bytes;
    }
  }

  async #run(program: readonly string[], asked: RunnerRun, gone: AbortSignal): Promise<RunnerResult> {
    const { argv = [], path, args, files = {}, timeout_ms = 0, tenant_id = "" } = asked;
    const root = await mkdtemp(join(tmpdir(), "svc-run-"));
    try {
      for (const [name, text] of Object.entries(files)) {
        await mkdir(dirname(join(root, name)), { recursive: true });
        await writeFile(join(root, name), text);
      }
      const parts: Buffer[] = [];
      const command = await this.#processes.start({
        argv: [...program, ...(path === undefined ? [] : [path]), ...argv],
        folder: { root, below: "", cwd: "", hidden: [] },
        ...{ tenantId: tenant_id, keepBytes: outputBytesMax / 2 },
        onOutput: (_stream, bytes) => void parts.push(bytes),
      });
      let timed_out = false;
      const kill = (): void => command.kill();
      const timer = this.#env.timer(timeout_ms, () => {
        timed_out = true;
        kill();
      });
      gone.addEventListener("abort", kill);
      if (gone.aborted) kill();
      void command.write(Buffer.from(args === undefined ? "" : JSON.stringify(args))).then(() => command.endInput());
      const { code, failure } = await command.exit;
      timer.cancel();
      gone.removeEventListener("abort", kill);
      if (gone.aborted) throw new RunnerFault(499, "client_gone");
      const output =
        failure === undefined ? Buffer.concat(parts).toString("utf8") : `the program has failed: ${failure}`;
      return { exit_code: code, output, timed_out, images: await imagesIn(join(root, "images")) };
    } finally {
      await rm(root, { recursive: true, force: true });
    }
  }
}

function bytesOf({ output, images }: RunnerResult): number {
  return images.reduce((sum, { data }) => sum + data.length, Buffer.byteLength(output));
}

/** Returns the images that a program has left in its folder `images`. */
async function imagesIn(folder: string): Promise<RunnerResult["images"]> {
  // A program can make it a link, which would lead to files of others.
  const at = await lstat(folder).catch(() => null);
  if (!at?.isDirectory()) return [];
  const names = await readdir(folder).catch((): string[] => []);
  const images: { filename: string; data: string }[] = [];
  for (const filename of names.filter((name) => imageName.test(name)).sort()) {
    const path = join(folder, filename);
    const stats = await lstat(path);
    if (!stats.isFile() || stats.size > imageBytesMax) continue;
    images.push({ filename, data: (await readFile(path)).toString("base64") });
    if (images.length === imagesMax) break;
  }
  return images;
}
