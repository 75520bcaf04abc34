import { type Authenticator, type Identity, principalOf } from "../governance/auth/authenticator.ts";
import type { Principal } from "../bus/protocol/principal.ts";
import { SvcError } from "../bus/errors.ts";
import { requireChat, requireScopes } from "../governance/scopes.ts";
import type { HttpContext } from "./context.ts";
import { readJsonBody } from "./json-body.ts";
import { OriginGuard, preflightHeaders } from "./middleware/origin.ts";
import { RateLimiter } from "./middleware/rate-limit.ts";
import { requestIdOf } from "./middleware/request-id.ts";
import { refusal, type Reply } from "./reply.ts";
import type { Route, RouteRequest } from "./route.ts";
import { type Found, Router } from "./router.ts";
import type { Exchange, OnRequest } from "./server.ts";
import { readQuery, validate } from "./validate.ts";

// The way of every request, in the order of the specification: request id, security headers, body limit, rate limit,
// authentication; then scopes, the body, and the route's handler. What throws on the way becomes the answer.

/** The caller of a public route: nobody. */
const nobody: Principal = { tenant_id: "", sub: "anonymous", scopes: [], scheme: "anonymous", issuer: "" };

export function createApp(routes: readonly Route[], context: HttpContext, authenticator: Authenticator): OnRequest {
  const { env, settings, log, metrics } = context;
  const router = new Router(routes);
  const origins = new OriginGuard(settings);
  const limiter = new RateLimiter(context.bus, settings.rateLimit > 0);

  return (exchange) => {
    exchange.requestId = requestIdOf(exchange.head.headers["x-request-id"], env);
    const { path } = exchange.head;
    const found = router.find(exchange.head.method, path);
    const label = found.kind === "route" ? `${found.route.method} ${found.route.path}` : "unknown";
    const answer = (reply: Reply): void => {
      const status = reply.kind === "stream" || reply.kind === "pieces" ? 200 : reply.status;
      metrics.count("svc_http_requests_total", [label, String(status)]);
      exchange.reply(reply);
    };
    handle(exchange, found).then(answer, (error: unknown) => {
      const refused = SvcError.from(error);
      if (refused.code === "internal_error") log.error({ err: refused.cause ?? refused, request_id: exchange.requestId, route: label }, "request failed");
      const translate = found.kind === "route" ? found.route.refusal : refusal;
      answer(translate(refused, exchange.requestId));
    });
  };

  async function handle(exchange: Exchange, found: Found): Promise<Reply> {
    const { head } = exchange;
    if (settings.hstsMaxAgeSeconds > 0 && isTls(exchange)) exchange.extraHeaders.push(hsts());
    for (const [name, value] of origins.check(head)) exchange.extraHeaders.push([name, value]);
    if (head.repeatedHeader !== null) throw new SvcError("invalid_header", { detail: `${head.repeatedHeader} is there more than once` });
    if (origins.isPreflight(head)) return { kind: "text", status: 204, contentType: "text/plain", body: "", headers: preflightHeaders };

    const route = found.kind === "route" ? found.route : null;
    checkDeclaredLength(head.headers["content-length"], route);
    const isPublic = route?.access === "public" || (route?.access === "docs" && settings.docsPublic);
    const identity = isPublic ? null : await identify(exchange);
    if (route?.unlimited !== true) await limiter.take(caller(exchange, identity));
    const principal = identity === null ? nobody : principalOf(identity);
    if (route === null) return notARoute(found, head.method);
    if (context.draining() && route.access !== "public") throw new SvcError("shutting_down");
    admitTo(route, principal);

    const params = route.params === null ? noValues : validate(route.params, { ...(found as Extract<Found, { kind: "route" }>).params }, "path");
    const query = route.query === null ? noValues : readQuery(route.query, head.query);
    const rawBody = route.method === "GET" ? noBody : await exchange.body(route.bodyBytesMax);
    const body = route.body === null ? undefined : validate(route.body, readJsonBody(rawBody, head.headers["content-type"]), "body");
    const request: RouteRequest<unknown, unknown, unknown> = {
      params,
      query,
      body,
      rawBody,
      principal,
      requestId: exchange.requestId,
      exchange,
    };
    return route.handle(request as RouteRequest<never, never, never>, context);
  }

  function identify(exchange: Exchange): Identity | Promise<Identity> {
    const { authorization, "x-api-key": x_api_key } = exchange.head.headers;
    return authenticator.identify({ authorization, x_api_key });
  }

  /** Against whom a request counts: the tenant, or the address of who has shown nothing (decision 38). */
  function caller(exchange: Exchange, identity: Identity | null): string {
    if (identity?.principal) return identity.principal.tenant_id;
    const header = settings.trustedClientIpHeader.toLowerCase();
    const told = header === "" ? undefined : exchange.head.headers[header];
    return `address/${(told ?? exchange.remoteAddress()).slice(0, 64)}`;
  }

  function admitTo(route: Route, principal: Principal): void {
    const { access } = route;
    if (access === "chat:read") requireChat(principal, settings.chatScopes, "read");
    else if (access === "chat:write") requireChat(principal, settings.chatScopes, "write");
    else if (typeof access !== "string") requireScopes(principal, access);
  }

  /** Only behind a proxy that is trusted can a request have come over TLS. */
  function isTls(exchange: Exchange): boolean {
    if (settings.trustedClientIpHeader === "") return false;
    const forwarded = exchange.head.headers["x-forwarded-proto"] ?? "";
    return forwarded.split(",").at(-1)?.trim().toLowerCase() === "https";
  }

  function hsts(): [string, string] {
    const subdomains = settings.hstsIncludeSubdomains ? "; includeSubDomains" : "";
    return ["strict-transport-security", `max-age=${settings.hstsMaxAgeSeconds}${subdomains}`];
  }
}

const noValues = {};
const noBody = Buffer.alloc(0);

function checkDeclaredLength(declared: string | undefined, route: Route | null): void {
  if (declared === undefined || route === null) return;
  if (!/^\d{1,15}$/.test(declared)) throw new SvcError("invalid_header", { detail: "content-length is not a number" });
  if (Number(declared) > route.bodyBytesMax) throw new SvcError("payload_too_large");
}

function notARoute(found: Found, method: string): Reply {
  if (found.kind === "ambiguous") throw new SvcError("invalid_path");
  if (found.kind !== "other_methods") throw new SvcError("not_found");
  const headers = { allow: found.allow.join(", ") };
  if (method === "OPTIONS") return { kind: "text", status: 204, contentType: "text/plain", body: "", headers };
  const body = '{"error":"method_not_allowed","detail":"method_not_allowed"}';
  return { kind: "json", status: 405, body, headers };
}
