import { createHash } from "node:crypto";
import type { Logger } from "pino";
import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { Store, WriteOp } from "../../storage/store/store.ts";
import { putSignInGrantOps } from "../../storage/tables/sign-in-grants.ts";
import { auditOp } from "../audit.ts";
import type { Outgoing } from "../egress/outgoing.ts";
import { accountOf, type Connections, type HostTokens, readTokens } from "../repos/connections.ts";
import type { SecretMask } from "../secret-mask.ts";
import type { Settings } from "../settings/settings.ts";
import { type SignInScheme, signToken } from "./access-tokens.ts";
import type { NamedGrant } from "./entries.ts";
import { type Flow, SignInFlows, unlessConflict } from "./flows.ts";
import { Github, type RedeemedTokens, slowerSeconds } from "./github.ts";
import { Google } from "./google.ts";
import { grantOf } from "./grants.ts";
import { ProviderClient } from "./provider-client.ts";
import { type SignInDetails, signInRefusal } from "./refusal.ts";
import { Workflows } from "./workflows.ts";

/** An identity provider for people. */
export type Provider = "github" | "google";

/** The services that sign-in needs. */
export interface SignInDeps {
  readonly settings: Settings;
  readonly store: Store;
  readonly env: Env;
  readonly mask: SecretMask;
  readonly log: Logger;
  readonly outgoing: Pick<Outgoing, "whole">;
  readonly connections: Pick<Connections, "keep">;
}

/** The answer with an access token. */
export interface TokenAnswer {
  readonly access_token: string;
  readonly token_type: "Bearer";
  readonly expires_in: number;
  readonly tenant: string;
  readonly scopes: readonly string[];
  readonly github_login: string;
}

/** A signed-in account or workflow, before its token. */
interface SignedIn extends NamedGrant {
  readonly sub: string;
  readonly scheme: SignInScheme;
  readonly github_login: string;
  /** The account and its tokens, for a sign-in that makes a connection; absent for none. */
  readonly connects?: {
    readonly account: { readonly id: number; readonly login: string };
    readonly tokens: HostTokens;
  };
}

interface DeviceFlow {
  readonly device_code: string;
  /** Seconds between two polls, as the provider last said. */
  readonly interval: number;
  /** The time of the last poll that went to the provider; 0 before the first. */
  readonly polled_at: number;
  readonly address: string;
  /** The provider's token of a confirmed device, until the sign-in ends; absent before. */
  readonly token?: string;
}

interface RedirectFlow {
  readonly provider: Provider;
  readonly browser: string;
  readonly verifier: string;
  readonly nonce: string;
  readonly return_to: string;
  readonly tenant: string | null;
}

/** The end of a sign-in in a browser: where the browser goes, and the cookie for the exchange. */
export interface BrowserReturn {
  readonly location: string;
  /** Null after a refusal. */
  readonly cookie: string | null;
}

const hourMs = 3_600_000;
const minuteMs = 60_000;
/** Time for a sign-in in a browser, and then for its exchange. */
export const redirectMs = 600_000;
export const exchangeMs = 60_000;
const redirectStartsPerMinute = 10;
/** Time by which a poll of a device may come early, because requests take different times on the way. */
const earlyMs = 500;
/** Max times that the token of a device is written, if other polls change its row at the same time. */
const keepTriesMax = 3;
/** Scopes that tokens of devices never get, because an attacker may trick a person into confirming a code (decision 250). */
const notForDevices: ReadonlySet<string> = new Set(["*", "admin", "keys:write"]);

/** Signs people and workflows in. Each method refuses with a SvcError of the sign-in table (document 1). */
export class SignIn {
  readonly #deps: SignInDeps;
  readonly #flows: SignInFlows;
  readonly #github: Github;
  readonly #google: Google;
  readonly #workflows: Workflows;

  constructor(deps: SignInDeps) {
    const { settings, store, env, outgoing } = deps;
    this.#deps = deps;
    this.#flows = new SignInFlows(store, env, settings);
    const seconds = settings.githubTimeoutSeconds;
    const github = new ProviderClient(outgoing, seconds, "github_unavailable");
    this.#github = new Github(github, settings);
    this.#google = new Google(new ProviderClient(outgoing, seconds, "google_unavailable"), settings, env);
    this.#workflows = new Workflows(github, settings, env);
  }

