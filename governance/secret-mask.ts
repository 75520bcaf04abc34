import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { join } from "node:path";
import { SvcError } from "../bus/errors.ts";
import { isGuessable } from "./secrets/guessable.ts";
import { Masking } from "./secrets/masking.ts";
import { ValueScanner } from "./secrets/value-scanner.ts";
import type { Settings } from "./settings/settings.ts";

const reference = "secret:";
/** Longer files are no secrets. */
const fileBytesMax = 64 * 1024;

/** Looks up what `secret:NAME` stands for. */
export class Secrets {
  readonly #settings: Settings;
  readonly #mask: SecretMask;

  /** What is looked up in files is masked from then on; the rest is masked from the start. */
  constructor(settings: Settings, mask: SecretMask) {
    this.#settings = settings;
    this.#mask = mask;
  }

  /** The secret that `text` refers to, or `text` itself when it is no reference. Refuses with unresolved_secret. */
  async resolve(text: string): Promise<string> {
    if (!text.startsWith(reference)) return text;
    const name = text.slice(reference.length);
    const value = isSecretName(name) ? await this.#lookUp(name) : undefined;
    if (value === undefined || value === "") throw new SvcError("unresolved_secret", { subject: name });
    return value;
  }

  async #lookUp(name: string): Promise<string | undefined> {
    const { secretsBackend, secrets, secretsDir } = this.#settings;
    if (secretsBackend === "env") return Object.hasOwn(secrets, name) ? secrets[name] : undefined;
    const value = await readSecretFile(join(secretsDir, name));
    if (value) this.#mask.add(value);
    return value;
  }
}

/** Whether a text may name a secret: one segment of a path, and most of what an environment variable may be called. */
function isSecretName(name: string): boolean {
  return /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/.test(name);
}

/** The file without the line break that editors put at its end; undefined when there is none or it is not an ordinary file. */
async function readSecretFile(path: string): Promise<string | undefined> {
  let file: FileHandle | undefined;
  try {
    // Opening a named pipe would otherwise wait for its writer.
    file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const stat = await file.stat();
    if (!stat.isFile() || stat.size > fileBytesMax) return undefined;
    return (await file.readFile("utf8")).replace(/\r?\n$/, "");
  } catch {
    return undefined;
  } finally {
    await file?.close();
  }
}

/**
 * Hides secrets. Who reads the masked text decides which: a mask over what callers can write and read again would tell them which
 * guess of a secret is right (decision 77).
 */
export class SecretMask {
  readonly #every = new Set<string>();
  readonly #unguessable = new Set<string>();
  #told!: Masking;
  #recorded!: Masking;
  /** For what a caller wrote itself and gets back: hides whatever has the form of a credential, and no secret that is known. */
  readonly forms = new Masking(new ValueScanner([]));

  constructor(values: Iterable<string>) {
    for (const value of values) this.#learn(value);
    this.#prepare();
  }

  /** For answers, frames, conversations and models: hides the secrets that nobody comes by through guessing. */
  get told(): Masking {
    return this.#told;
  }

  /** For audit rows, log lines and the operator's terminal: hides every secret of at least eight characters. */
  get recorded(): Masking {
    return this.#recorded;
  }

  /** Hides one more text from now on. */
  add(value: string): void {
    if (this.#every.has(value)) return;
    this.#learn(value);
    this.#prepare();
  }

  /** A secret, and the ways in which it is spelled inside JSON text and URLs. */
  #learn(value: string): void {
    const spelled = [value, value.trim(), JSON.stringify(value).slice(1, -1)];
    if (value.isWellFormed()) spelled.push(encodeURIComponent(value));
    const guessable = isGuessable(value);
    for (const text of spelled) {
      this.#every.add(text);
      if (!guessable) this.#unguessable.add(text);
    }
  }

  #prepare(): void {
    this.#told = new Masking(new ValueScanner(this.#unguessable));
    this.#recorded = new Masking(new ValueScanner(this.#every));
  }
}
