import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { checkKey, checkPrefix, isKey } from "./keys.ts";
import type { ObjectStore } from "./object-store.ts";

// The common part of the stores over a network. svc keeps whole objects in memory, so each is limited in bytes. Names that
// begin with `+` are no keys: they hold the id of the store and the object of its check.

/** Max bytes of one object, and of any other answer. */
export const objectBytesMax = 64 * 1024 * 1024;
/** Max time of one attempt, with the transfer of the object. */
export const attemptMs = 20_000;
/** Max attempts of a request that is not refused. */
export const attemptsMax = 3;

/** A request to the service of a bucket. */
export interface RemoteRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array | null;
  readonly timeoutMs: number;
}

/** The whole answer to a request. */
export interface RemoteAnswer {
  readonly status: number;
  /** In lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly bytes: Uint8Array;
  /** True if the answer was longer than the limit. */
  readonly isCut: boolean;
}

/** Sends a request, and reads at most `bytesMax` bytes of the answer. Rejects if there is no whole answer. */
export type RemoteSend = (request: RemoteRequest, bytesMax: number) => Promise<RemoteAnswer>;

/** A service that stores objects by name. Its methods reject with any error if the service fails. */
export interface Bucket {
  read(name: string): Promise<Uint8Array | null>;
  /** Writes an object. With `isNew` it writes none if there is one already, and returns false. */
  write(name: string, bytes: Uint8Array, isNew?: boolean): Promise<boolean>;
  /** Deletes an object; an absent one is not an error. */
  remove(name: string): Promise<void>;
  /** Returns up to about `limit` names after `after`, in order, and whether there may be more. */
  list(
    prefix: string,
    limit: number,
    after: string,
  ): Promise<{ readonly names: readonly string[]; readonly isEnd: boolean }>;
}

/** A failure of the service, in words that contain no part of a request. */
export class RemoteFailure extends Error {
  override readonly name = "RemoteFailure";
  /** True if another attempt would fail too. */
  readonly isFinal: boolean;

  constructor(message: string, isFinal = false, options: ErrorOptions = {}) {
    super(message, options);
    this.isFinal = isFinal;
  }
}

const idName = "+id";
const checkName = "+check";
/** Max names of one request for a list, a limit of both services. */
const namesMax = 1_000;
/** Min time between two writes of the check. */
const checkWriteMs = 60_000;

/** Returns the store of objects in a bucket. */
export function remoteStore(bucket: Bucket, env: Pick<Env, "monotonic">, close: () => Promise<void>): ObjectStore {
  let checkedAt = Number.NEGATIVE_INFINITY;
  return {
    async get(key) {
      checkKey(key);
      return refusing(bucket.read(key));
    },
    async put(key, bytes) {
      checkKey(key);
      if (bytes.length > objectBytesMax) throw unavailable(new RemoteFailure(tooLong));
      await refusing(bucket.write(key, bytes));
    },
    async delete(key) {
      checkKey(key);
      await refusing(bucket.remove(key));
    },
    async list(prefix, limit, after = "") {
      checkPrefix(prefix);
      return refusing(listKeys(bucket, prefix, limit, after));
    },
    async check() {
      const now = env.monotonic();
      const isWritten = now - checkedAt >= checkWriteMs;
      if (isWritten) await refusing(bucket.write(checkName, new Uint8Array(1)));
      if ((await refusing(bucket.read(checkName))) === null)
        throw unavailable(new RemoteFailure("the object of the check is missing"));
      if (isWritten) checkedAt = now;
    },
    identify: (fresh) => refusing(identifyBucket(bucket, fresh)),
    close,
  };
}

/** Returns up to `limit` keys; names that are no keys are not listed. */
async function listKeys(bucket: Bucket, prefix: string, limit: number, after: string): Promise<string[]> {
  const keys: string[] = [];
  for (let from = after; keys.length < limit; ) {
    const { names, isEnd } = await bucket.list(prefix, Math.min(limit - keys.length, namesMax), from);
    // Both services list by the bytes of the names, which is the order of the characters of keys.
    keys.push(...names.filter((name) => name > from && isKey(name)));
    const last = names.at(-1);
    if (isEnd || last === undefined || last <= from) break;
    from = last;
  }
  return keys.slice(0, limit);
}

/** The first of several processes writes the id, and all return it. */
async function identifyBucket(bucket: Bucket, fresh: string): Promise<string> {
  const found = await bucket.read(idName);
  if (found !== null) return textOf(found);
  if (await bucket.write(idName, Buffer.from(`${fresh}\n`), true)) return fresh;
  const theirs = await bucket.read(idName);
  if (theirs === null) throw new RemoteFailure("the id of the store was deleted");
  return textOf(theirs);
}

function textOf(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString().trim();
}

/** The message for an object over the limit. */
export const tooLong = `an object is longer than ${objectBytesMax / 1024 / 1024} MiB`;

/** Returns the failure of a request that has no answer. Its message is that of the connection, without the URL. */
export function noAnswer(error: unknown): RemoteFailure {
  if (error instanceof RemoteFailure) return error;
  const message = error instanceof Error ? error.message : String(error);
  // A forbidden address stays forbidden.
  const isFinal = (error as { code?: unknown }).code === "egress_blocked";
  return new RemoteFailure(`the object store does not answer: ${message}`, isFinal);
}

/** Maps a failure of the service to a refusal. */
async function refusing<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw error instanceof SvcError ? error : unavailable(error);
  }
}

function unavailable(cause: unknown): SvcError {
  return new SvcError("storage_unavailable", {}, { cause });
}
