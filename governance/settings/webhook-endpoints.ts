import { readMap, readObject, readString, readStrings } from "./object-shape.ts";
import { readTenantId } from "./tenant-id.ts";

/** Where webhooks go, as SVC_WEBHOOK_ENDPOINTS says it under the endpoint's id. */
export interface WebhookEndpoint {
  readonly url: string;
  /** Each a literal or secret:NAME; one signature is made with each, so that a secret can be changed without a gap. */
  readonly secrets: readonly string[];
  /** The tenants whose manifests may name it; `*` for every tenant. */
  readonly tenants: readonly string[] | "*";
  /** It may be on the operator's own network. */
  readonly private: boolean;
}

/** The endpoints by their ids. */
export type WebhookEndpoints = Readonly<Record<string, WebhookEndpoint>>;

/** The same rule as for the ids in spec.execution.webhooks. */
const idPattern = /^[a-z0-9][a-z0-9_-]{0,63}$/;
const secretsMax = 8;
const keyPrefix = "whsec_";
const canonicalBase64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** Reads SVC_WEBHOOK_ENDPOINTS: a map of id to {url, secret, tenants, private?}. */
export function readWebhookEndpoints(document: unknown): WebhookEndpoints {
  return Object.fromEntries(
    Object.entries(readMap(document, "the value")).map(([id, value], index) => {
      // The id itself is not repeated: a misplaced secret may be what stands there.
      if (!idPattern.test(id)) {
        throw new Error(
          `entry ${index + 1}: an id has 1 to 64 lower-case letters, digits, _ and -, and begins with a letter or digit`,
        );
      }
      const entry = readObject(value, id, ["url", "secret", "tenants"], ["private"]);
      const endpoint: WebhookEndpoint = {
        url: readUrl(entry.url, `${id}: url`),
        secrets: readSecrets(entry.secret, `${id}: secret`),
        tenants: readTenants(entry.tenants, `${id}: tenants`),
        private: readFlag(entry.private, `${id}: private`),
      };
      return [id, endpoint];
    }),
  );
}

/** The endpoint, when it is there for this tenant; whether it is missing or another's is nobody's business. */
export function openEndpoint(endpoints: WebhookEndpoints, id: string, tenantId: string): WebhookEndpoint | null {
  const endpoint = Object.hasOwn(endpoints, id) ? (endpoints[id] as WebhookEndpoint) : null;
  return endpoint !== null && (endpoint.tenants === "*" || endpoint.tenants.includes(tenantId)) ? endpoint : null;
}

/** The key that a secret stands for: of a `whsec_` secret what its base64 says, else its own bytes. Null when that is none. */
export function signingKey(secret: string): Buffer | null {
  if (!secret.startsWith(keyPrefix)) return Buffer.from(secret, "utf8");
  const encoded = secret.slice(keyPrefix.length);
  return encoded !== "" && canonicalBase64.test(encoded) ? Buffer.from(encoded, "base64") : null;
}

/** The literal secrets of all endpoints, for the mask. */
export function webhookSecrets(endpoints: WebhookEndpoints): string[] {
  return Object.values(endpoints).flatMap(({ secrets }) => literalSecrets(secrets));
}

/** Of secrets those that stand there themselves, for the mask: behind `whsec_` what is the key without it, too. */
export function literalSecrets(secrets: readonly string[]): string[] {
  const literals = secrets.filter((text) => !isReference(text));
  return literals.flatMap((text) => (text.startsWith(keyPrefix) ? [text, text.slice(keyPrefix.length)] : [text]));
}

/** The names that endpoints look up as secret:NAME, each with its endpoint. */
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

function readTenants(value: unknown, where: string): readonly string[] | "*" {
  if (value === "*") return "*";
  const tenants = readStrings(value, where);
  if (tenants.length === 0) throw new Error(`${where} must name a tenant, or be "*"`);
  return tenants.map((tenant) => {
    try {
      return readTenantId(tenant);
    } catch (error) {
      throw new Error(`${where}: ${(error as Error).message}`);
    }
  });
}

function readFlag(value: unknown, where: string): boolean {
  if (value === undefined) return false;
  if (typeof value !== "boolean") throw new Error(`${where} must be true or false`);
  return value;
}
