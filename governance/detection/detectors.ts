import type { Logger } from "pino";
import { breathe, type Env } from "../../bus/env.ts";
import type { ComputePool } from "../compute/compute-pool.ts";
import { loadRedactor } from "./load-redactor.ts";
import { redactText } from "./redact-task.ts";
import type { Redaction, Redactor } from "./redactor.ts";

/** Longer texts are redacted in the compute pool. */
const inlineMax = 16 * 1024;
/** Characters between two pauses of the event loop. */
const sliceMax = 2 * 1024;

/** The environment of the detectors. */
interface DetectorDeps {
  /** URLs of the modules with detectors, from plugins. */
  readonly files: readonly string[];
  readonly env: Pick<Env, "defer">;
  readonly compute: Pick<ComputePool, "run">;
  readonly log: Pick<Logger, "warn" | "error">;
}

/** Finds personal data. The detectors load with the first text. */
export class Detectors {
  readonly #deps: DetectorDeps;
  #files: readonly string[];
  #loading: Promise<Redactor> | null = null;
  #redactor: Redactor | null = null;

  constructor(deps: DetectorDeps) {
    this.#deps = deps;
    this.#files = deps.files;
  }

  /** `patterns` without detectors of a plugin: then only e-mail addresses, card numbers and phone numbers are found. */
  get engine(): "pii" | "patterns" {
    return this.#files.length === 0 ? "patterns" : "pii";
  }

  /** The loaded detectors; null before the first text. */
  get loaded(): Redactor | null {
    return this.#redactor;
  }

  /** Redacts a text of any length without blocking the event loop. */
  async redact(text: string): Promise<Redaction> {
    const redactor = await this.load();
    if (text.length > inlineMax) {
      try {
        return await this.#deps.compute.run(redactText, { text, files: this.#files });
      } catch (error) {
        this.#deps.log.warn(
          { cause: String(error) },
          "a long text is redacted in slices, because the compute pool failed",
        );
      }
    }
    if (text.length <= sliceMax) return redactor.redact(text);
    const stream = redactor.stream();
    let shown = "";
    for (let at = 0; at < text.length; at += sliceMax) {
      if (at > 0) await breathe(this.#deps.env);
      shown += stream.take(text.slice(at, at + sliceMax));
    }
    return { text: shown + stream.end(), found: stream.found };
  }

  /** Loads the detectors, once. */
  load(): Promise<Redactor> {
    this.#loading ??= this.#loadOnce();
    return this.#loading;
  }

  async #loadOnce(): Promise<Redactor> {
    const { log } = this.#deps;
    if (this.#files.length === 0)
      log.warn({}, "guardrails find e-mail addresses, card numbers and phone numbers only: SVC_PII_DETECTORS is false");
    this.#redactor = await loadRedactor(this.#files).catch((err: unknown) => {
      log.error({ err }, "detectors of a plugin could not be loaded; guardrails use three patterns");
      this.#files = [];
      return loadRedactor([]);
    });
    return this.#redactor;
  }
}
