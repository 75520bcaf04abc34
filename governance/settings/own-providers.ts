import { keyedProviders, mapEntries } from "./model-options.ts";
import { readMap, readNumberField, readObject, readString } from "./object-shape.ts";
import { readHttpUrl } from "./setting.ts";

/** A model provider that the operator defines, under the name that routes use. */
export interface OwnProvider {
  /** The URL before the path of the protocol. */
  readonly base_url: string;
  /** A literal key or secret:NAME; absent for a server that needs none. */
  readonly api_key?: string;
  /** Sent with every call; names in lower case, each value a literal or secret:NAME. */
  readonly headers: Readonly<Record<string, string>>;
  /** The wire protocol: OpenAI's chat completions or Anthropic's Messages API. */
  readonly kind: OwnProviderKind;
  /** Seconds; overrides SVC_MODEL_TIMEOUT_SECONDS. */
  readonly timeout?: number;
}

type OwnProviderKind = (typeof kinds)[number];
const kinds = ["openai", "anthropic"] as const;

/** Reserved names: the built-in providers, the offline model, and the decider that uses a model. */
const taken: readonly string[] = [...keyedProviders, "demo", "llm"];
const headersMax = 16;
const headerName = /^[a-z0-9!#$%&'*+.^_`|~-]{1,64}$/;
/** Printable ASCII, which every header parser accepts. */
const headerValue = /^[\x20-\x7e]{1,4096}$/;
/** Headers that the protocol or the connection sets. */
const reservedHeaders: readonly string[] = [
  ...[
    "accept",
    "content-type",
    "content-length",
    "content-encoding",
    "host",
    "connection",
    "keep-alive",
    "te",
    "trailer",
  ],
  ...["transfer-encoding", "upgrade", "expect", "anthropic-version"],
];

/** Reads SVC_MODEL_PROVIDERS: a map of name to {base_url, api_key?, headers?, kind?, timeout?}. */
export function readOwnProviders(document: unknown): Readonly<Record<string, OwnProvider>> {
  return mapEntries(document, (value, where, name) => {
    if (taken.includes(name))
      throw new Error(
        `${name} is built in; choose another name, or change the built-in one with SVC_MODEL_PROVIDER_OPTIONS`,
      );
    const given = readObject(value, where, ["base_url"], ["api_key", "headers", "kind", "timeout"]);
    const kind = kinds.find((known) => known === (given.kind ?? "openai"));
    if (kind === undefined) throw new Error(`${where}: kind is one of ${kinds.join(", ")}`);
    const hasKey = given.api_key !== undefined;
    return {
      base_url: readBaseUrl(given.base_url, where),
      ...(hasKey && { api_key: readKey(given.api_key, `${where}: api_key`) }),
      headers: given.headers === undefined ? {} : readHeaders(given.headers, `${where}: headers`, hasKey),
      kind,
      ...(given.timeout !== undefined && { timeout: readNumberField(given.timeout, `${where}: timeout`, 0.001, 3600) }),
    };
  });
}

function readBaseUrl(value: unknown, where: string): string {
  const text = readString(value, `${where}: base_url`);
  try {
    return readHttpUrl(text);
  } catch (error) {
    throw new Error(`${where}: base_url ${(error as Error).message}`);
  }
}

function readKey(value: unknown, where: string): string {
  const text = readString(value, where);
  if (!headerValue.test(text)) throw new Error(`${where} has a character that a header cannot carry`);
  return text;
}

function readHeaders(value: unknown, where: string, hasKey: boolean): Readonly<Record<string, string>> {
  const entries = Object.entries(readMap(value, where));
  if (entries.length > headersMax) throw new Error(`${where} are at most ${headersMax}`);
  const headers: Record<string, string> = {};
  for (const [given, text] of entries) {
    const name = given.toLowerCase();
    // Repeat neither name nor value in the message: they may be swapped, so either may be the secret.
    if (!headerName.test(name)) throw new Error(`${where} has an invalid header name`);
    if (reservedHeaders.includes(name)) throw new Error(`${where}: ${name} cannot be set`);
    if (hasKey && (name === "authorization" || name === "x-api-key"))
      throw new Error(`${where}: ${name} and api_key are two keys; give one of them`);
    if (Object.hasOwn(headers, name)) throw new Error(`${where}: ${name} is set twice`);
    headers[name] = readKey(text, `${where}: ${name}`);
  }
  return headers;
}

/** Returns the literal keys and header values, without secret:NAME references. */
export function ownProviderSecrets(providers: Readonly<Record<string, OwnProvider>>): readonly string[] {
  return Object.values(providers)
    .flatMap(credentialsOf)
    .filter((text) => !text.startsWith("secret:"));
}

/** Returns the key and the header values of a provider: literals or secret:NAME. */
export function credentialsOf({ api_key, headers }: OwnProvider): readonly string[] {
  return [...(api_key === undefined ? [] : [api_key]), ...Object.values(headers)];
}
