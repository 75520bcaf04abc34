import { Readable } from "node:stream";
import type { S3Client, S3ClientConfig } from "@aws-sdk/client-s3";
import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { ObjectStore } from "./object-store.ts";
import {
  attemptMs,
  attemptsMax,
  type Bucket,
  noAnswer,
  objectBytesMax,
  RemoteFailure,
  type RemoteSend,
  remoteStore,
  tooLong,
} from "./remote.ts";

// The official client builds and signs requests, and retries them. The requests leave through our own egress, which
// returns whole answers, so a broken transfer is retried as well.

/** A bucket of S3, or of a service with its interface. */
export interface S3Place {
  /** Base URL; empty for AWS in the region. */
  readonly endpoint: string;
  readonly region: string;
  readonly bucket: string;
}

/** Keys that sign requests. */
export interface S3Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string;
  /** When the client must ask again. */
  readonly expiration: Date;
}

/** Sends requests to the bucket and returns the keys that sign them. */
export interface S3Access {
  readonly send: RemoteSend;
  readonly credentials: () => Promise<S3Credentials>;
  readonly close: () => Promise<void>;
}

type Sdk = typeof import("@aws-sdk/client-s3");

/** A request as the client builds it: the path and the signature are already encoded. */
interface SdkRequest {
  readonly method: string;
  readonly protocol: string;
  readonly hostname: string;
  readonly port?: number;
  readonly path: string;
  readonly query?: Readonly<Record<string, string | readonly string[] | null>>;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
}

/** Opens the store of a bucket. The client is loaded at once, because that takes a quarter of a second. */
export function openS3Store(place: S3Place, access: S3Access, env: Pick<Env, "monotonic">): ObjectStore {
  const opened = loadSdk().then((sdk) => ({ sdk, client: clientOf(sdk, place, access) }));
  // The first request reports a failure.
  opened.catch(() => {});
  return remoteStore(bucketOf(place.bucket, opened), env, async () => {
    await access.close();
  });
}

/** Imports the official client. Rejects with a RemoteFailure if the package is not installed. */
export async function loadSdk(): Promise<Sdk> {
  try {
    return await import("@aws-sdk/client-s3");
  } catch (error) {
    const what = "SVC_OBJECT_STORE=s3 needs the optional package @aws-sdk/client-s3, which is not installed";
    throw new RemoteFailure(what, true, { cause: error });
  }
}

function clientOf(sdk: Sdk, { endpoint, region, bucket }: S3Place, { send, credentials }: S3Access): S3Client {
  return new sdk.S3Client({
    region,
    ...(endpoint !== "" && { endpoint }),
    // Other services need no wildcard names then; a bucket with dots would not match the certificate of AWS.
    forcePathStyle: endpoint !== "" || bucket.includes("."),
    credentials,
    // Requests are signed with the digest of their body. Older services refuse further checksums.
    requestChecksumCalculation: "WHEN_REQUIRED",
    responseChecksumValidation: "WHEN_REQUIRED",
    maxAttempts: attemptsMax,
    requestHandler: handlerOf(send),
  });
}

/** The client's interface to HTTP. */
function handlerOf(send: RemoteSend): NonNullable<S3ClientConfig["requestHandler"]> {
  return {
    async handle({ method, protocol, hostname, port, path, query, headers, body }: SdkRequest) {
      const pairs = Object.entries(query ?? {}).flatMap(([name, value]) =>
        [value ?? ""].flat().map((each) => `${escaped(name)}=${escaped(each)}`),
      );
      // The egress sets these, and sends a body without asking first.
      const { host: _h, "content-length": _l, Expect: _e, expect: _f, ...sent } = headers;
      const where = `${protocol}//${hostname}${port === undefined ? "" : `:${port}`}${path}`;
      const answer = await send(
        {
          method,
          url: pairs.length === 0 ? where : `${where}?${pairs.join("&")}`,
          headers: sent,
          body: body ?? null,
          timeoutMs: attemptMs,
        },
        objectBytesMax,
      ).catch((error: unknown) => {
        const failure = noAnswer(error);
        // The client retries errors with this name.
        throw failure.isFinal ? failure : Object.assign(new Error(failure.message), { name: "TimeoutError" });
      });
      if (answer.isCut) throw new RemoteFailure(tooLong);
      const { status: statusCode, headers: received, bytes } = answer;
      return { response: { statusCode, headers: { ...received }, body: Readable.from([bytes]) } };
    },
    updateHttpClientConfig() {},
    httpHandlerConfigs: () => ({}),
  };
}

/** Percent-encodes as the signature demands (RFC 3986). */
function escaped(text: string): string {
  return encodeURIComponent(text).replaceAll(/[!'()*]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`);
}

function bucketOf(Bucket: string, opened: Promise<{ sdk: Sdk; client: S3Client }>): Bucket {
  return {
    async read(Key) {
      const { sdk, client } = await opened;
      try {
        const { Body } = await client.send(new sdk.GetObjectCommand({ Bucket, Key }));
        return Body === undefined ? new Uint8Array() : await Body.transformToByteArray();
      } catch (error) {
        if (statusOf(error) === 404 && nameOf(error) !== "NoSuchBucket") return null;
        throw failureOf(error, "read");
      }
    },
    async write(Key, Body, isNew = false) {
      const { sdk, client } = await opened;
      const condition = isNew && { IfNoneMatch: "*" };
      try {
        await client.send(new sdk.PutObjectCommand({ Bucket, Key, Body, ...condition }));
        return true;
      } catch (error) {
        // 409: another conditional write is in progress.
        if (isNew && (statusOf(error) === 412 || statusOf(error) === 409)) return false;
        throw failureOf(error, "write");
      }
    },
    async remove(Key) {
      const { sdk, client } = await opened;
      try {
        await client.send(new sdk.DeleteObjectCommand({ Bucket, Key }));
      } catch (error) {
        if (statusOf(error) === 404 && nameOf(error) !== "NoSuchBucket") return;
        throw failureOf(error, "delete");
      }
    },
    async list(Prefix, MaxKeys, StartAfter) {
      const { sdk, client } = await opened;
      try {
        const { Contents = [], IsTruncated = false } = await client.send(
          // Names that XML cannot contain are escaped.
          new sdk.ListObjectsV2Command({ Bucket, Prefix, MaxKeys, StartAfter, EncodingType: "url" }),
        );
        return { names: Contents.map(({ Key = "" }) => unescaped(Key)), isEnd: !IsTruncated };
      } catch (error) {
        throw failureOf(error, "list");
      }
    },
  };
}

function unescaped(name: string): string {
  try {
    return decodeURIComponent(name.replaceAll("+", " "));
  } catch {
    return name;
  }
}

/** Returns an error without the fields of the client's, which repeat the request and its signature. */
function failureOf(error: unknown, action: string): Error {
  if (error instanceof RemoteFailure || error instanceof SvcError) return error;
  const status = statusOf(error);
  if (status === undefined) return new RemoteFailure((error as Error).message);
  return new RemoteFailure(`the object store refused to ${action}: ${status} ${nameOf(error)}`);
}

function statusOf(error: unknown): number | undefined {
  return (error as { $metadata?: { httpStatusCode?: number } }).$metadata?.httpStatusCode;
}

function nameOf(error: unknown): string {
  const name = (error as Error).name;
  return /^[A-Za-z0-9_.]{1,64}$/.test(name) ? name : "";
}
