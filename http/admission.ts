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
import type { Settings } from "../governance/settings/settings.ts";
import type { HttpContext } from "./context.ts";
import type { Exchange } from "./engines/exchange.ts";
import { openAiRefusal } from "./exchange/openai-refusal.ts";
import { type Reply, refusal } from "./exchange/reply.ts";
import { meantPath } from "./meant-path.ts";
import { clientAddress } from "./middleware/address-caller.ts";
import { type CorsHeaders, corsHeaders, embeddedAs, OriginGuard, preflightHeaders } from "./middleware/origin.ts";
import type { RateLimiter } from "./middleware/rate-limit.ts";
import { isTls } from "./middleware/tls.ts";
import { bodyBytesDefault, type Route } from "./route.ts";
import type { Found, Router } from "./router.ts";

/** The principal of a public route, which has no caller. */
const nobody: Principal = { tenant_id: "", sub: "anonymous", scopes: [], scheme: "anonymous", issuer: "" };

/** A request that a route answers, with its caller. */
export interface Admitted {
  readonly route: Route;
  readonly params: Readonly<Record<string, string>>;
  readonly principal: Principal;
}

/** The checks before the body of a request: host and origin, declared length, rate limit, credentials and scopes. */
export class Admission {
  readonly #context: HttpContext;
  readonly #settings: Settings;
  readonly #router: Router;
  readonly #paths: readonly string[];
  readonly #authenticator: Authenticator;
  readonly #origins: OriginGuard;
  readonly #limiter: RateLimiter;
  /** The principal of callers without credentials; null where they are refused. */
  readonly #anonymous: Principal | null;

  constructor(routes: readonly Route[], router: Router, context: HttpContext, authenticator: Authenticator) {
    const { settings } = context;
    this.#context = context;
    this.#settings = settings;
    this.#router = router;
    this.#paths = [...new Set(routes.map(({ path }) => path))];
    this.#authenticator = authenticator;
    this.#origins = new OriginGuard(settings);
    this.#limiter = context.rates;
    this.#anonymous = anonymousPrincipal(settings);
  }

