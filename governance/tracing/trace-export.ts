import { Worker } from "node:worker_threads";
import type { Logger } from "pino";
import type { Env, Timer } from "../../bus/env.ts";
import type { Metrics } from "../metrics.ts";
import type { Settings } from "../settings/settings.ts";
import type { SpansSent } from "./otlp-worker.ts";
import type { SpanBatch, SpanRecord } from "./tracer.ts";

/** The parts of the process that the export needs. */
interface ExportOptions {
  readonly settings: Settings;
  readonly version: string;
  /** Identifies the process. */
  readonly instance: string;
  readonly env: Env;
  readonly log: Logger;
  readonly metrics: Pick<Metrics, "count">;
  /** Returns the spans of all threads since the last call. */
  gather(): Promise<readonly SpanBatch[]>;
}

const everyMs = 1_000;
/** Max spans of the process that wait for the collector. */
const waitingMax = 2_048;
/** Max wait for the last spans at the end of the process. */
const lastMs = 2_000;

/** Gathers the spans of all threads, and has one thread encode and send them. */
export class TraceExport {
  readonly #options: ExportOptions;
  readonly #worker: Worker;
  /** Numbers of the spans in batches that were not answered yet. */
  readonly #sending = new Map<number, number>();
  #number = 0;
  #timer: Timer | null = null;
  #isDown = false;
  #onSent: (() => void) | null = null;

  constructor(options: ExportOptions) {
    this.#options = options;
    const { settings, version, instance, log } = options;
    this.#worker = new Worker(new URL("./otlp-worker.ts", import.meta.url), {
      name: "traces",
      workerData: { settings, version, instance },
      execArgv: ["--import", new URL("../../strip-types.js", import.meta.url).href],
    });
    this.#worker.unref();
    this.#worker.on("message", (sent: SpansSent) => this.#sent(sent));
    // Without its thread the process continues, and its spans are dropped.
    this.#worker.on("error", (error) => log.error({ err: error }, "the thread that sends traces failed"));
    this.#schedule();
  }

  /** Sends the last spans and ends the thread. */
  async close(): Promise<void> {
    this.#timer?.cancel();
    this.#timer = null;
    await this.#round().catch(() => {});
    if (this.#sending.size > 0)
      await new Promise<void>((resolve) => {
        this.#onSent = () => (this.#sending.size === 0 ? resolve() : undefined);
        this.#options.env.timer(lastMs, resolve);
      });
    await this.#worker.terminate();
  }

  #schedule(): void {
    this.#timer = this.#options.env.timer(everyMs, () => {
      void this.#round()
        .catch((error: unknown) => this.#options.log.warn({ err: error }, "spans could not be gathered"))
        .then(() => this.#timer !== null && this.#schedule());
    });
  }

  async #round(): Promise<void> {
    const batches = await this.#options.gather();
    const dropped = batches.reduce((sum, batch) => sum + batch.dropped, 0);
    const spans: SpanRecord[] = batches.flatMap((batch) => batch.spans);
    const waiting = [...this.#sending.values()].reduce((sum, count) => sum + count, 0);
    const room = Math.max(0, waitingMax - waiting);
    this.#count("dropped", dropped + Math.max(0, spans.length - room));
    const sent = spans.slice(0, room);
    if (sent.length === 0) return;
    const number = this.#number++;
    this.#sending.set(number, sent.length);
    this.#worker.postMessage({ number, spans: sent });
  }

  #sent({ number, failure }: SpansSent): void {
    const count = this.#sending.get(number) ?? 0;
    this.#sending.delete(number);
    this.#count(failure === null ? "sent" : "failed", count);
    const { log } = this.#options;
    if (failure !== null && !this.#isDown)
      log.warn({ reason: failure }, "the collector of traces cannot be reached; spans are dropped");
    if (failure === null && this.#isDown) log.info("the collector of traces takes spans again");
    this.#isDown = failure !== null;
    this.#onSent?.();
  }

  #count(outcome: "sent" | "failed" | "dropped", count: number): void {
    if (count > 0) this.#options.metrics.count("svc_trace_spans_total", { outcome }, count);
  }
}
