import { constants, readFileSync, statSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { join } from "node:path";
import { SvcError } from "../bus/errors.ts";
import { isGuessable } from "./secrets/guessable.ts";
import { Masking } from "./secrets/masking.ts";
import { ValueScanner } from "./secrets/value-scanner.ts";
import type { Settings } from "./settings/settings.ts";

const reference = "secret:";
/** Larger files are not read. */
const fileBytesMax = 64 * 1024;

/** Resolves `secret:NAME` references. */
export class Secrets {
  readonly #settings: Settings;
  readonly #mask: SecretMask;

  /** Secrets from files are added to the mask when they are read; those of the environment are masked from the start. */
  constructor(settings: Settings, mask: SecretMask) {
    this.#settings = settings;
    this.#mask = mask;
  }

  /** Returns the secret that `text` refers to, or `text` itself if it is not a reference. Refuses with unresolved_secret. */
  async resolve(text: string): Promise<string> {
    if (!text.startsWith(reference)) return text;
    const name = text.slice(reference.length);
    const value = isSecretName(name) ? await this.#lookUp(name) : undefined;
    if (value === undefined || value === "") throw new SvcError("unresolved_secret", { subject: name });
    return value;
  }

  /** Returns whether a reference can be resolved now, and what it resolves to; null if it cannot. Reads a file in this turn. */
  find(text: string): string | null {
    if (!text.startsWith(reference)) return text;
    const name = text.slice(reference.length);
    const { secretsBackend, secrets, secretsDir } = this.#settings;
    if (!isSecretName(name)) return null;
    if (secretsBackend === "env") return (Object.hasOwn(secrets, name) ? secrets[name] : null) || null;
    try {
      const path = join(secretsDir, name);
      const stat = statSync(path);
      if (!stat.isFile() || stat.size > fileBytesMax) return null;
      const value = readFileSync(path, "utf8").replace(/\r?\n$/, "");
      if (value !== "") this.#mask.add(value);
      return value || null;
    } catch {
      return null;
    }
  }

  async #lookUp(name: string): Promise<string | undefined> {
    const { secretsBackend, secrets, secretsDir } = this.#settings;
    if (secretsBackend === "env") return Object.hasOwn(secrets, name) ? secrets[name] : undefined;
    const value = await readSecretFile(join(secretsDir, name));
    if (value) this.#mask.add(value);
    return value;
  }
}

/** True if the name is a single path segment of at most 128 characters. */
function isSecretName(name: string): boolean {
  return /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/.test(name);
}

/** Returns the file without its final line break; undefined if it is missing or not a regular file. */
async function readSecretFile(path: string): Promise<string | undefined> {
  let file: FileHandle | undefined;
  try {
    // Without O_NONBLOCK, opening a named pipe would wait for its writer.
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
 * Masks secrets. The reader of the text decides which ones: a mask over text that a caller wrote and reads again would confirm a
 * guessed secret (decision 77).
 */
export class SecretMask {
  readonly #every = new Set<string>();
  readonly #unguessable = new Set<string>();
  #sent!: Masking;
  #recorded!: Masking;
  /** For text that a caller wrote and reads again: masks everything in the form of a credential, but no known secret. */
  readonly forms = new Masking(new ValueScanner([]));

  constructor(values: Iterable<string>) {
    for (const value of values) this.#learn(value);
    this.#prepare();
  }

  /** For replies, frames, threads and models: masks the secrets that cannot be guessed. */
  get sent(): Masking {
    return this.#sent;
  }

  /** For audit rows, log lines and the operator's terminal: masks every secret of at least eight characters. */
  get recorded(): Masking {
    return this.#recorded;
  }

  /** Adds a secret. */
  add(value: string): void {
    if (this.#every.has(value)) return;
    this.#learn(value);
    this.#prepare();
  }

  /** Adds a secret and its spellings inside JSON text and URLs. */
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
    this.#sent = new Masking(new ValueScanner(this.#unguessable));
    this.#recorded = new Masking(new ValueScanner(this.#every));
  }
}
