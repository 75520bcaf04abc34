import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import type { Store, TenantStore } from "../../storage/store/store.ts";
import {
  type ConnectionRow,
  claimConnectionOp,
  connectionOf,
  deleteConnectionOp,
  insertConnectionOp,
  refreshConnectionOp,
  replaceConnectionOp,
  revokeConnectionOp,
} from "../../storage/tables/github-connections.ts";
import { auditOp } from "../audit.ts";
import type { SecretMask } from "../secret-mask.ts";
import { openText, sealText } from "../secrets/sealed-text.ts";
import type { Settings } from "../settings/settings.ts";
import type { RepoApi } from "./repo-api.ts";

/** The tokens of an account, as the code host gives them. */
export interface HostTokens {
  readonly access_token: string;
  /** Epoch milliseconds; null for a token that does not expire. */
  readonly expires_at: number | null;
  readonly refresh_token: string | null;
  readonly refresh_expires_at: number | null;
}

/** A person of the code host. */
interface Account {
  readonly id: number;
  readonly login: string;
}

/** The services that connections need. */
export interface ConnectionDeps {
  readonly settings: Pick<
    Settings,
    "encryptionKey" | "githubKeepTokens" | "githubUrl" | "githubClientId" | "githubClientSecret"
  >;
  readonly store: Store;
  readonly env: Env;
  readonly mask: SecretMask;
  readonly host: RepoApi;
}

/** A valid token of a person. */
export interface ConnectedToken {
  readonly token: string;
  /** The version of the connection that has it. */
  readonly version: number;
}

/** Time before the end of a token at which it is refreshed. */
const earlyMs = 60_000;
/** Time for which one process may refresh a token, and the interval at which others look whether it has. */
const claimMs = 30_000;
const lookMs = 100;
const subjectPattern = /^github:(\d{1,15})$/;

/** The code-host accounts that people have connected (decision 235). Tokens are stored encrypted and leave to the code host only. */
export class Connections {
  readonly #deps: ConnectionDeps;

  constructor(deps: ConnectionDeps) {
    this.#deps = deps;
  }

