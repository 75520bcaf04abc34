import { type Env, systemEnv } from "../../bus/env.ts";
import { openObjects } from "../../governance/objects/open-objects.ts";
import { SecretMask, Secrets } from "../../governance/secret-mask.ts";
import { type Environment, loadSettings } from "../../governance/settings/settings.ts";
import type { ObjectStore } from "../../storage/objects/object-store.ts";
import { type GcsServer, gcsBucket } from "./gcs-server.ts";
import { s3Bucket, s3Key, s3Region } from "./s3-server.ts";
import type { Cleanup } from "./temp.ts";

/** The settings of a store in the bucket of a stand-in for S3. */
export function s3Settings(url: string): Environment {
  return {
    SVC_OBJECT_STORE: "s3",
    SVC_S3_ENDPOINT: url,
    SVC_S3_REGION: s3Region,
    SVC_S3_BUCKET: s3Bucket,
    SVC_S3_ACCESS_KEY: s3Key.id,
    SVC_S3_SECRET_KEY: s3Key.secret,
  };
}

/** The settings of a store in the bucket of a stand-in for Google Cloud Storage. */
export function gcsSettings({ url, credentials }: GcsServer): Environment {
  return {
    SVC_OBJECT_STORE: "gcs",
    SVC_GCS_ENDPOINT: url,
    SVC_GCS_BUCKET: gcsBucket,
    SVC_GCS_CREDENTIALS: credentials,
    SVC_ENVIRONMENT: "development",
    SVC_ALLOW_INSECURE: "true",
  };
}

/** Opens the object store of an environment as a server does. */
export function openBucket(environment: Environment, atEnd: Cleanup, env: Env = systemEnv()): ObjectStore {
  const settings = loadSettings(environment);
  const store = openObjects(settings, env, new Secrets(settings, new SecretMask([])));
  atEnd.after(() => store.close());
  return store;
}