  /** Returns the route and its principal, or a reply if no route must run. */
  async admit(exchange: Exchange, found: Found): Promise<Admitted | Reply> {
    const { head } = exchange;
    if (this.#settings.hstsMaxAgeSeconds > 0 && isTls(head, this.#settings)) exchange.extraHeaders.push(this.#hsts());
    // A preflight finds the path with other methods.
    const anyHost =
      found.kind === "route"
        ? found.route.anyHost
        : found.kind === "other_methods" &&
          this.#origins.isPreflight(head) &&
          found.routes.every((route) => route.anyHost);
    if (anyHost) this.#origins.checkHostForm(head);
    else this.#origins.checkHost(head);
    const routes = found.kind === "route" ? [found.route] : found.kind === "other_methods" ? found.routes : [];
    const cors = routes.some(({ crossSite }) => crossSite !== null)
      ? await this.#checkCrossSite(exchange, routes)
      : this.#origins.checkOrigin(head);
    for (const [name, value] of cors) exchange.extraHeaders.push([name, value]);
    if (head.fault !== null) throw head.fault;
    if (this.#origins.isPreflight(head))
      return { kind: "text", status: 204, contentType: "text/plain", body: "", headers: preflightHeaders(head) };

    const bytesMax = found.kind === "route" ? found.route.bodyBytesMax : bodyBytesDefault;
    checkDeclaredLength(head.headers["content-length"], bytesMax);
    const { isPublic, unlimited } = this.#gate(found, head.path);
    const identity = isPublic ? null : await this.#identify(exchange);
    // A route with credentials accepts any Host only with a valid credential. Without credentials, DNS rebinding could read it.
    if (anyHost && identity !== null && !hasCredential(identity)) this.#origins.checkHost(head);
    if (!unlimited) await this.#limiter.take(this.#caller(exchange, identity));
    const anonymous = this.#anonymous;
    const isAnonymous = anonymous !== null && identity?.reason === unauthorizedReasons.missing && isForAnonymous(found);
    // Count by address first, so that one address cannot use up the limit that all anonymous callers share.
    if (isAnonymous && !unlimited) await this.#limiter.take(anonymous.tenant_id);
    const principal = isAnonymous ? anonymous : identity === null ? nobody : principalOf(identity);
    if (found.kind !== "route")
      return notARoute(found, head, isPublic ? [] : this.#paths, exchange.requestId, (path) =>
        this.#baseUrlAdvice(path),
      );
    const { route, params } = found;
    if (this.#context.closing() && route.access !== "public") throw new SvcError("shutting_down");
    this.#admitTo(route, principal);
    return { route, params, principal };
  }

  /**
   * Returns the CORS headers of the answer. Refuses with origin_not_allowed a page of another site that may use none of the routes, which
   * are all those of the path for a preflight.
   */
  async #checkCrossSite(exchange: Exchange, routes: readonly Route[]): Promise<CorsHeaders> {
    const { head } = exchange;
    for (const { crossSite } of routes) {
      const { origin } = head.headers;
      if (crossSite === null) continue;
      if (crossSite === "frame") exchange.isFramed = true;
      if (origin === undefined && crossSite === embeddedAs(head)) return [];
      if (origin === undefined || typeof crossSite === "string") continue;
      if (await crossSite(origin, head, this.#context)) return corsHeaders(origin);
    }
    return this.#origins.checkOrigin(head);
  }

  /**
   * Returns whether a request needs authentication and rate limiting. For a path without a route for the method, all methods of the path
   * decide.
   */
  #gate(found: Found, path: string): { isPublic: boolean; unlimited: boolean } {
    const routes = found.kind === "route" ? [found.route] : found.kind === "other_methods" ? found.routes : [];
    if (routes.length === 0) {
      // An unknown well-known path is a public 404.
      const wellKnown = path.startsWith("/.well-known/");
      // Senders of trigger events have no credentials, also where no trigger is configured.
      const isOfSender = this.#settings.triggers.length === 0 && path.startsWith("/triggers/");
      return { isPublic: wellKnown || isOfSender, unlimited: wellKnown };
    }
    return {
      isPublic: routes.every(({ access }) => access === "public" || (access === "docs" && this.#settings.docsPublic)),
      unlimited: routes.every((route) => route.unlimited),
    };
  }

  /** Returns the advice for a wrong base URL: a path that exists only below /v1, or that contains /v1 twice. Null for every other path. */
  #baseUrlAdvice(path: string): string | null {
    const isThere = (meant: string): boolean =>
      isOpenAi(meant) && ["route", "other_methods"].includes(this.#router.find("POST", meant).kind);
    if (isThere(`/v1${path}`)) return "The base URL of an OpenAI client must end in /v1.";
    return isThere(path.slice("/v1".length))
      ? "The path has /v1 twice: remove /v1 from the base URL or from the path."
      : null;
  }

  #identify(exchange: Exchange): Identity | Promise<Identity> {
    const { authorization, "x-api-key": x_api_key } = exchange.head.headers;
    return this.#authenticator.identify({ authorization, x_api_key });
  }

  /** Returns the key of the rate limit: the tenant, or the client address of a request without valid credentials. */
  #caller(exchange: Exchange, identity: Identity | null): string {
    return identity?.principal?.tenant_id ?? clientAddress(exchange, this.#settings);
  }

  #admitTo(route: Route, principal: Principal): void {
    const { access } = route;
    // Callers that the manifest admits as anonymous need no scope.
    if (principal === this.#anonymous) return;
    if (access === "chat:read") requireChat(principal, this.#settings.chatScopes, "read");
    else if (access === "chat:write") requireChat(principal, this.#settings.chatScopes, "write");
    else if (access === "docs" && !this.#settings.docsPublic) requireChat(principal, "any", "read");
    else if (typeof access !== "string") requireScopes(principal, access);
  }

  #hsts(): [string, string] {
    const subdomains = this.#settings.hstsIncludeSubdomains ? "; includeSubDomains" : "";
    return ["strict-transport-security", `max-age=${this.#settings.hstsMaxAgeSeconds}${subdomains}`];
  }
}

/** True if the caller proved its identity; always false in mode none. */
function hasCredential({ principal }: Identity): boolean {
  return principal !== null && principal.scheme !== "none";
}

/** True if the matched route accepts callers without credentials. Other methods of its path do not inherit this. */
function isForAnonymous(found: Found): boolean {
  return found.kind === "route" && found.route.anonymous;
}

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
