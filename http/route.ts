import type { Static, TSchema } from "typebox";
import type { ErrorCode, PluginErrorCode, SvcError } from "../bus/errors.ts";
import type { LeaseProof } from "../bus/protocol/lease.ts";
import type { Principal } from "../bus/protocol/principal.ts";
import { membersMaxDefault } from "../bus/strict-json.ts";
import { Type } from "../bus/type.ts";
import type { HttpContext } from "./context.ts";
import type { Exchange } from "./engines/exchange.ts";
import { type Reply, refusal } from "./exchange/reply.ts";
import type { RequestHead } from "./exchange/request-head.ts";
import type { StreamEvent } from "./stream-event.ts";
import type { Tag } from "./tags.ts";

/** The methods of routes. HEAD and OPTIONS are answered for all routes. */
export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

/**
 * Access to a route: `public` needs no credentials in any mode, `authenticated` needs valid ones. `chat:read` and `chat:write` need any
 * scope, or that scope under SVC_CHAT_SCOPES=strict. A list needs all its scopes.
 */
export type Access = "public" | "docs" | "authenticated" | "chat:read" | "chat:write" | readonly string[];

/**
 * How a route drives a conversation, on which another client may hold the lease. `thread`: the lease of `thread_id` in the body or path is
 * checked before the handler. `turn`: the turn names its thread, and its lease is checked after its idempotency key.
 */
type Drives = "thread" | "turn";

/** The kinds of objects of a tenant that routes name by an id. */
export const ownedKinds = [
  "thread",
  "manifest",
  "run",
  "response",
  "file",
  "plan",
  "job",
  "artifact",
  "quarantined",
  "document",
  "skill",
  "memory",
  "eval_dataset",
  "eval_run",
  "workflow",
  "workflow_run",
  "key",
] as const;

/** A kind of object of a tenant. */
export type OwnedKind = (typeof ownedKinds)[number];

/**
 * A request that names an object by its id, in the path or as given here. A test sends it with the id of another tenant's object, and
 * expects the answer for an unknown id. It must not create an object of the caller that later samples would find.
 */
export interface TenancySample {
  readonly of: OwnedKind;
  readonly query?: (id: string) => string;
  readonly body?: (id: string) => object;
}

/** A route as a value. Validation, /openapi.json and the tests over all routes are derived from it. */
export interface Route {
  readonly method: Method;
  /** Segments in braces are parameters: `/chat/history/{thread_id}`. */
  readonly path: string;
  /** One line for the reference. */
  readonly summary: string;
  /** Its heading in the reference. */
  readonly tag: Tag;
  readonly access: Access;
  /** True for a route that another one replaces. */
  readonly deprecated: boolean;
  /** Samples for the test that another tenant's ids look unknown; empty for a route that takes no id. */
  readonly tenancy: readonly TenancySample[];
  /** True for probes and files of pages, which do not count against the rate limit. */
  readonly unlimited: boolean;
  /**
   * True for routes that load balancers and scrapers call by a pod's address: the Host header may name any host. With access other than
   * `public`, this holds only for callers with a valid credential.
   */
  readonly anyHost: boolean;
  /**
   * True if callers without credentials may use the route when SVC_ANONYMOUS_TENANT names their tenant; the handler enforces the manifest's
   * rules.
   */
  readonly anonymous: boolean;
  /** Pages of other sites that may use the route, in addition to those of SVC_CORS_ORIGINS; null for none. */
  readonly crossSite: CrossSite | null;
  /** Null if the route drives no conversation. */
  readonly drives: Drives | null;
  /** True if the last parameter of the path takes all segments that are left. */
  readonly isRest: boolean;
  readonly params: TSchema | null;
  readonly query: TSchema | null;
  /** Headers that the handler reads, for the reference. */
  readonly headers: TSchema | null;
  readonly body: TSchema | null;
  readonly bodyBytesMax: number;
  /** Max members of all objects of the body together. */
  readonly bodyMembersMax: number;
  readonly reply: RouteReply;
  /** Further successful answers: another content type or another status. */
  readonly otherReplies: readonly RouteReply[];
  /** Error codes of the handler, without those that every request may get before it. */
  readonly fails: readonly (ErrorCode | PluginErrorCode)[];
  /** Writes a refusal in svc's own form, or in the form of the route's protocol. */
  readonly refusal: (error: SvcError, requestId: string) => Reply;
  /** The page of a 401 for a browser, which asks for credentials; null if browsers get the same answer as programs. */
  readonly challenge: (() => Reply) | null;
  /** Authenticates the caller of a public route with its own credentials, or refuses it, before the body is read. */
  readonly admit: Admit | null;
  readonly handle: (request: RouteRequest<never, never, never>, context: HttpContext) => Reply | Promise<Reply>;
}

