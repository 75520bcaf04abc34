import type { Env } from "../../../bus/env.ts";
import type { EgressEvent, Outgoing, OutgoingRules } from "../../../governance/egress/outgoing.ts";
import { fetchWith } from "../../../governance/egress/sdk-fetch.ts";
import type { ConnectorConfig, EntityType } from "./entity-tables.ts";

// Reads entities of another system: over HTTP, or with the tools of an MCP server. Its answers are data of a stranger: they are bounded
// and checked before use. Only public addresses are reached, and a redirect must stay at its origin.

/** A record as the other system has it, with the fields renamed. */
export type EntityRecord = Readonly<Record<string, unknown>>;

/** A page of records. */
export interface RecordPage {
  readonly records: readonly EntityRecord[];
  /** The cursor of the next page; null on the last one. */
  readonly next_cursor: string | null;
}

/** The system with the entities of a tenant. */
export interface EntityConnector {
  /** Returns a record; null if there is none. Throws a SourceError if the system does not answer as it should. */
  get(type: EntityType, id: string): Promise<EntityRecord | null>;
  /** Returns at most `limit` records. Throws a SourceError. */
  list(type: EntityType, limit: number, cursor: string | null): Promise<RecordPage>;
}

/** The other system does not answer, or does not answer as it should. */
export class SourceError extends Error {
  constructor(problem: string, options?: ErrorOptions) {
    super(problem, options);
    this.name = "SourceError";
  }
}

/** The services of connections. */
export interface ConnectorDeps {
  readonly env: Env;
  readonly outgoing: Pick<Outgoing, "send" | "whole">;
  readonly tenantId: string;
  /** The bearer token; null for none. */
  readonly token: string | null;
  readonly onEvent: (event: EgressEvent) => void;
}

const answerMs = 10_000;
const recordBytesMax = 1024 * 1024;
const pageBytesMax = 5 * 1024 * 1024;
const cursorMax = 2_000;

/** Returns the connector of a configuration. */
export function openConnector(config: ConnectorConfig, deps: ConnectorDeps): EntityConnector {
  const ask = config.kind === "http" ? httpQuestions(config, deps) : mcpQuestions(config, deps);
  const renamed = renaming(config.options?.mapping ?? {});
  return {
    async get(type, id) {
      const found = await guarded(() => ask.get(type, id));
      if (found === null) return null;
      if (!isRecord(found)) throw new SourceError("the source answers with something else than a record");
      const record = renamed(found);
      if (String(record.id) !== id) throw new SourceError("the source answers with another record");
      return record;
    },
    async list(type, limit, cursor) {
      return readPage(await guarded(() => ask.list(type, limit, cursor)), limit, renamed);
    },
  };
}

interface Questions {
  get(type: EntityType, id: string): Promise<unknown>;
  list(type: EntityType, limit: number, cursor: string | null): Promise<unknown>;
}

async function guarded(ask: () => Promise<unknown>): Promise<unknown> {
  try {
    return await ask();
  } catch (error) {
    if (error instanceof SourceError) throw error;
    throw new SourceError("the source does not answer", { cause: error });
  }
}

function httpQuestions({ url }: ConnectorConfig, { outgoing, tenantId, token, onEvent }: ConnectorDeps): Questions {
  const rules: OutgoingRules = { tenantId, policy: "public", allowHosts: [], credentials: [], onEvent };
  const { origin } = new URL(url);
  const base = url.replace(/\/+$/, "");
  const asked = async (path: string, bytesMax: number): Promise<unknown> => {
    const request = {
      url: `${base}/${path}`,
      headers: { accept: "application/json", ...(token !== null && { authorization: `Bearer ${token}` }) },
      timeoutMs: answerMs,
      stays: (next: URL) => next.origin === origin,
    };
    const answer = await outgoing.whole(rules, request, bytesMax);
    if (answer.status === 404) return null;
    if (answer.status !== 200) throw new SourceError(`the source answers with the status ${answer.status}`);
    if (answer.isCut) throw new SourceError("the answer of the source is too long");
    try {
      return JSON.parse(answer.bytes.toString("utf8")) as unknown;
    } catch {
      throw new SourceError("the source answers with something else than JSON");
    }
  };
  return {
    get: (type, id) => asked(`${type}/${encodeURIComponent(id)}`, recordBytesMax),
    list: (type, limit, cursor) => {
      const query = new URLSearchParams({ limit: String(limit), ...(cursor !== null && { cursor }) });
      return asked(`${type}?${query}`, pageBytesMax);
    },
  };
}

