import type { JWTPayload } from "jose";
import type { Env } from "../../bus/env.ts";
import type { Settings } from "../settings/settings.ts";
import type { WorkflowGrant } from "../settings/sign-in-entries.ts";
import { type NamedGrant, workflowEntries, workflowGrant } from "./entries.ts";
import { IdTokens } from "./id-tokens.ts";
import type { ProviderClient } from "./provider-client.ts";
import { signInRefusal } from "./refusal.ts";

type WorkflowSettings = Pick<
  Settings,
  "githubOidcIssuer" | "githubOidcAudience" | "githubActionsGrants" | "githubOrgs"
>;

/** A run of a workflow, with the entries that admit it. */
export interface WorkflowRun {
  /** Id of its token, which one sign-in uses. */
  readonly jti: string;
  readonly repository_id: string;
  readonly expiresAt: number;
  readonly grants: readonly NamedGrant[];
}

/** Signs workflows of GitHub Actions in by their id tokens. */
export class Workflows {
  readonly #settings: WorkflowSettings;
  readonly #idTokens: IdTokens;

  constructor(client: ProviderClient, settings: WorkflowSettings, env: Pick<Env, "now" | "monotonic">) {
    this.#settings = settings;
    const jwksUrl = async () => `${settings.githubOidcIssuer}/.well-known/jwks`;
    this.#idTokens = new IdTokens(client, env, { jwksUrl, unavailable: "github_unavailable" });
  }

  /** Returns the workflow run of an id token. Refuses with invalid_id_token and workflow_not_granted. */
  async run(idToken: string): Promise<WorkflowRun> {
    const { githubOidcIssuer, githubOidcAudience } = this.#settings;
    const claims = await this.#idTokens.verify(idToken, [githubOidcIssuer], githubOidcAudience);
    const { jti, repository_id, exp = 0 } = claims ?? {};
    if (claims === null || typeof jti !== "string" || typeof repository_id !== "string")
      throw signInRefusal("invalid_id_token");
    // Such a run has the rights of the repository, and may run code of a fork.
    const isForked = claims.event_name === "pull_request_target";
    const grants = isForked ? [] : workflowEntries(this.#settings).filter((grant) => admits(grant, claims));
    if (grants.length === 0) throw signInRefusal("workflow_not_granted");
    return { jti, repository_id, expiresAt: exp * 1_000, grants: grants.map(workflowGrant) };
  }
}

/** The fields of an entry that must equal the claims of the token, unless they are null. */
const compared = ["repository_id", "repository_owner_id", "job_workflow_ref", "ref", "environment"] as const;

function admits(grant: WorkflowGrant, claims: JWTPayload): boolean {
  return compared.every((name) => grant[name] === null || grant[name] === claims[name]);
}