/**
 * Use of a route by pages of other sites, without credentials of the browser. `script`: any page may load the answer as a script. `frame`:
 * any page may show it in a frame, unless the answer has a Content-Security-Policy that says otherwise. A function: pages with an origin
 * for which it returns true may call the route.
 */
export type CrossSite =
  | "script"
  | "frame"
  | ((origin: string, head: RequestHead, context: HttpContext) => boolean | Promise<boolean>);

type Admit = (exchange: Exchange, context: HttpContext) => Principal;

/** A successful answer of a route, for the reference. */
export interface RouteReply {
  readonly status: number;
  /** Empty for a reply without a body. */
  readonly contentType: string;
  readonly description: string;
  /** Schema of a JSON body; null if the content type says enough. */
  readonly schema: TSchema | null;
  /**
   * Example for the reference. For a JSON body: the fields that differ from the schema's example. For other bodies: the text. For a stream:
   * null, because the example is made from its events.
   */
  readonly example: string | Readonly<Record<string, unknown>> | null;
  /** The events of a stream. */
  readonly events: readonly StreamEvent[];
}

/** A request after authentication and validation. */
export interface RouteRequest<Params, Query, Body> {
  readonly params: Params;
  readonly query: Query;
  readonly body: Body;
  /** The raw body, for fingerprints. */
  readonly rawBody: Buffer;
  /** A principal without a tenant on public routes; see `Route.anonymous`. */
  readonly principal: Principal;
  /** The client's proof of its lease; null if none must be checked. */
  readonly lease: LeaseProof | null;
  readonly requestId: string;
  readonly exchange: Exchange;
}

/** The default limit of a body, in bytes, as the specification states it. */
export const bodyBytesDefault = 1024 * 1024;

/** Error codes of a handler that asks an actor, and of an actor that writes. */
export const actorFails: readonly ErrorCode[] = [
  "mailbox_full",
  "actor_lost",
  "dependency_unavailable",
  "deadline_exceeded",
  "storage_unavailable",
];

type ReplyDeclaration = Partial<RouteReply> & Pick<RouteReply, "description">;

type StaticOr<S, Otherwise> = S extends TSchema ? Static<S> : Otherwise;

interface RouteDeclaration<
  P extends TSchema | undefined,
  Q extends TSchema | undefined,
  B extends TSchema | undefined,
