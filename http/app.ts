import { trimBlanks } from "../bus/blanks.ts";
import { SvcError } from "../bus/errors.ts";
import type { Principal } from "../bus/protocol/principal.ts";
import { anonymousPrincipal } from "../governance/auth/anonymous.ts";
import {
  type Authenticator,
  type Identity,
  principalOf,
  unauthorizedReasons,
} from "../governance/auth/authenticator.ts";
import { requireChat, requireScopes } from "../governance/auth/scopes.ts";
import type { HttpContext } from "./context.ts";
import type { OnRequest } from "./engines/engine.ts";
import type { Exchange } from "./engines/exchange.ts";
import { openAiRefusal } from "./exchange/openai-refusal.ts";
import { type Pieces, type Reply, refusal } from "./exchange/reply.ts";
import { readJsonBody } from "./json-body.ts";
import { admitDriver, leaseProof } from "./lease.ts";
import { LoopTurns } from "./loop-turns.ts";
import { meantPath } from "./meant-path.ts";
import { addressCaller } from "./middleware/address-caller.ts";
import { OriginGuard, preflightHeaders } from "./middleware/origin.ts";
import { RateLimiter } from "./middleware/rate-limit.ts";
import { requestIdOf } from "./middleware/request-id.ts";
import { isTls } from "./middleware/tls.ts";
import { wantsPage } from "./pages/html.ts";
import { bodyBytesDefault, type Route, type RouteRequest } from "./route.ts";
import { type Found, Router } from "./router.ts";
import { readQuery, validate } from "./validate.ts";

// Steps of each request, in the order of the specification: request id, security headers, body limit, rate limit and authentication.
// Scopes, the body and the route's handler follow. An error thrown by a step becomes the response.

/** The principal of a public route, which has no caller. */
const nobody: Principal = { tenant_id: "", sub: "anonymous", scopes: [], scheme: "anonymous", issuer: "" };

