import { oneOf, path, text, url } from "./setting.ts";

/** Settings of the object store. */
export const objectSettings = {
  objectStore: oneOf(
    "OBJECT_STORE",
    ["fs", "s3", "gcs", "memory"],
    "fs",
    "Where objects are stored; memory loses them at the end, and accepts no files of callers and tools.",
  ),
  objectStorePath: path("OBJECT_STORE_PATH", "", "The directory of the fs object store.", {
    defaultWords: "SVC_DATA_DIR/objects",
  }),
  s3Bucket: bucket("S3_BUCKET", "The bucket of the s3 object store; it should hold nothing else."),
  s3Endpoint: url("S3_ENDPOINT", "Base URL of a service with the interface of S3; empty for AWS in the region."),
  s3Region: text("S3_REGION", "us-east-1", "Region of the bucket, which requests are signed for.", {
    pattern: /^[a-z0-9-]{1,64}$/i,
    reason: "must be the name of a region, such as us-east-1",
  }),
  s3AccessKey: text(
    "S3_ACCESS_KEY",
    "",
    "Id of the key for the bucket; a literal or secret:NAME. Empty for the role of the instance.",
    { secret: true },
  ),
  s3SecretKey: text("S3_SECRET_KEY", "", "The secret part of the key; a literal or secret:NAME.", { secret: true }),
  gcsBucket: bucket("GCS_BUCKET", "The bucket of the gcs object store; it should hold nothing else."),
  gcsEndpoint: {
    ...url("GCS_ENDPOINT", "Base URL of Google Cloud Storage."),
    default: "https://storage.googleapis.com",
  },
  gcsCredentials: text(
    "GCS_CREDENTIALS",
    "",
    "Key of a service account, the JSON itself or secret:NAME. Empty for the service account of the instance.",
    { secret: true, item: readGcsCredentials },
  ),
};

function bucket(name: string, help: string) {
  return text(name, "", help, {
    pattern: /^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$/,
    reason: "must be the name of a bucket, in lower case",
  });
}

/** A key that signs requests for tokens. */
export interface ServiceAccountKey {
  readonly client_email: string;
  readonly private_key: string;
  readonly private_key_id: string | null;
  readonly token_uri: string;
}

/** Parses the key of a service account. Throws an error that repeats no part of it. */
export function readServiceAccountKey(text: string): ServiceAccountKey {
  let found: Record<string, unknown> = {};
  try {
    found = JSON.parse(text) as Record<string, unknown>;
  } catch {
    throw new Error("must be secret:NAME, or the JSON of a service account's key, and not a file name");
  }
  const {
    type,
    client_email,
    private_key,
    private_key_id,
    token_uri = "https://oauth2.googleapis.com/token",
  } = found ?? {};
  if (type !== "service_account") throw new Error("must be the key of a service account, with type service_account");
  if (typeof client_email !== "string" || typeof private_key !== "string" || !private_key.includes("PRIVATE KEY"))
    throw new Error("must have client_email and private_key");
  if (typeof token_uri !== "string" || !/^https?:$/.test(URL.parse(token_uri)?.protocol ?? ""))
    throw new Error("must have a URL as its token_uri");
  const id = typeof private_key_id === "string" ? private_key_id : null;
  return { client_email, private_key, private_key_id: id, token_uri };
}

function readGcsCredentials(value: string): string {
  if (!value.startsWith("secret:")) readServiceAccountKey(value);
  return value;
}