  /** Stores the tokens of an account that has signed in, if the deployment keeps tokens. */
  async keep(tenantId: string, { id, login }: Account, tokens: HostTokens): Promise<void> {
    const { settings, store, env } = this.#deps;
    if (!settings.githubKeepTokens) return;
    const own = store.tenant(tenantId);
    const row = {
      ...{ github_user_id: id, github_login: login, tokens: this.#seal(tenantId, id, tokens) },
      ...{ updated_at: env.now(), refresh_expires_at: tokens.refresh_expires_at },
    };
    const audited = this.#audit(own, "github_connected", `github:${id}`, { id, login });
    // A sign-in elsewhere may have stored or removed the connection since.
    for (const op of [insertConnectionOp, replaceConnectionOp, insertConnectionOp])
      if (await unlessConflict(own.write([op(own, row), audited]))) return;
  }

  /** Returns the connection of a caller; undefined if there is none. */
  async of(principal: Principal): Promise<ConnectionRow | undefined> {
    const id = accountOf(principal);
    return id === null ? undefined : connectionOf(this.#deps.store.tenant(principal.tenant_id), id);
  }

  /**
   * Returns a valid token of the caller, refreshed if need be; null if the caller has connected nothing. Refuses with
   * github_connection_revoked and github_unavailable.
   */
  async tokenOf(principal: Principal): Promise<ConnectedToken | null> {
    const id = accountOf(principal);
    if (id === null) return null;
    const { store, env } = this.#deps;
    const own = store.tenant(principal.tenant_id);
    for (const until = env.now() + claimMs; env.now() < until; ) {
      const row = await connectionOf(own, id);
      if (row === undefined) return null;
      if (row.status === "revoked") throw new SvcError("github_connection_revoked");
      const tokens = this.#open(principal.tenant_id, row);
      if (tokens === null) throw new SvcError("github_connection_revoked");
      if (tokens.expires_at === null || tokens.expires_at - earlyMs > env.now())
        return { token: tokens.access_token, version: row.version };
      const refreshed = await this.#refresh(own, row, tokens);
      if (refreshed !== null) return refreshed;
      await new Promise<void>((resolve) => env.timer(lookMs, resolve));
    }
    throw new SvcError("github_unavailable");
  }

  /**
   * Marks the caller's connection after the code host has refused its token of a version. A newer token stays; the caller's next request
   * uses it.
   */
  async refused(principal: Principal, version: number): Promise<SvcError> {
    const { store, env } = this.#deps;
    const row = await this.of(principal);
    const own = store.tenant(principal.tenant_id);
    if (row === undefined || row.status === "revoked") return new SvcError("github_connection_revoked");
    if (row.version !== version) return new SvcError("github_unavailable");
    await own.write([revokeConnectionOp(own, row, env.now())]);
    return new SvcError("github_connection_revoked");
  }

  /** Deletes the connection of an account and revokes its token at the code host. False if there is none. */
  async remove(tenantId: string, id: number, by: string): Promise<boolean> {
    const { store, settings, host } = this.#deps;
    const own = store.tenant(tenantId);
    const row = await connectionOf(own, id);
    if (row === undefined) return false;
    const tokens = this.#open(tenantId, row);
    // The row is deleted first, so that no request uses the token after the answer, even if the code host fails.
    const audited = this.#audit(own, "github_disconnected", by, { id, login: row.github_login });
    await own.write([deleteConnectionOp(own, id), audited]);
    if (tokens !== null)
      await host
        .ask({
          method: "DELETE",
          path: `/applications/${encodeURIComponent(settings.githubClientId)}/token`,
          basic: [settings.githubClientId, settings.githubClientSecret],
          json: { access_token: tokens.access_token },
        })
        .catch(() => {});
    return true;
  }

  /** Returns a new token; null if another process has the refresh. */
  async #refresh(own: TenantStore, row: ConnectionRow, tokens: HostTokens): Promise<ConnectedToken | null> {
    const { env, host, settings } = this.#deps;
    const { refresh_token } = tokens;
    if (refresh_token === null) return this.#revoke(own, row);
    // A refresh token is good for one use, so the use is claimed before the call.
    const now = env.now();
    if (!(await unlessConflict(own.write([claimConnectionOp(own, row, now + claimMs, now)])))) return null;
    const claimed = { ...row, version: row.version + 1 };
    const { body } = await host.ask({
      method: "POST",
      path: `${settings.githubUrl}/login/oauth/access_token`,
      form: {
        ...{ client_id: settings.githubClientId, client_secret: settings.githubClientSecret },
        ...{ grant_type: "refresh_token", refresh_token },
      },
    });
    const fresh = readTokens(body, env.now());
    if (fresh === null && (body.error === "bad_refresh_token" || body.error === "invalid_grant"))
      return this.#revoke(own, claimed);
    if (fresh === null) throw new SvcError("github_unavailable");
    const sealed = this.#seal(own.tenantId, row.github_user_id, fresh);
    await own.write([refreshConnectionOp(own, claimed, sealed, fresh.refresh_expires_at, env.now())]);
    return { token: fresh.access_token, version: claimed.version + 1 };
  }

  async #revoke(own: TenantStore, row: ConnectionRow): Promise<never> {
    await own.write([revokeConnectionOp(own, row, this.#deps.env.now())]);
    throw new SvcError("github_connection_revoked");
  }

  #seal(tenantId: string, id: number, tokens: HostTokens): string {
    return sealText(JSON.stringify(tokens), ownerOf(tenantId, id), this.#deps.settings.encryptionKey, this.#deps.env);
  }

  #open(tenantId: string, row: ConnectionRow): HostTokens | null {
    const text = openText(row.tokens, ownerOf(tenantId, row.github_user_id), this.#deps.settings.encryptionKey);
    return text === null ? null : (JSON.parse(text) as HostTokens);
  }

  #audit(own: TenantStore, event_type: "github_connected" | "github_disconnected", sub: string, account: Account) {
    const payload = { github_user_id: account.id, github_login: account.login };
    return auditOp(own, this.#deps, { event_type, status: "ok", manifest_id: "", principal_subj: sub, payload });
  }
}

/** Returns the account of the code host with which a caller has signed in; null for any other caller. */
export function accountOf({ scheme, sub }: Pick<Principal, "scheme" | "sub">): number | null {
  const id = scheme === "github" ? subjectPattern.exec(sub)?.[1] : undefined;
  return id === undefined ? null : Number(id);
}

/** Reads an answer of the token endpoint; null for an error. */
export function readTokens(body: Readonly<Record<string, unknown>>, now: number): HostTokens | null {
  const { access_token, expires_in, refresh_token, refresh_token_expires_in } = body;
  if (typeof access_token !== "string") return null;
  return {
    access_token,
    expires_at: typeof expires_in === "number" ? now + expires_in * 1_000 : null,
    refresh_token: typeof refresh_token === "string" ? refresh_token : null,
    refresh_expires_at: typeof refresh_token_expires_in === "number" ? now + refresh_token_expires_in * 1_000 : null,
  };
}

function ownerOf(tenantId: string, id: number): string {
  return JSON.stringify([tenantId, id]);
}

async function unlessConflict(written: Promise<unknown>): Promise<boolean> {
  try {
    await written;
    return true;
  } catch (error) {
    if (error instanceof SvcError && error.code === "conflict") return false;
    throw error;
  }
}