/** Returns the handler of all requests for a table of routes. */
export function createApp(routes: readonly Route[], context: HttpContext, authenticator: Authenticator): OnRequest {
  const { env, settings, log, metrics } = context;
  const router = new Router(routes);
  const paths = [...new Set(routes.map(({ path }) => path))];
  const origins = new OriginGuard(settings);
  const anonymous = anonymousPrincipal(settings);
  const limiter = new RateLimiter(env, context.bus, settings.rateLimit > 0);
  const longBodies = new LoopTurns(env);

  return (exchange) => {
    exchange.requestId = requestIdOf(exchange.head.headers["x-request-id"], env);
    const { path } = exchange.head;
    const found = router.find(exchange.head.method, path);
    const label = found.kind === "route" ? `${found.route.method} ${found.route.path}` : "unknown";
    const answer = (reply: Reply): void => {
      const status = reply.kind === "stream" || reply.kind === "pieces" ? 200 : reply.status;
      metrics.count("svc_http_requests_total", { route: label, status: String(status) });
      exchange.reply(reply);
    };
    const refuse = (error: unknown, inTheFormOf: Route["refusal"]): Reply => {
      const refused = SvcError.from(error);
      if (refused.code === "internal_error")
        log.error({ err: refused.cause ?? refused, request_id: exchange.requestId, route: label }, "request failed");
      return inTheFormOf(refused, exchange.requestId);
    };
    // Until a request is admitted, refusals have svc's own form; after that, the form of the protocol that the route uses.
    void admit(exchange, found)
      .then(
        (admitted) =>
          "kind" in admitted
            ? admitted
            : run(exchange, admitted).catch((error: unknown) => refuse(error, admitted.route.refusal)),
        (error: unknown) => challenge(found, exchange, error) ?? refuse(error, refusal),
      )
      .then(answer);
  };

  /** Returns the route and its principal, or a reply if no route must run. */
  async function admit(exchange: Exchange, found: Found): Promise<Admitted | Reply> {
    const { head } = exchange;
    if (settings.hstsMaxAgeSeconds > 0 && isTls(head, settings)) exchange.extraHeaders.push(hsts());
    const anyHost = found.kind === "route" && found.route.anyHost;
    if (anyHost) origins.checkHostForm(head);
    else origins.checkHost(head);
    for (const [name, value] of origins.checkOrigin(head)) exchange.extraHeaders.push([name, value]);
    if (head.fault !== null) throw head.fault;
    if (origins.isPreflight(head))
      return { kind: "text", status: 204, contentType: "text/plain", body: "", headers: preflightHeaders(head) };

    const bytesMax = found.kind === "route" ? found.route.bodyBytesMax : bodyBytesDefault;
    checkDeclaredLength(head.headers["content-length"], bytesMax);
    const { isPublic, unlimited } = gate(found, head.path);
    const identity = isPublic ? null : await identify(exchange);
    // A route with credentials accepts any Host only with a valid credential. Without credentials, DNS rebinding could read it.
    if (anyHost && identity !== null && !hasCredential(identity)) origins.checkHost(head);
    if (!unlimited) await limiter.take(caller(exchange, identity));
    const isAnonymous = anonymous !== null && identity?.reason === unauthorizedReasons.missing && isForAnonymous(found);
    // Count by address first, so that one address cannot use up the limit that all anonymous callers share.
    if (isAnonymous && !unlimited) await limiter.take(anonymous.tenant_id);
    const principal = isAnonymous ? anonymous : identity === null ? nobody : principalOf(identity);
    if (found.kind !== "route") return notARoute(found, head, isPublic ? [] : paths, exchange.requestId, baseUrlAdvice);
    const { route, params } = found;
    if (context.closing() && route.access !== "public") throw new SvcError("shutting_down");
    admitTo(route, principal);
    return { route, params, principal };
  }

  async function run(exchange: Exchange, { route, params, principal: known }: Admitted): Promise<Reply> {
    const { head } = exchange;
    const principal = route.admit === null ? known : route.admit(exchange, context);
    const rawBody = route.method === "GET" ? noBody : await exchange.body(route.bodyBytesMax);
    if (route.body !== null && rawBody.length > longBodyBytes) await longBodies.next();
    const request: RouteRequest<unknown, unknown, unknown> = {
      params: route.params === null ? noValues : validate(route.params, { ...params }, "path"),
      query: route.query === null ? noValues : readQuery(route.query, head.query),
      body:
        route.body === null
          ? undefined
          : validate(route.body, readJsonBody(rawBody, head.headers, route.bodyMembersMax), "body"),
      rawBody,
      principal,
      lease: route.drives === null ? null : leaseProof(head, settings),
      requestId: exchange.requestId,
      exchange,
    };
    if (route.drives === "thread" && request.lease !== null) await admitDriver(request, request.lease, context);
    const reply = await route.handle(request as RouteRequest<never, never, never>, context);
    return reply.kind === "pieces" ? begin(reply, exchange) : reply;
  }

  /**
   * Returns whether a request needs authentication and rate limiting. For a path without a route for the method, all methods of the path
   * decide.
   */
  function gate(found: Found, path: string): { isPublic: boolean; unlimited: boolean } {
    const routes = found.kind === "route" ? [found.route] : found.kind === "other_methods" ? found.routes : [];
    if (routes.length === 0) {
      // An unknown well-known path is a public 404.
      const wellKnown = path.startsWith("/.well-known/");
      // Senders of trigger events have no credentials, also where no trigger is configured.
      const isOfSender = settings.triggers.length === 0 && path.startsWith("/triggers/");
      return { isPublic: wellKnown || isOfSender, unlimited: wellKnown };
    }
    return {
      isPublic: routes.every(({ access }) => access === "public" || (access === "docs" && settings.docsPublic)),
      unlimited: routes.every((route) => route.unlimited),
    };
  }

  /** Makes the first piece of a long body, so that an early failure is answered as a normal refusal. */
  async function begin(reply: Extract<Reply, { kind: "pieces" }>, exchange: Exchange): Promise<Reply> {
    const { pieces } = reply;
    // Stop making pieces when the client disconnects.
    exchange.onAborted(() => void pieces.return());
    const first = await pieces.next();
    return { ...reply, pieces: restOf(first, pieces, exchange) };
  }

  function restOf(first: Awaited<ReturnType<Pieces["next"]>>, pieces: Pieces, exchange: Exchange): Pieces {
    let isFirst = true;
    return {
      async next() {
        if (isFirst) {
          isFirst = false;
          return first;
        }
        try {
          return await pieces.next();
        } catch (error) {
          log.error(
            { err: error, request_id: exchange.requestId, path: exchange.head.path },
            "a reply was cut off while it was sent",
          );
          throw error;
        }
      },
      return: () => pieces.return(),
    };
  }

  /** Returns the advice for a wrong base URL: a path that exists only below /v1, or that contains /v1 twice. Null for every other path. */
  function baseUrlAdvice(path: string): string | null {
    const isThere = (meant: string): boolean => isOpenAi(meant) && router.find("POST", meant).kind !== "unknown";
    if (isThere(`/v1${path}`)) return "The base URL of an OpenAI client must end in /v1.";
    return isThere(path.slice("/v1".length))
      ? "The path has /v1 twice: remove /v1 from the base URL or from the path."
      : null;
  }

  function identify(exchange: Exchange): Identity | Promise<Identity> {
    const { authorization, "x-api-key": x_api_key } = exchange.head.headers;
    return authenticator.identify({ authorization, x_api_key });
  }

  /** Returns the key of the rate limit: the tenant, or the client address of a request without valid credentials. */
  function caller(exchange: Exchange, identity: Identity | null): string {
    if (identity?.principal) return identity.principal.tenant_id;
    const header = settings.trustedClientIpHeader.toLowerCase();
    // The last entry of the list is the one that the trusted proxy added; the client could forge the entries before it.
    const told = header === "" ? "" : trimBlanks(exchange.head.headers[header]?.split(",").at(-1) ?? "");
    return addressCaller(told, exchange.remoteAddress());
  }

  function admitTo(route: Route, principal: Principal): void {
    const { access } = route;
    // Callers that the manifest admits as anonymous need no scope.
    if (principal === anonymous) return;
    if (access === "chat:read") requireChat(principal, settings.chatScopes, "read");
    else if (access === "chat:write") requireChat(principal, settings.chatScopes, "write");
    else if (access === "docs" && !settings.docsPublic) requireChat(principal, "any", "read");
    else if (typeof access !== "string") requireScopes(principal, access);
  }

  function hsts(): [string, string] {
    const subdomains = settings.hstsIncludeSubdomains ? "; includeSubDomains" : "";
    return ["strict-transport-security", `max-age=${settings.hstsMaxAgeSeconds}${subdomains}`];
  }
}