  /** Starts a sign-in by device for a client at an address. */
  async startDevice(address: string) {
    const { githubDeviceStartsPerHour, githubDeviceStartsPerHourTotal } = this.#deps.settings;
    await this.#countStart(`device ${address}`, githubDeviceStartsPerHour, hourMs);
    await this.#countStart("device", githubDeviceStartsPerHourTotal, hourMs);
    const { device_code, ...start } = await this.#github.startDevice();
    const handle = this.#newHandle();
    const flow: DeviceFlow = { device_code, interval: start.interval, polled_at: 0, address };
    await this.#flows.add("device", handle, flow, start.expires_in * 1_000);
    return { device_code: handle, ...start };
  }

  /** Returns the token of a confirmed sign-in by device, once. */
  async pollDevice(handle: string, tenant: string | null, address: string): Promise<TokenAnswer> {
    const flow = await this.#flows.read<DeviceFlow>("device", handle);
    if (flow === null) throw signInRefusal("invalid_device_code");
    const { interval, polled_at, address: startedAt } = flow.value;
    const now = this.#deps.env.now();
    const isEarly = now < polled_at + interval * 1_000 - earlyMs;
    const value = { ...flow.value, polled_at: now };
    // Of polls at once, one goes to the provider.
    const polled = isEarly ? null : await this.#flows.replace("device", handle, flow, value);
    if (polled === null) throw signInRefusal("slow_down", { interval: interval + slowerSeconds });
    const confirmed = value.token === undefined ? await this.#confirm(handle, polled) : polled;
    const signedIn = await this.#githubAccount(String(confirmed.value.token), tenant).catch(async (error: unknown) => {
      // A later poll can read the account, with the token that the provider gives once.
      if (SvcError.from(error).code !== "github_unavailable") await this.#flows.remove("device", handle, confirmed);
      throw error;
    });
    const scopes = signedIn.scopes.filter((scope) => !notForDevices.has(scope));
    const spent = this.#flows.removeOp("device", handle, confirmed);
    const how = { by: "device", started_at: startedAt, address };
    return this.#token({ ...signedIn, scopes }, how, { op: spent, refusal: "invalid_device_code" });
  }

  /** Asks the provider for the token of a device, and stores it. Refuses while the device is not confirmed. */
  async #confirm(handle: string, polled: Flow<DeviceFlow>): Promise<Flow<DeviceFlow>> {
    const { device_code, interval } = polled.value;
    let token: string;
    try {
      token = await this.#github.pollDevice(device_code, interval);
    } catch (error) {
      const { code, details } = SvcError.from(error);
      const { interval: slower = interval } = (details.detail ?? {}) as SignInDetails;
      const value = { ...polled.value, interval: slower };
      if (finalCodes.has(code)) await this.#flows.remove("device", handle, polled);
      else if (slower !== interval) await this.#flows.replace("device", handle, polled, value);
      throw error;
    }
    // A later poll may have changed the row since, so it is read again.
    for (let tries = 0; tries < keepTriesMax; tries++) {
      const flow = await this.#flows.read<DeviceFlow>("device", handle);
      const kept = flow && (await this.#flows.replace("device", handle, flow, { ...flow.value, token }));
      if (kept) return kept;
    }
    throw signInRefusal("invalid_device_code");
  }

  /** Starts a sign-in in a browser. Refuses with return_to_not_allowed. `cookie` binds it to the browser. */
  async startRedirect(provider: Provider, returnTo: string, tenant: string | null, address: string) {
    const return_to = this.#pageOf(returnTo);
    if (return_to === null) throw signInRefusal("return_to_not_allowed");
    await this.#countStart(`redirect ${address}`, redirectStartsPerMinute, minuteMs);
    const [state, browser, verifier, nonce] = [
      this.#newHandle(),
      this.#newHandle(),
      this.#newHandle(),
      this.#newHandle(),
    ];
    const flow: RedirectFlow = { provider, browser, verifier, nonce, return_to, tenant };
    const asked = { redirectUri: this.#callback(provider), state, challenge: sha256(verifier), nonce };
    const location = provider === "github" ? this.#github.authorizeUrl(asked) : await this.#google.authorizeUrl(asked);
    await this.#flows.add("redirect", state, flow, redirectMs);
    return { location, cookie: browser };
  }

  /**
   * Ends a sign-in in a browser with what the provider sent. Refuses with invalid_state if there is no page to return to; any other refusal
   * is a part of the location.
   */
  async endRedirect(
    provider: Provider,
    sent: { readonly code?: string; readonly state?: string; readonly error?: string },
    cookie: string,
  ): Promise<BrowserReturn> {
    const flow = await this.#flows.read<RedirectFlow>("redirect", sent.state ?? "");
    // Compares the provider too, so that an answer of one is not taken for one of the other (decision 249).
    const isOurs = flow !== null && flow.value.provider === provider && flow.value.browser === cookie;
    const isFirst = isOurs && (await this.#flows.remove("redirect", sent.state ?? "", flow));
    if (!isFirst) return this.#lostBrowser();
    const { return_to, tenant, verifier, nonce } = flow.value;
    try {
      if (sent.error !== undefined || sent.code === undefined)
        throw signInRefusal(sent.error === "access_denied" ? "access_denied" : "invalid_state");
      const callback = this.#callback(provider);
      const signedIn =
        provider === "github"
          ? await this.#githubInBrowser(await this.#github.redeem(sent.code, verifier, callback), tenant)
          : await this.#googleAccount(await this.#google.account(sent.code, verifier, callback, nonce), tenant);
      const cookie = this.#newHandle();
      await this.#flows.add("exchange", `${provider} ${cookie}`, signedIn.account, exchangeMs);
      return { location: `${return_to}#${fragment({ svc_login: "ok", login: signedIn.login })}`, cookie };
    } catch (error) {
      const refused = SvcError.from(error);
      const { code, details } = refused;
      // The answer is a redirect, so the server logs no failed request.
      if (code === "internal_error")
        this.#deps.log.error({ err: refused.cause ?? refused, provider }, "sign-in failed");
      const login = (details.detail as SignInDetails | undefined)?.github_login;
      const words = { svc_login_error: code, ...(login !== undefined && { login }) };
      return { location: `${return_to}#${fragment(words)}`, cookie: null };
    }
  }

  /** Returns the token of a sign-in in a browser, once. Refuses with invalid_login. */
  async exchange(provider: Provider, cookie: string, address: string): Promise<TokenAnswer> {
    const handle = `${provider} ${cookie}`;
    const flow = await this.#flows.read<SignedIn>("exchange", handle);
    if (flow === null) throw signInRefusal("invalid_login");
    const { tenant, connects } = flow.value;
    if (connects) await this.#deps.connections.keep(tenant, connects.account, connects.tokens);
    const spent = this.#flows.removeOp("exchange", handle, flow);
    return this.#token(flow.value, { by: "browser", address }, { op: spent, refusal: "invalid_login" });
  }

  /** Returns the token of a workflow. Its id token is spent by the first success only. */
  async workflow(idToken: string, tenant: string | null, address: string): Promise<TokenAnswer> {
    const { jti, repository_id, expiresAt, grants } = await this.#workflows.run(idToken);
    const grant = grantOf(grants, tenant);
    const leftMs = Math.max(0, expiresAt - this.#deps.env.now()) + 120_000;
    const sub = `github_actions:${repository_id}`;
    return this.#token(
      { ...grant, sub, scheme: "github_actions", github_login: "" },
      { by: "workflow", address },
      { op: this.#flows.addOp("token", jti, {}, leftMs), refusal: "invalid_id_token" },
    );
  }

  async #githubAccount(token: string, tenant: string | null): Promise<SignedIn & Named> {
    const { id, login, grants } = await this.#github.account(token);
    const grant = grantOf(grants, tenant, { github_login: login });
    const account: SignedIn = { ...grant, sub: `github:${id}`, scheme: "github", github_login: login };
    return { ...account, account, login };
  }

  /** A sign-in in a browser also connects the account, if the deployment keeps tokens. One by device never does (decision 250). */
  async #githubInBrowser(redeemed: RedeemedTokens, tenant: string | null): Promise<SignedIn & Named> {
    const named = await this.#githubAccount(redeemed.access_token, tenant);
    const { settings, env } = this.#deps;
    const tokens = settings.githubKeepTokens ? readTokens(redeemed, env.now()) : null;
    const id = accountOf(named.account);
    if (tokens === null || id === null) return named;
    return { ...named, account: { ...named.account, connects: { account: { id, login: named.login }, tokens } } };
  }

  async #googleAccount(
    found: Awaited<ReturnType<Google["account"]>>,
    tenant: string | null,
  ): Promise<SignedIn & Named> {
    const { sub, email, grants } = found;
    const grant = grantOf(grants, tenant, { github_login: email });
    const account: SignedIn = { ...grant, sub: `google:${sub}`, scheme: "google", github_login: "" };
    return { ...account, account, login: email };
  }

  /**
   * Returns an access token, and records it. `spent` marks the proof as used in the same batch, so that a caller can repeat it after a failure
   * of the store.
   */
  async #token(
    signedIn: SignedIn,
    how: Readonly<Record<string, string>>,
    spent?: { readonly op: WriteOp; readonly refusal: "invalid_device_code" | "invalid_login" | "invalid_id_token" },
  ): Promise<TokenAnswer> {
    const { settings, env, store, mask } = this.#deps;
    const { tenant, sub, scopes, entries, scheme, github_login } = signedIn;
    const isWorkflow = scheme === "github_actions";
    const expires_in = isWorkflow ? settings.githubOidcTtlSeconds : settings.tokenTtlSeconds;
    const access_token = await signToken({ tenant, sub, scopes, scheme, github_login }, expires_in, settings, env);
    const ofTenant = store.tenant(tenant);
    const event_type = scheme === "google" ? "google_login" : "github_login";
    const row = { manifest_id: "", principal_subj: sub, payload: { scheme, github_login, scopes, expires_in, ...how } };
    const audited = auditOp(ofTenant, { env, mask }, { event_type, status: "ok", ...row });
    const kept = [...putSignInGrantOps(ofTenant, { sub, entries, scopes }), audited];
    if (spent === undefined) await ofTenant.write(kept);
    else if (!(await unlessConflict(ofTenant.write([spent.op, ...kept])))) throw signInRefusal(spent.refusal);
    return { access_token, token_type: "Bearer", expires_in, tenant, scopes, github_login };
  }

  async #countStart(name: string, most: number, periodMs: number): Promise<void> {
    const retryAfter = await this.#flows.count(name, most, periodMs);
    if (retryAfter !== null) throw signInRefusal("rate_limited", { interval: retryAfter });
  }

  /** 256 random bits. */
  #newHandle(): string {
    return this.#deps.env.id() + this.#deps.env.id();
  }

  #callback(provider: Provider): string {
    return `${this.#deps.settings.publicUrl}/auth/${provider}/callback`;
  }

  /** The answer to a callback of an unknown sign-in. It goes to the server's own console, never to a page that the request names. */
  #lostBrowser(): BrowserReturn {
    const { publicUrl, console: hasConsole, loginReturnOrigins } = this.#deps.settings;
    const page = hasConsole ? `${publicUrl}/console` : loginReturnOrigins[0];
    if (page === undefined) throw signInRefusal("invalid_state");
    return { location: `${page}#${fragment({ svc_login_error: "invalid_state" })}`, cookie: null };
  }

  /** Returns the page that a browser may return to, as its URL was read; null if it may not. */
  #pageOf(returnTo: string): string | null {
    const { publicUrl, loginReturnOrigins } = this.#deps.settings;
    const url = notInUrls.test(returnTo) ? null : URL.parse(returnTo);
    if (url === null || url.hash !== "" || url.username !== "" || url.password !== "") return null;
    return [new URL(publicUrl).origin, ...loginReturnOrigins].includes(url.origin) ? url.href : null;
  }
}

interface Named {
  readonly account: SignedIn;
  readonly login: string;
}

/** Characters that parsers of URLs drop or change: control characters, blanks and backslashes. */
const notInUrls = /[\p{Cc}\s\\]/u;

/** Refusals after which a device code cannot succeed. */
const finalCodes: ReadonlySet<string> = new Set(["expired_token", "invalid_device_code", "access_denied"]);

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("base64url");
}

function fragment(words: Readonly<Record<string, string>>): string {
  return new URLSearchParams(words).toString();
}
