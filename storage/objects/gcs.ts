import type { Env } from "../../bus/env.ts";
import type { ObjectStore } from "./object-store.ts";
import {
  attemptMs,
  attemptsMax,
  type Bucket,
  noAnswer,
  objectBytesMax,
  type RemoteAnswer,
  RemoteFailure,
  type RemoteRequest,
  type RemoteSend,
  remoteStore,
  tooLong,
} from "./remote.ts";

// Uses the JSON API: https://cloud.google.com/storage/docs/json_api/v1

/** A bucket of Google Cloud Storage. */
export interface GcsPlace {
  readonly endpoint: string;
  readonly bucket: string;
}

/** A token that authorizes requests. */
export interface AccessToken {
  readonly text: string;
  readonly livesMs: number;
}

/** Sends requests to the bucket and fetches their tokens. */
export interface GcsAccess {
  readonly send: RemoteSend;
  readonly token: () => Promise<AccessToken>;
  readonly close: () => Promise<void>;
}

/** Time before the end of a token at which a new one is requested. */
const renewMs = 60_000;
/** Wait before the second attempt; each later one waits twice as long. */
const backOffMs = 200;

/** Opens the store of a bucket. */
export function openGcsStore(
  place: GcsPlace,
  access: GcsAccess,
  env: Pick<Env, "monotonic" | "timer" | "random">,
): ObjectStore {
  return remoteStore(bucketOf(place, access, env), env, access.close);
}

function bucketOf(
  { endpoint, bucket }: GcsPlace,
  { send, token }: GcsAccess,
  env: Pick<Env, "monotonic" | "timer" | "random">,
): Bucket {
  const objects = `/storage/v1/b/${encodeURIComponent(bucket)}/o`;
  const tokens = new Tokens(token, env);

  /** Sends a request, and repeats it after failures that may pass. Every request here may be repeated. */
  async function ask(
    method: string,
    path: string,
    query: Readonly<Record<string, string>>,
    body: Uint8Array | null = null,
  ): Promise<RemoteAnswer> {
    const url = `${endpoint}${path}?${new URLSearchParams(query)}`;
    for (let attempt = 1; ; attempt++) {
      const headers: Record<string, string> = { authorization: `Bearer ${await tokens.get()}` };
      if (body !== null) headers["content-type"] = "application/octet-stream";
      const answer = await once(send, { method, url, headers, body, timeoutMs: attemptMs });
      if (answer instanceof RemoteFailure) {
        if (attempt === attemptsMax || answer.isFinal) throw answer;
      } else {
        const { status } = answer;
        // A token may be revoked before its end.
        if (status === 401) tokens.drop();
        const isPassing = status === 401 || status === 408 || status === 429 || status >= 500;
        if (!isPassing || attempt === attemptsMax) return answer;
      }
      const ms = backOffMs * 2 ** (attempt - 1) * (0.5 + env.random());
      await new Promise<void>((resolve) => env.timer(ms, resolve));
    }
  }

  return {
    async read(name) {
      const answer = await ask("GET", `${objects}/${encodeURIComponent(name)}`, { alt: "media" });
      if (answer.status === 404 && !isNoBucket(answer)) return null;
      return of(answer, "read").bytes;
    },
    async write(name, bytes, isNew = false) {
      const condition = isNew && { ifGenerationMatch: "0" };
      const answer = await ask("POST", `/upload${objects}`, { uploadType: "media", name, ...condition }, bytes);
      if (isNew && answer.status === 412) return false;
      of(answer, "write");
      return true;
    },
    async remove(name) {
      const answer = await ask("DELETE", `${objects}/${encodeURIComponent(name)}`, {});
      if (answer.status !== 404 || isNoBucket(answer)) of(answer, "delete");
    },
    async list(prefix, limit, after) {
      const names: string[] = [];
      let pageToken = "";
      // A page may be empty although there are more.
      do {
        const answer = await ask("GET", objects, {
          prefix,
          // Begins with this name itself, which the caller leaves out.
          startOffset: after,
          maxResults: String(limit + 1),
          fields: "items(name),nextPageToken",
          ...(pageToken !== "" && { pageToken }),
        });
        const page = listOf(of(answer, "list"));
        names.push(...page.names);
        pageToken = page.next;
      } while (pageToken !== "" && names.length <= limit);
      return { names, isEnd: pageToken === "" };
    },
  };
}

async function once(send: RemoteSend, request: RemoteRequest): Promise<RemoteAnswer | RemoteFailure> {
  try {
    const answer = await send(request, objectBytesMax);
    return answer.isCut ? new RemoteFailure(tooLong, true) : answer;
  } catch (error) {
    return noAnswer(error);
  }
}

/** Returns an answer of success. Throws for any other one, without its text, which may repeat the request. */
function of(answer: RemoteAnswer, action: string): RemoteAnswer {
  if (answer.status >= 200 && answer.status < 300) return answer;
  throw new RemoteFailure(`the object store refused to ${action}: ${answer.status} ${reasonOf(answer)}`.trimEnd());
}

/** The word for the reason of an error, such as forbidden. */
function reasonOf({ bytes }: RemoteAnswer): string {
  const { error } = jsonOf(bytes) as { error?: { errors?: { reason?: unknown }[] } };
  const reason = error?.errors?.[0]?.reason;
  return typeof reason === "string" && /^[A-Za-z0-9_.]{1,64}$/.test(reason) ? reason : "";
}

/** A missing bucket and a missing object differ only in the message. */
function isNoBucket({ bytes }: RemoteAnswer): boolean {
  const { error } = jsonOf(bytes) as { error?: { message?: unknown } };
  return typeof error?.message === "string" && /bucket does not exist/i.test(error.message);
}

function listOf({ bytes }: RemoteAnswer): { names: string[]; next: string } {
  const { items = [], nextPageToken = "" } = jsonOf(bytes) as { items?: { name?: unknown }[]; nextPageToken?: unknown };
  if (!Array.isArray(items) || typeof nextPageToken !== "string")
    throw new RemoteFailure("the object store answered with an unknown list");
  return { names: items.flatMap(({ name }) => (typeof name === "string" ? [name] : [])), next: nextPageToken };
}

function jsonOf(bytes: Uint8Array): object {
  try {
    const value: unknown = JSON.parse(Buffer.from(bytes).toString());
    return typeof value === "object" && value !== null ? value : {};
  } catch {
    return {};
  }
}

/** Keeps a token until shortly before its end. Concurrent requests share one fetch. */
class Tokens {
  readonly #request: () => Promise<AccessToken>;
  readonly #env: Pick<Env, "monotonic">;
  #current: Promise<string> | null = null;
  #until = 0;

  constructor(request: () => Promise<AccessToken>, env: Pick<Env, "monotonic">) {
    this.#request = request;
    this.#env = env;
  }

  async get(): Promise<string> {
    if (this.#current !== null && this.#env.monotonic() < this.#until) return this.#current;
    this.#until = Number.POSITIVE_INFINITY;
    const requested = this.#request().then(({ text, livesMs }) => {
      this.#until = this.#env.monotonic() + livesMs - renewMs;
      return text;
    });
    this.#current = requested;
    requested.catch(() => {
      if (this.#current === requested) this.#current = null;
    });
    return requested;
  }

  drop(): void {
    this.#current = null;
  }
}
