import type { Env } from "../../bus/env.ts";
import type { Settings } from "../settings/settings.ts";
import { accountGrant, type NamedGrant } from "./entries.ts";
import { IdTokens } from "./id-tokens.ts";
import type { ProviderClient } from "./provider-client.ts";
import { signInRefusal } from "./refusal.ts";

// Google's authorization code flow with PKCE and a nonce (OpenID Connect Core 1.0, 3.1).

type GoogleSettings = Pick<Settings, "googleClientId" | "googleClientSecret" | "googleIssuer" | "googleAccounts">;

interface Endpoints {
  readonly authorization_endpoint: string;
  readonly token_endpoint: string;
  readonly jwks_uri: string;
}

/** An account of Google, with the entries that admit it. */
export interface GoogleAccount {
  readonly sub: string;
  readonly email: string;
  readonly grants: readonly NamedGrant[];
}

/** Signs people in through Google. */
export class Google {
  readonly #client: ProviderClient;
  readonly #settings: GoogleSettings;
  readonly #idTokens: IdTokens;
  #endpoints: Endpoints | null = null;

  constructor(client: ProviderClient, settings: GoogleSettings, env: Pick<Env, "now" | "monotonic">) {
    this.#client = client;
    this.#settings = settings;
    const jwksUrl = async () => (await this.#found()).jwks_uri;
    this.#idTokens = new IdTokens(client, env, { jwksUrl, unavailable: "google_unavailable" });
  }

  /** Returns the page of Google where a person confirms a sign-in. */
  async authorizeUrl(asked: { redirectUri: string; state: string; challenge: string; nonce: string }): Promise<string> {
    const { authorization_endpoint } = await this.#found();
    const query = new URLSearchParams({
      ...{ client_id: this.#settings.googleClientId, redirect_uri: asked.redirectUri, response_type: "code" },
      ...{ scope: "openid email", state: asked.state, nonce: asked.nonce },
      ...{ code_challenge: asked.challenge, code_challenge_method: "S256" },
    });
    return `${authorization_endpoint}?${query}`;
  }

  /** Returns the account for the code of a callback. Refuses with not_allowed if no entry admits it. */
  async account(code: string, verifier: string, redirectUri: string, nonce: string): Promise<GoogleAccount> {
    const { googleClientId: client_id, googleClientSecret: client_secret, googleIssuer } = this.#settings;
    const { token_endpoint } = await this.#found();
    const { body } = await this.#client.post(token_endpoint, {
      ...{ client_id, client_secret, code, code_verifier: verifier, redirect_uri: redirectUri },
      grant_type: "authorization_code",
    });
    if (typeof body.id_token !== "string") throw signInRefusal(codes[String(body.error)] ?? "google_unavailable");
    // Google signs with its host name alone, too.
    const issuers = [googleIssuer, googleIssuer.replace(/^https:\/\//, "")];
    const claims = await this.#idTokens.verify(body.id_token, issuers, client_id);
    const { sub, email, email_verified, hd, nonce: shown } = claims ?? {};
    if (sub === undefined || typeof email !== "string" || shown !== nonce) throw signInRefusal("google_unavailable");
    if (email_verified !== true) throw signInRefusal("not_allowed", { github_login: email });
    const grants = this.#grantsOf(email.toLowerCase(), hd);
    if (grants.length === 0) throw signInRefusal("not_allowed", { github_login: email });
    return { sub, email, grants };
  }

  /** An entry for a domain needs the claim hd, which only accounts of a Workspace have. */
  #grantsOf(email: string, hd: unknown): NamedGrant[] {
    const domain = typeof hd === "string" && email.endsWith(`@${hd.toLowerCase()}`) ? `@${hd.toLowerCase()}` : null;
    const own = this.#settings.googleAccounts.filter(({ account }) => account === email || account === domain);
    return own.map(accountGrant);
  }

  async #found(): Promise<Endpoints> {
    if (this.#endpoints !== null) return this.#endpoints;
    const { status, body } = await this.#client.get(`${this.#settings.googleIssuer}/.well-known/openid-configuration`);
    const { issuer, authorization_endpoint, token_endpoint, jwks_uri } = body;
    const all = [authorization_endpoint, token_endpoint, jwks_uri];
    if (status !== 200 || issuer !== this.#settings.googleIssuer || !all.every((url) => typeof url === "string"))
      throw signInRefusal("google_unavailable");
    this.#endpoints = { authorization_endpoint, token_endpoint, jwks_uri } as Endpoints;
    return this.#endpoints;
  }
}

const codes: Readonly<Record<string, "google_config_error" | "invalid_state">> = {
  invalid_client: "google_config_error",
  unauthorized_client: "google_config_error",
  redirect_uri_mismatch: "google_config_error",
  invalid_grant: "invalid_state",
};