function mcpQuestions({ url }: ConnectorConfig, { env, outgoing, tenantId, token, onEvent }: ConnectorDeps): Questions {
  const rules: OutgoingRules = { tenantId, policy: "public", allowHosts: [], credentials: [], onEvent };
  const { origin } = new URL(url);
  const stays = (next: URL): boolean => next.origin === origin;
  const send = fetchWith({ send: (of, request) => outgoing.send(of, { ...request, stays }) }, rules);
  const called = async (name: string, args: Readonly<Record<string, unknown>>): Promise<unknown> => {
    const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
    const requestInit = {
      headers: { "user-agent": "svc", ...(token !== null && { authorization: `Bearer ${token}` }) },
    };
    const transport = new StreamableHTTPClientTransport(new URL(url), { fetch: send, requestInit });
    const client = new Client(
      { name: "svc", version: "1" },
      {
        // No sampling, elicitation or roots: a server must not ask the operator's models or files.
        capabilities: {},
        versionNegotiation: { mode: "auto" },
        inputRequired: { autoFulfill: false },
        jsonSchemaValidator: {
          getValidator: () => (value: unknown) => ({ valid: true, data: value as never, errorMessage: undefined }),
        },
      },
    );
    const late = Promise.withResolvers<never>();
    const timer = env.timer(answerMs, () => late.reject(new SourceError("the source does not answer in time")));
    try {
      return await Promise.race([callTool(client, transport, name, args), late.promise]);
    } finally {
      timer.cancel();
      late.promise.catch(() => {});
      await client.close().catch(() => {});
    }
  };
  return {
    get: (type, id) => called(`get_${type}`, { id }),
    list: (type, limit, cursor) => called(`list_${type}`, { limit, ...(cursor !== null && { cursor }) }),
  };
}

type Mcp = typeof import("@modelcontextprotocol/client");

async function callTool(
  client: InstanceType<Mcp["Client"]>,
  transport: InstanceType<Mcp["StreamableHTTPClientTransport"]>,
  name: string,
  args: Readonly<Record<string, unknown>>,
): Promise<unknown> {
  await client.connect(transport);
  const answer = (await client.callTool({ name, arguments: args })) as {
    isError?: boolean;
    structuredContent?: unknown;
    content?: readonly { type: string; text?: string }[];
  };
  if (answer.isError === true) throw new SourceError(`the tool ${name} of the source fails`);
  if (answer.structuredContent !== undefined) return answer.structuredContent;
  const text = (answer.content ?? []).find(({ type }) => type === "text")?.text;
  if (text === undefined || text.length > pageBytesMax)
    throw new SourceError(`the tool ${name} answers without a text`);
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new SourceError(`the tool ${name} answers with something else than JSON`);
  }
}

function readPage(answer: unknown, limit: number, renamed: (record: EntityRecord) => EntityRecord): RecordPage {
  const page = Array.isArray(answer) ? { items: answer } : answer;
  if (!isRecord(page)) throw new SourceError("the source answers with something else than a page");
  const items = page.items ?? page.records ?? page.data;
  if (!Array.isArray(items)) throw new SourceError("the source answers with something else than a page");
  if (items.length > limit) throw new SourceError("the source answers with more records than it was asked for");
  const next = page.next_cursor ?? null;
  if (next !== null && (typeof next !== "string" || next.length > cursorMax))
    throw new SourceError("the cursor of the source is no short text");
  return {
    records: items.map((item) => (isRecord(item) ? renamed(item) : {})),
    next_cursor: next === "" ? null : next,
  };
}

function renaming(mapping: Readonly<Record<string, string>>): (record: EntityRecord) => EntityRecord {
  const names = Object.entries(mapping);
  if (names.length === 0) return (record) => record;
  return (record) => ({
    ...record,
    ...Object.fromEntries(
      names.flatMap(([here, there]) => (Object.hasOwn(record, there) ? [[here, record[there]]] : [])),
    ),
  });
}

function isRecord(value: unknown): value is EntityRecord {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
