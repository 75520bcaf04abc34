import { type ChildProcess, fork } from "node:child_process";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { FairSemaphore } from "../../bus/queues/fair-semaphore.ts";
import { framed } from "../processes/byte-frames.ts";
import { type Extracted, type ExtractedForm, extractedCharsMax } from "./extract-work.ts";

/** Concurrent child processes of one thread of svc, and of one tenant there. */
const childrenMax = 2;
const ofTenantMax = 1;
/** Max files of a tenant that wait for a child process; each holds its bytes. */
const waitingMax = 8;
const killMs = 20_000;
const heapMb = 256;
/** Max resident memory of a child process. Its heap is a part of it. */
const residentBytesMax = 640 * 1024 * 1024;
const lookMs = 100;
/** Linux counts resident memory in pages. */
const pageBytes = 4096;
/** Each character may take 6 bytes as JSON. */
const outputMax = 6 * extractedCharsMax + 64 * 1024;
const root = fileURLToPath(new URL("../../", import.meta.url));

/**
 * Reads the texts of files, each in a child process of its own (decision 197): it has no environment, no network, no rights to
 * write, and limits of time and memory.
 */
export class DocumentExtractor {
  readonly #env: Pick<Env, "timer" | "id">;
  readonly #permits = new FairSemaphore(childrenMax, ofTenantMax);

  constructor(env: Pick<Env, "timer" | "id">) {
    this.#env = env;
  }

  /** Returns the text of a file as Markdown, with its title. Refuses with document_unreadable and mailbox_full. */
  async extract(tenantId: string, form: ExtractedForm, bytes: Uint8Array): Promise<{ title: string; text: string }> {
    await this.#permit(tenantId);
    let found: Extracted;
    try {
      found = JSON.parse(await this.#ask(framed({ form }, bytes))) as Extracted;
    } finally {
      this.#permits.free(tenantId);
    }
    if ("refused" in found) throw new SvcError("document_unreadable", { detail: found.refused });
    return found;
  }

  /** Sends a frame to a new child process and returns its answer. */
  #ask(frame: Buffer): Promise<string> {
    const child = startChild();
    const parts: Buffer[] = [];
    let total = 0;
    let why = "the library failed on this file";
    const kill = (reason: string): void => {
      why = reason;
      child.kill("SIGKILL");
    };
    const timer = this.#env.timer(killMs, () => kill("it takes too long to read"));
    const stopLooking = this.#limitMemory(child, () => kill("it needs too much memory"));
    return new Promise<string>((resolve, reject) => {
      child.stdout?.on("data", (part: Buffer) => {
        total += part.length;
        if (total > outputMax) kill("its text is too long");
        else parts.push(part);
      });
      const fail = (): void => reject(new SvcError("document_unreadable", { detail: why }));
      child.on("error", fail);
      child.on("close", (code) => {
        if (code === 0 && total <= outputMax) resolve(Buffer.concat(parts).toString("utf8"));
        else fail();
      });
      // A process that ends early does not read everything.
      child.stdin?.on("error", () => {});
      child.stdin?.end(frame);
    }).finally(() => {
      timer.cancel();
      stopLooking();
    });
  }

  /** Looks at the resident memory of the process, where the system shows it. */
  #limitMemory({ pid }: ChildProcess, onExcess: () => void): () => void {
    let isStopped = false;
    const look = async (): Promise<void> => {
      const text = await readFile(`/proc/${pid}/statm`, "utf8").catch(() => null);
      if (isStopped || text === null) return;
      if (Number(text.split(" ")[1]) * pageBytes > residentBytesMax) onExcess();
      else this.#env.timer(lookMs, () => void look());
    };
    void look();
    return () => {
      isStopped = true;
    };
  }

  async #permit(tenantId: string): Promise<void> {
    if (this.#permits.take(tenantId)) return;
    if (this.#permits.waiting(tenantId) >= waitingMax) throw new SvcError("mailbox_full");
    await new Promise<void>((resolve) => this.#permits.await(tenantId, this.#env.id(), resolve));
  }
}

/** Starts a child process without the environment of svc, which holds secrets. It may read the files of svc only. */
function startChild(): ChildProcess {
  return fork(new URL("./extract-child.ts", import.meta.url), [], {
    env: {},
    execArgv: [
      `--max-old-space-size=${heapMb}`,
      "--permission",
      `--allow-fs-read=${root}`,
      "--import",
      new URL("../../strip-types.js", import.meta.url).href,
    ],
    stdio: ["pipe", "pipe", "ignore", "ipc"],
  });
}
