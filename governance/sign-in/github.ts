import type { Settings } from "../settings/settings.ts";
import { inviteGrant, type NamedGrant, orgGrant } from "./entries.ts";
import type { ProviderAnswer, ProviderClient } from "./provider-client.ts";
import { signInRefusal } from "./refusal.ts";

// GitHub's OAuth app flows: device (RFC 8628) and browser (with PKCE). Accounts, organisations and teams match by numeric id.

type GithubSettings = Pick<
  Settings,
  | "githubClientId"
  | "githubClientSecret"
  | "githubUrl"
  | "githubApiUrl"
  | "githubOrgs"
  | "githubSignup"
  | "githubInvites"
>;

/** An account of GitHub, with the entries that admit it. */
export interface GithubAccount {
  readonly id: number;
  readonly login: string;
  readonly grants: readonly NamedGrant[];
}

/** The answer of the token endpoint. */
export type RedeemedTokens = Readonly<Record<string, unknown>> & { readonly access_token: string };

/** The start of a sign-in by device. */
export interface DeviceStart {
  readonly device_code: string;
  readonly user_code: string;
  readonly verification_uri: string;
  readonly expires_in: number;
  readonly interval: number;
}

const scope = "read:org";
/** Seconds by which `slow_down` increases the interval (RFC 8628, 3.5). */
export const slowerSeconds = 5;
const intervalDefault = 5;
const teamsPageSize = 100;
const teamPagesMax = 10;

/** Signs people in through GitHub. */
export class Github {
  readonly #client: ProviderClient;
  readonly #settings: GithubSettings;

  constructor(client: ProviderClient, settings: GithubSettings) {
    this.#client = client;
    this.#settings = settings;
  }

  /** Starts a sign-in by device. */
  async startDevice(): Promise<DeviceStart> {
    const { githubUrl, githubClientId: client_id } = this.#settings;
    const answer = await this.#client.post(`${githubUrl}/login/device/code`, { client_id, scope });
    const { device_code, user_code, verification_uri, expires_in = 900, interval = intervalDefault } = answer.body;
    if (typeof device_code !== "string" || typeof user_code !== "string" || typeof verification_uri !== "string")
      throw refusalOf(answer);
    return { device_code, user_code, verification_uri, expires_in: Number(expires_in), interval: Number(interval) };
  }

  /** Returns the provider's token of a confirmed device code. Refuses while it is not confirmed; `interval` is that of the last answer. */
  async pollDevice(device_code: string, interval: number): Promise<string> {
    const { githubUrl, githubClientId: client_id } = this.#settings;
    const answer = await this.#client.post(`${githubUrl}/login/oauth/access_token`, {
      ...{ client_id, device_code, grant_type: "urn:ietf:params:oauth:grant-type:device_code" },
    });
    if (typeof answer.body.access_token === "string") return answer.body.access_token;
    throw refusalOf(answer, interval);
  }

  /** Returns the page of the code host where a person confirms a sign-in in the browser. */
  authorizeUrl({ redirectUri, state, challenge }: { redirectUri: string; state: string; challenge: string }): string {
    const { githubUrl, githubClientId: client_id } = this.#settings;
    const query = new URLSearchParams({ client_id, redirect_uri: redirectUri, scope, state, allow_signup: "false" });
    query.set("code_challenge", challenge);
    query.set("code_challenge_method", "S256");
    return `${githubUrl}/login/oauth/authorize?${query}`;
  }

  /** Returns the provider's answer with the tokens for the code of a callback. */
  async redeem(code: string, verifier: string, redirectUri: string): Promise<RedeemedTokens> {
    const { githubUrl, githubClientId: client_id, githubClientSecret: client_secret } = this.#settings;
    const answer = await this.#client.post(`${githubUrl}/login/oauth/access_token`, {
      ...{ client_id, client_secret, code, redirect_uri: redirectUri, code_verifier: verifier },
    });
    if (typeof answer.body.access_token === "string") return answer.body as RedeemedTokens;
    throw refusalOf(answer);
  }

  /**
   * Returns the account of a provider's token, with the entries that admit it. Refuses with not_a_member, not_invited or
   * org_access_restricted if none does.
   */
  async account(token: string): Promise<GithubAccount> {
    const { githubApiUrl, githubSignup, githubInvites } = this.#settings;
    const { body, status } = await this.#client.get(`${githubApiUrl}/user`, token);
    const { id, login } = body;
    if (status !== 200 || typeof id !== "number" || typeof login !== "string")
      throw signInRefusal("github_unavailable");
    const { grants, isRestricted } = await this.#memberships(token);
    const invites = githubSignup === "invite" ? githubInvites.filter((invite) => invite.id === id) : [];
    const all = [...grants, ...invites.map(inviteGrant)];
    if (all.length > 0) return { id, login, grants: all };
    if (isRestricted) throw signInRefusal("org_access_restricted", { github_login: login });
    throw signInRefusal(githubSignup === "invite" ? "not_invited" : "not_a_member", { github_login: login });
  }

  async #memberships(token: string): Promise<{ grants: NamedGrant[]; isRestricted: boolean }> {
    const { githubApiUrl, githubOrgs } = this.#settings;
    const grants: NamedGrant[] = [];
    let isRestricted = false;
    let teams: ReadonlySet<number> | null = null;
    for (const org of githubOrgs) {
      const { name, id, teams: wanted } = org;
      const { status, body } = await this.#client.get(`${githubApiUrl}/user/memberships/orgs/${name}`, token);
      // Any other status says nothing about the membership, for example that of a revoked token.
      if (![200, 403, 404].includes(status)) throw signInRefusal("github_unavailable");
      if (status === 403) isRestricted = true;
      const organization = body.organization as { id?: unknown } | undefined;
      if (status !== 200 || body.state !== "active" || organization?.id !== id) continue;
      if (wanted.length > 0) teams ??= await this.#teams(token);
      const grant = orgGrant(org, (team) => teams?.has(team) ?? false);
      if (grant !== null) grants.push(grant);
    }
    return { grants, isRestricted };
  }

  async #teams(token: string): Promise<ReadonlySet<number>> {
    const ids = new Set<number>();
    for (let page = 1; page <= teamPagesMax; page++) {
      const url = `${this.#settings.githubApiUrl}/user/teams?per_page=${teamsPageSize}&page=${page}`;
      const { status, list } = await this.#client.get(url, token);
      if (status !== 200) throw signInRefusal("github_unavailable");
      for (const team of list) ids.add(Number((team as { id?: unknown } | null)?.id));
      if (list.length < teamsPageSize) break;
    }
    return ids;
  }
}

/** Returns the refusal for an error of the token endpoint (RFC 6749, 5.2; RFC 8628, 3.5). */
function refusalOf({ body }: ProviderAnswer, interval = intervalDefault) {
  switch (body.error) {
    case "authorization_pending":
      return signInRefusal("authorization_pending", { interval });
    case "slow_down":
      return signInRefusal("slow_down", { interval: Number(body.interval ?? interval + slowerSeconds) });
    case "expired_token":
    case "access_denied":
      return signInRefusal(body.error);
    case "incorrect_device_code":
    case "bad_verification_code":
      return signInRefusal(body.error === "bad_verification_code" ? "invalid_state" : "invalid_device_code");
    case "incorrect_client_credentials":
    case "device_flow_disabled":
    case "unsupported_grant_type":
    case "redirect_uri_mismatch":
    case "Not Found":
      return signInRefusal("github_config_error");
    default:
      return signInRefusal("github_unavailable");
  }
}
