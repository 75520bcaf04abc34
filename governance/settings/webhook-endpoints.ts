import { readMap, readObject, readString, readStrings } from "./object-shape.ts";
import { includesTenant, readTenants, type TenantList } from "./tenant-list.ts";

/** A destination of webhooks, as SVC_WEBHOOK_ENDPOINTS defines it under its id. */
export interface WebhookEndpoint {
  readonly url: string;
  /** Each is a literal or secret:NAME. A delivery has one signature per secret, so that a secret can be rotated without a gap. */
  readonly secrets: readonly string[];
  /** Tenants whose manifests may use the endpoint; `*` for every tenant. */
  readonly tenants: TenantList;
  /** True if the endpoint may be on a private network of the operator. */
  readonly private: boolean;
  /** True if spec.hooks may name the endpoint. */
  readonly hooks: boolean;
}

/** The webhook endpoints by id. */
export type WebhookEndpoints = Readonly<Record<string, WebhookEndpoint>>;

/** The same rule as for the ids in spec.execution.webhooks. */
const idPattern = /^[a-z0-9][a-z0-9_-]{0,63}$/;
const secretsMax = 8;
const keyPrefix = "whsec_";
const canonicalBase64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** Reads SVC_WEBHOOK_ENDPOINTS: a map of id to {url, secret, tenants, private?, hooks?}. */
export function readWebhookEndpoints(document: unknown): WebhookEndpoints {
  return Object.fromEntries(
    Object.entries(readMap(document, "the value")).map(([id, value], index) => {
      // Do not repeat the id: it may be a misplaced secret.
      if (!idPattern.test(id)) {
        throw new Error(
          `entry ${index + 1}: an id has 1 to 64 lower-case letters, digits, _ and -, and begins with a letter or digit`,
        );
      }
      const entry = readObject(value, id, ["url", "secret", "tenants"], ["private", "hooks"]);
      const endpoint: WebhookEndpoint = {
        url: readUrl(entry.url, `${id}: url`),
        secrets: readSecrets(entry.secret, `${id}: secret`),
        tenants: readTenants(entry.tenants, `${id}: tenants`),
        private: readFlag(entry.private, `${id}: private`),
        hooks: readFlag(entry.hooks, `${id}: hooks`),
      };
      return [id, endpoint];
    }),
  );
}

/** Returns the endpoint if this tenant may use it. A missing endpoint and another tenant's endpoint are indistinguishable. */
export function openEndpoint(endpoints: WebhookEndpoints, id: string, tenantId: string): WebhookEndpoint | null {
  const endpoint = Object.hasOwn(endpoints, id) ? (endpoints[id] as WebhookEndpoint) : null;
  return endpoint !== null && includesTenant(endpoint.tenants, tenantId) ? endpoint : null;
}

/**
 * Returns the signing key: for a `whsec_` secret the decoded base64, otherwise the bytes of the text. Null if the base64 is
 * malformed.
 */
export function signingKey(secret: string): Buffer | null {
  if (!secret.startsWith(keyPrefix)) return Buffer.from(secret, "utf8");
  const encoded = secret.slice(keyPrefix.length);
  return encoded !== "" && canonicalBase64.test(encoded) ? Buffer.from(encoded, "base64") : null;
}

/** The literal secrets of all endpoints, for the mask. */
export function webhookSecrets(endpoints: WebhookEndpoints): string[] {
  return Object.values(endpoints).flatMap(({ secrets }) => literalSecrets(secrets));
}

/** Returns the literal secrets, for the mask. For `whsec_` secrets, the part after the prefix is included too. */
export function literalSecrets(secrets: readonly string[]): string[] {
  const literals = secrets.filter((text) => !isReference(text));
  return literals.flatMap((text) => (text.startsWith(keyPrefix) ? [text, text.slice(keyPrefix.length)] : [text]));
}

/** Returns the secret:NAME references of all endpoints, each with its endpoint. */
export function secretReferences(endpoints: WebhookEndpoints): { readonly id: string; readonly name: string }[] {
  return Object.entries(endpoints).flatMap(([id, { secrets }]) =>
    secrets.filter(isReference).map((text) => ({ id, name: text.slice(reference.length) })),
  );
}

const reference = "secret:";

function isReference(text: string): boolean {
  return text.startsWith(reference);
}

function readUrl(value: unknown, where: string): string {
  const text = readString(value, where);
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol)) throw new Error(`${where} must be an https URL`);
  if (url.username !== "" || url.password !== "") throw new Error(`${where} must not carry a user name or password`);
  if (url.hash !== "") throw new Error(`${where} must not carry a fragment`);
  return text;
}

function readSecrets(value: unknown, where: string): readonly string[] {
  const secrets = Array.isArray(value) ? readStrings(value, where) : [readString(value, where)];
  if (secrets.length === 0 || secrets.length > secretsMax) throw new Error(`${where} has 1 to ${secretsMax} secrets`);
  for (const secret of secrets) {
    if (isReference(secret) ? secret === reference : signingKey(secret) === null)
      throw new Error(`${where}: whsec_ must be followed by base64, and secret: by a name`);
  }
  return secrets;
}

function readFlag(value: unknown, where: string): boolean {
  if (value === undefined) return false;
  if (typeof value !== "boolean") throw new Error(`${where} must be true or false`);
  return value;
}