> {
  readonly method: Method;
  readonly path: string;
  readonly summary: string;
  /** A plugin gives its own name, and its description becomes that of the tag. */
  readonly tag: Tag | string;
  readonly access: Access;
  readonly deprecated?: boolean;
  readonly tenancy?: readonly TenancySample[];
  readonly unlimited?: boolean;
  readonly anyHost?: boolean;
  readonly anonymous?: boolean;
  readonly crossSite?: CrossSite;
  readonly drives?: Drives;
  readonly isRest?: boolean;
  /** Default: a text for each parameter of the path. */
  readonly params?: P;
  readonly query?: Q;
  readonly headers?: TSchema;
  readonly body?: B;
  readonly bodyBytesMax?: number;
  readonly bodyMembersMax?: number;
  readonly reply: ReplyDeclaration;
  readonly otherReplies?: readonly ReplyDeclaration[];
  readonly fails?: Route["fails"];
  readonly refusal?: Route["refusal"];
  readonly challenge?: Route["challenge"];
  readonly admit?: Admit;
  readonly handle: (
    request: RouteRequest<
      StaticOr<P, Readonly<Record<string, string>>>,
      StaticOr<Q, Record<string, never>>,
      StaticOr<B, undefined>
    >,
    context: HttpContext,
  ) => Reply | Promise<Reply>;
}

/** Declares a route. The handler's parameters get the types of its schemas. */
export function route<
  P extends TSchema | undefined = undefined,
  Q extends TSchema | undefined = undefined,
  B extends TSchema | undefined = undefined,
>(declaration: RouteDeclaration<P, Q, B>): Route {
  const { drives = null, headers = null, fails = [] } = declaration;
  if (drives === "thread" && ![declaration.body, declaration.params].some(namesThread))
    throw new Error(`${declaration.method} ${declaration.path} drives a thread and takes no thread_id`);
  return {
    method: declaration.method,
    path: declaration.path,
    summary: declaration.summary,
    tag: typeof declaration.tag === "string" ? { name: declaration.tag, description: "" } : declaration.tag,
    access: declaration.access,
    deprecated: declaration.deprecated ?? false,
    tenancy: declaration.tenancy ?? [],
    unlimited: declaration.unlimited ?? false,
    anyHost: declaration.anyHost ?? false,
    anonymous: declaration.anonymous ?? false,
    crossSite: declaration.crossSite ?? null,
    drives,
    isRest: declaration.isRest ?? false,
    params: declaration.params ?? paramsOf(declaration.path),
    query: declaration.query ?? null,
    headers: drives === null ? headers : withLeaseHeader(headers),
    body: declaration.body ?? null,
    bodyBytesMax: declaration.bodyBytesMax ?? bodyBytesDefault,
    bodyMembersMax: declaration.bodyMembersMax ?? membersMaxDefault,
    reply: completed(declaration.reply),
    otherReplies: (declaration.otherReplies ?? []).map(completed),
    fails: drives === null ? fails : [...fails, "lease_held", "lease_read_only"],
    refusal: declaration.refusal ?? refusal,
    challenge: declaration.challenge ?? null,
    admit: declaration.admit ?? null,
    handle: declaration.handle as Route["handle"],
  };
}

/** Returns the scopes that routes require, without duplicates. */
export function scopesOf(routes: readonly Pick<Route, "access">[]): readonly string[] {
  const all = routes.flatMap(({ access }) => access);
  return [...new Set<string>(all)].filter((name) => name.includes(":"));
}

/** Returns a schema with a text for each parameter of the path. */
function paramsOf(path: string): TSchema | null {
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => [String(name), Type.String()] as const);
  return names.length === 0 ? null : Type.Object(Object.fromEntries(names));
}

function completed({
  status = 200,
  contentType = "application/json",
  description,
  schema = null,
  example = null,
  events = [],
}: ReplyDeclaration): RouteReply {
  return { status, contentType, description, schema, example, events };
}

const leaseHeader = {
  "X-Svc-Lease-Token": Type.Optional(
    Type.String({
      description: "Token of the client's lease of the thread. Required if another client may have a lease.",
    }),
  ),
};

function withLeaseHeader(headers: TSchema | null): TSchema {
  const { properties = {} } = (headers ?? {}) as { properties?: Record<string, TSchema> };
  return Type.Object({ ...properties, ...leaseHeader });
}

function namesThread(schema: TSchema | undefined): boolean {
  const { required = [] } = (schema ?? {}) as { required?: readonly string[] };
  return required.includes("thread_id");
}
