import type { AccessToken } from "../../storage/objects/gcs.ts";
import { RemoteFailure, type RemoteSend } from "../../storage/objects/remote.ts";
import type { S3Credentials } from "../../storage/objects/s3.ts";
import { metadataHost } from "../settings/metadata-service.ts";

// The metadata services of AWS and Google, which give an instance the credentials of its role.

const base = `http://${metadataHost}`;
const timeoutMs = 5_000;
const bytesMax = 64 * 1024;
const roles = "/latest/meta-data/iam/security-credentials/";

/** Returns the credentials of an EC2 instance's role (IMDSv2). */
export async function awsRole(send: RemoteSend): Promise<S3Credentials> {
  const token = await ask(send, "PUT", "/latest/api/token", { "x-aws-ec2-metadata-token-ttl-seconds": "300" });
  const headers = { "x-aws-ec2-metadata-token": token };
  const [role = ""] = (await ask(send, "GET", roles, headers)).split("\n");
  if (!/^[\w+=,.@-]{1,64}$/.test(role)) throw new RemoteFailure("the instance has no role");
  const found = jsonOf(await ask(send, "GET", roles + role, headers));
  const { AccessKeyId, SecretAccessKey, Token, Expiration } = found;
  if (typeof AccessKeyId !== "string" || typeof SecretAccessKey !== "string" || typeof Token !== "string")
    throw new RemoteFailure("the metadata service has no credentials for the role");
  const expiration = new Date(String(Expiration));
  if (Number.isNaN(expiration.getTime())) throw new RemoteFailure("the credentials of the role have no end");
  return { accessKeyId: AccessKeyId, secretAccessKey: SecretAccessKey, sessionToken: Token, expiration };
}

/** Returns a token for the service account of a Google instance. */
export async function googleRole(send: RemoteSend): Promise<AccessToken> {
  const path = "/computeMetadata/v1/instance/service-accounts/default/token";
  return readToken(await ask(send, "GET", path, { "metadata-flavor": "Google" }));
}

/** Reads the answer of a server for OAuth tokens. */
export function readToken(answer: string): AccessToken {
  const { access_token, expires_in } = jsonOf(answer);
  if (typeof access_token !== "string" || typeof expires_in !== "number")
    throw new RemoteFailure("the answer has no access token");
  return { text: access_token, livesMs: expires_in * 1000 };
}

async function ask(send: RemoteSend, method: string, path: string, headers: Record<string, string>): Promise<string> {
  const request = { method, url: base + path, headers, body: null, timeoutMs };
  const { status, bytes } = await send(request, bytesMax);
  if (status !== 200) throw new RemoteFailure(`the metadata service of the instance answers ${status}`);
  return Buffer.from(bytes).toString().trim();
}

function jsonOf(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
