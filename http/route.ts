import type { Static, TSchema } from "typebox";
import type { ErrorCode, SvcError } from "../bus/errors.ts";
import type { LeaseProof } from "../bus/protocol/lease.ts";
import type { Principal } from "../bus/protocol/principal.ts";
import { membersMaxDefault } from "../bus/strict-json.ts";
import { Type } from "../bus/type.ts";
import type { HttpContext } from "./context.ts";
import type { Exchange } from "./engines/exchange.ts";
import { type Reply, refusal } from "./exchange/reply.ts";
import type { StreamEvent } from "./stream-event.ts";

/** The methods that routes have. HEAD and OPTIONS are answered for all of them. */
export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

/**
 * Who may call a route: `public` needs no credentials in any mode; `authenticated` any; `chat:read` and `chat:write` whoever may
 * chat (decision 37); a list all of its scopes.
 */
export type Access = "public" | "docs" | "authenticated" | "chat:read" | "chat:write" | readonly string[];

/**
 * How a route drives a conversation, which another client may have for itself: at once, or by a turn, which is looked at behind its
 * idempotency key. The conversation is `thread_id` of the body or the path; a turn says itself which one it is.
 */
type Drives = "thread" | "turn";

/** A route as a value. Validation, /openapi.json and the tests over all routes are made from it. */
export interface Route {
  readonly method: Method;
  /** Segments in braces are parameters: `/chat/history/{thread_id}`. */
  readonly path: string;
  /** One line for the reference. */
  readonly summary: string;
  readonly tag: string;
  readonly access: Access;
  /** Not counted against the rate limit: probes. */
  readonly unlimited: boolean;
  /**
   * True for routes that load balancers and scrapers call by a pod's address: the Host header may name any host. With access other
   * than `public`, only for a caller with a valid credential.
   */
  readonly anyHost: boolean;
  /** Whether callers without credentials reach it, where SVC_ANONYMOUS_TENANT names their tenant; the handler holds them to its rules. */
  readonly anonymous: boolean;
  /** Null for what drives no conversation. */
  readonly drives: Drives | null;
  readonly params: TSchema | null;
  readonly query: TSchema | null;
  /** Headers that the handler reads by itself, for the reference. */
  readonly headers: TSchema | null;
  readonly body: TSchema | null;
  readonly bodyBytesMax: number;
  /** Members of all objects of the body. */
  readonly bodyMembersMax: number;
  readonly reply: RouteReply;
  /** What it may answer instead when it works: another content type, or another status. */
  readonly otherReplies: readonly RouteReply[];
  /** Codes of the handler; those that every request may meet on its way there are not among them. */
  readonly fails: readonly ErrorCode[];
  /** How the route says no: in the house's form, or in the one of the protocol that it speaks. */
  readonly refusal: (error: SvcError, requestId: string) => Reply;
  /** The page of a 401 for a browser, which asks for credentials; null where a browser is answered like everybody. */
  readonly challenge: (() => Reply) | null;
  /** Who is calling a public route that has credentials of its own, or a refusal: before anything of the body is read. */
  readonly admit: Admit | null;
  readonly handle: (request: RouteRequest<never, never, never>, context: HttpContext) => Reply | Promise<Reply>;
}

type Admit = (exchange: Exchange, context: HttpContext) => Principal;

/** What a route answers when it works, for the reference. */
export interface RouteReply {
  readonly status: number;
  readonly contentType: string;
  readonly description: string;
  /** Of a JSON body; null where the content type says enough. */
  readonly schema: TSchema | null;
  /**
   * For the reference. Of a JSON body the fields that are not as the schema's own example has them, of any other the text; of a stream
   * it is made of its events.
   */
  readonly example: string | Readonly<Record<string, unknown>> | null;
  /** Of a stream: what may come in it. */
  readonly events: readonly StreamEvent[];
}

/** A request that has passed authentication and validation. */
export interface RouteRequest<Params, Query, Body> {
  readonly params: Params;
  readonly query: Query;
  readonly body: Body;
  /** The body as it came, for fingerprints. */
  readonly rawBody: Buffer;
  /** Nobody of no tenant on public routes; see `Route.anonymous`. */
  readonly principal: Principal;
  /** What the client has shown to drive the conversation; null where nothing is to be checked. */
  readonly lease: LeaseProof | null;
  readonly requestId: string;
  readonly exchange: Exchange;
}

/** The default limit of a body (document 1, "Limits"). */
export const bodyBytesDefault = 1024 * 1024;

/** Codes of a handler that asks an actor, and of an actor that writes. */
export const actorFails: readonly ErrorCode[] = [
  "mailbox_full",
  "actor_lost",
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
  readonly tag: string;
  readonly access: Access;
  readonly unlimited?: boolean;
  readonly anyHost?: boolean;
  readonly anonymous?: boolean;
  readonly drives?: Drives;
  /** Texts under the names that the path has for them, where it is left out. */
  readonly params?: P;
  readonly query?: Q;
  readonly headers?: TSchema;
  readonly body?: B;
  readonly bodyBytesMax?: number;
  readonly bodyMembersMax?: number;
  readonly reply: ReplyDeclaration;
  readonly otherReplies?: readonly ReplyDeclaration[];
  readonly fails?: readonly ErrorCode[];
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

/** Declares a route; the handler's parameters have the types of its schemas. */
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
    tag: declaration.tag,
    access: declaration.access,
    unlimited: declaration.unlimited ?? false,
    anyHost: declaration.anyHost ?? false,
    anonymous: declaration.anonymous ?? false,
    drives,
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

/** The scopes that routes ask for, each once. */
export function scopesOf(routes: readonly Pick<Route, "access">[]): readonly string[] {
  const all = routes.flatMap(({ access }) => access);
  return [...new Set<string>(all)].filter((name) => name.includes(":"));
}

/** What the path has in braces, as texts. */
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