/** Returns the page that asks a browser for credentials; null if the route has none or the error is not `unauthorized`. */
function challenge(found: Found, { head }: Exchange, error: unknown): Reply | null {
  if (found.kind !== "route" || found.route.challenge === null) return null;
  const isRefused = error instanceof SvcError && error.code === "unauthorized";
  return isRefused && wantsPage(head.headers.accept) ? found.route.challenge() : null;
}

/** True if the caller proved its identity; always false in mode none. */
function hasCredential({ principal }: Identity): boolean {
  return principal !== null && principal.scheme !== "none";
}

/** True if the matched route accepts callers without credentials. Other methods of its path do not inherit this. */
function isForAnonymous(found: Found): boolean {
  return found.kind === "route" && found.route.anonymous;
}

interface Admitted {
  readonly route: Route;
  readonly params: Readonly<Record<string, string>>;
  readonly principal: Principal;
}

const noValues = {};
const noBody = Buffer.alloc(0);
/** Bodies above this size take a millisecond or more to parse. */
const longBodyBytes = 64 * 1024;

function checkDeclaredLength(declared: string | undefined, bytesMax: number): void {
  if (declared !== undefined && Number(declared) > bytesMax) throw new SvcError("payload_too_large");
}

/** True for paths of the OpenAI protocol, also unknown ones: its clients expect one form of errors. */
function isOpenAi(path: string): boolean {
  return path === "/v1" || path.startsWith("/v1/");
}

/** `paths` are the paths that this caller may see in an answer. */
function notARoute(
  found: Exclude<Found, { kind: "route" }>,
  { method, path }: Exchange["head"],
  paths: readonly string[],
  requestId: string,
  baseUrlAdvice: (path: string) => string | null,
): Reply {
  if (found.kind === "ambiguous") throw new SvcError("invalid_path");
  const advice = found.kind === "unknown" && paths.length > 0 ? baseUrlAdvice(path) : null;
  const inItsForm = isOpenAi(path) || advice !== null ? openAiRefusal : refusal;
  if (found.kind === "unknown") {
    const meant = advice === null ? meantPath(path, paths) : ` ${advice}`;
    return inItsForm(new SvcError("not_found", { message: `No route has this path.${meant}` }), requestId);
  }
  const allow = found.allow.join(", ");
  const headers = { allow };
  if (method === "OPTIONS") return { kind: "text", status: 204, contentType: "text/plain", body: "", headers };
  const message = `This path does not accept ${method}; it accepts ${allow}.`;
  const answer = inItsForm(new SvcError("method_not_allowed", { message }), requestId);
  return answer.kind === "json" ? { ...answer, headers } : answer;
}
