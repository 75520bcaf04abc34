import { type ChildProcess, fork } from "node:child_process";
import type { Env } from "../../../bus/env.ts";
import { FairSemaphore } from "../../../bus/queues/fair-semaphore.ts";
import { framed, unframed } from "../../../governance/processes/byte-frames.ts";
import type { ToolErrorCode } from "../tool.ts";
import { type ImageFacts, type ImageOutcome, type ImageWork, resultBytesMax, workSeconds } from "./image-work.ts";

/** Concurrent child processes of one thread of svc, and of one tenant there. */
const childrenMax = 2;
const ofTenantMax = 1;
/** Later than the limit of the library: ends a process whose native code hangs. */
const killMs = (workSeconds + 5) * 1000;
/** A result with its header. */
const outputMax = resultBytesMax + 4096;

/** The work has no result; the message is for the model. */
export class ImageFailure extends Error {
  override readonly name = "ImageFailure";
  readonly code: ToolErrorCode;

  constructor(code: ToolErrorCode, message: string) {
    super(message);
    this.code = code;
  }
}

/** Works on images, each in a child process of its own (decision 175). The image library is loaded only there. */
export class ImageProcesses {
  readonly #env: Pick<Env, "timer" | "id">;
  readonly #permits = new FairSemaphore(childrenMax, ofTenantMax);

  constructor(env: Pick<Env, "timer" | "id">) {
    this.#env = env;
  }

  /**
   * Returns the facts of the result, and its bytes; empty for `info`. Throws ImageFailure if there is none. `load` reads the image
   * when its turn comes, so that waiting calls hold no bytes.
   */
  async run(
    tenantId: string,
    work: ImageWork,
    load: () => Promise<Uint8Array>,
    signal: AbortSignal,
  ): Promise<ImageFacts & { bytes: Buffer }> {
    await this.#permit(tenantId);
    try {
      refuseAborted(signal);
      const given = await load();
      refuseAborted(signal);
      const frame = await this.#ask(framed(work, given), signal);
      const { header, bytes: result } = unframed<ImageOutcome>(frame);
      if ("refused" in header) throw new ImageFailure("invalid_arguments", header.refused);
      return { ...header, bytes: result };
    } finally {
      this.#permits.free(tenantId);
    }
  }

  /** Sends a frame to a new child process and returns its answer. */
  #ask(frame: Buffer, signal: AbortSignal): Promise<Buffer> {
    const child = startChild();
    const parts: Buffer[] = [];
    let total = 0;
    const kill = (): void => void child.kill("SIGKILL");
    const timer = this.#env.timer(killMs, kill);
    signal.addEventListener("abort", kill);
    return new Promise<Buffer>((resolve, reject) => {
      child.stdout?.on("data", (part: Buffer) => {
        total += part.length;
        if (total > outputMax) kill();
        else parts.push(part);
      });
      child.on("error", () => reject(new ImageFailure("transport_unavailable", "the image process could not start")));
      child.on("close", (code) => {
        if (code === 0 && total <= outputMax) resolve(Buffer.concat(parts));
        else if (signal.aborted) reject(new ImageFailure("interrupted", "the call was given up"));
        else reject(new ImageFailure("provider_error", "the image library failed on this image"));
      });
      // A process that ends early does not read everything.
      child.stdin?.on("error", () => {});
      child.stdin?.end(frame);
    }).finally(() => {
      timer.cancel();
      signal.removeEventListener("abort", kill);
    });
  }

  #permit(tenantId: string): Promise<void> {
    if (this.#permits.take(tenantId)) return Promise.resolve();
    return new Promise((resolve) => this.#permits.await(tenantId, this.#env.id(), resolve));
  }
}

function refuseAborted(signal: AbortSignal): void {
  if (signal.aborted) throw new ImageFailure("interrupted", "the call was given up");
}

/** Starts a child process without the environment of svc, which holds secrets. */
function startChild(): ChildProcess {
  return fork(new URL("./image-child.ts", import.meta.url), [], {
    env: {},
    execArgv: ["--max-old-space-size=128", "--import", new URL("../../../strip-types.js", import.meta.url).href],
    stdio: ["pipe", "pipe", "ignore", "ipc"],
  });
}
