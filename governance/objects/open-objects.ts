import { existsSync } from "node:fs";
import type { Env } from "../../bus/env.ts";
import type { GcsAccess } from "../../storage/objects/gcs.ts";
import type { ObjectStore } from "../../storage/objects/object-store.ts";
import { openObjectStore } from "../../storage/objects/open.ts";
import { RemoteFailure, type RemoteSend } from "../../storage/objects/remote.ts";
import type { S3Access } from "../../storage/objects/s3.ts";
import { Outgoing } from "../egress/outgoing.ts";
import type { Secrets } from "../secret-mask.ts";
import { metadataHost, namesMetadata } from "../settings/metadata-service.ts";
import { readServiceAccountKey } from "../settings/object-settings.ts";
import type { Settings } from "../settings/settings.ts";
import { googleToken } from "./google-token.ts";
import { awsRole, googleRole } from "./instance-role.ts";

/** Life of a key from a file, which an operator may replace. */
const keyLivesMs = 15 * 60_000;

/** Opens the object store of the settings. Buckets are reached through the egress. */
export function openObjects(settings: Settings, env: Env, secrets: Pick<Secrets, "resolve">): ObjectStore {
  switch (settings.objectStore) {
    case "fs":
      return openObjectStore({ kind: "fs", path: settings.objectStorePath }, env);
    case "memory":
      return openObjectStore({ kind: "memory" }, env);
    case "s3": {
      const { s3Endpoint: endpoint, s3Region: region, s3Bucket: bucket } = settings;
      const place = { endpoint, region, bucket };
      return openObjectStore({ kind: "s3", place, access: s3Access(settings, env, secrets) }, env);
    }
    case "gcs": {
      const place = { endpoint: settings.gcsEndpoint, bucket: settings.gcsBucket };
      return openObjectStore({ kind: "gcs", place, access: gcsAccess(settings, env, secrets) }, env);
    }
  }
}

/** Opens the object store for a command that must not create it; null if no objects outlive the server. */
export function openKeptObjects(settings: Settings, env: Env, secrets: Pick<Secrets, "resolve">): ObjectStore | null {
  const { objectStore, objectStorePath } = settings;
  if (objectStore === "memory" || (objectStore === "fs" && !existsSync(objectStorePath))) return null;
  return openObjects(settings, env, secrets);
}

function s3Access(settings: Settings, env: Env, secrets: Pick<Secrets, "resolve">): S3Access {
  const { send, sendToMetadata, close } = senders(settings, env);
  const { s3AccessKey, s3SecretKey } = settings;
  return {
    send,
    close,
    async credentials() {
      if (s3AccessKey === "") return awsRole(sendToMetadata);
      const [accessKeyId, secretAccessKey] = await Promise.all([
        secrets.resolve(s3AccessKey),
        secrets.resolve(s3SecretKey),
      ]);
      return { accessKeyId, secretAccessKey, expiration: new Date(env.now() + keyLivesMs) };
    },
  };
}

function gcsAccess(settings: Settings, env: Env, secrets: Pick<Secrets, "resolve">): GcsAccess {
  const { send, sendToMetadata, close } = senders(settings, env);
  return {
    send,
    close,
    async token() {
      if (settings.gcsCredentials === "") return googleRole(sendToMetadata);
      const key = readServiceAccountKey(await secrets.resolve(settings.gcsCredentials));
      return googleToken(key, send, env);
    },
  };
}

/** Returns how requests for the operator leave, and those to the metadata service, whose address must be named. */
function senders(settings: Settings, env: Env) {
  const none = { resolve: () => Promise.reject(new Error("requests for objects carry no credentials of the egress")) };
  const named = { host: metadataHost, cidr: null, port: 80, tenants: "*" as const };
  const outgoing = new Outgoing({ settings, secrets: none, env });
  const toMetadata = new Outgoing({ settings: { ...settings, egressPrivate: [named] }, secrets: none, env });
  const rules = { tenantId: "", allowHosts: [], credentials: [], onEvent() {} };
  const send: RemoteSend = (request, bytesMax) =>
    outgoing.whole({ ...rules, policy: "operator" }, { ...request, follows: false }, bytesMax);
  const sendToMetadata: RemoteSend = (request, bytesMax) => {
    if (!namesMetadata(settings))
      return Promise.reject(new RemoteFailure("SVC_EGRESS_PRIVATE does not name the metadata service", true));
    return toMetadata.whole({ ...rules, policy: "public" }, { ...request, follows: false }, bytesMax);
  };
  const close = async (): Promise<void> => {
    await Promise.all([outgoing.close(), toMetadata.close()]);
  };
  return { send, sendToMetadata, close };
}
