import { readOrigin } from "./hosts.ts";
import { bool, int, json, list, oneOf, seconds, setting, text, url } from "./setting.ts";
import {
  type AccountGrant,
  type InviteGrant,
  type OrgGrant,
  readAccounts,
  readInvites,
  readOrgs,
  readWorkflowGrants,
  type WorkflowGrant,
} from "./sign-in-entries.ts";
import { readTokenKeys, type TokenKey } from "./token-keys.ts";

/** Settings of sign-in (decisions 230, 231, 246 to 251). */
export const signInSettings = {
  tokenSigningKey: setting<readonly TokenKey[]>(
    "TOKEN_SIGNING_KEY",
    "keys, secret",
    [],
    "The keys of access tokens, P-256: a PEM, a private JWK, or a JSON list; the first signs, all verify.",
    readTokenKeys,
    { secret: true, defaultWords: "a key in SVC_DATA_DIR/token-signing.pem, made at the first start with sign-in" },
  ),
  tokenTtlSeconds: int("TOKEN_TTL_SECONDS", 3_600, [60, 86_400], "Lifetime of the token of a person in seconds."),
  githubClientId: text("GITHUB_CLIENT_ID", "", "The client id of the GitHub OAuth app; turns on sign-in by device."),
  githubClientSecret: text(
    "GITHUB_CLIENT_SECRET",
    "",
    "The client secret of the GitHub OAuth app; turns on sign-in in a browser.",
    { secret: true },
  ),
  githubDevice: bool("GITHUB_DEVICE", true, "Offers sign-in by device; false leaves only the browser."),
  githubOrgs: json<readonly OrgGrant[]>(
    "GITHUB_ORGS",
    [],
    "Organisations whose members may sign in: map of name to {id, tenant, scopes, teams?, actions?}; a team is {id, scopes?}.",
    readOrgs,
  ),
  githubSignup: oneOf(
    "GITHUB_SIGNUP",
    ["off", "invite"],
    "off",
    "Whether invited accounts without an organisation may sign in.",
  ),
  githubInvites: json<readonly InviteGrant[]>(
    "GITHUB_INVITES",
    [],
    "Accounts that may sign in with SVC_GITHUB_SIGNUP=invite: map of login to {id, tenant, scopes}.",
    readInvites,
  ),
  githubActionsGrants: json<readonly WorkflowGrant[]>(
    "GITHUB_ACTIONS_GRANTS",
    [],
    "Workflows that may get tokens: list of {repository_id, repository_owner_id?, job_workflow_ref?, ref?, environment?, tenant, scopes}.",
    readWorkflowGrants,
  ),
  githubOidcAudience: text(
    "GITHUB_OIDC_AUDIENCE",
    "",
    "The audience of id tokens of GitHub Actions; turns on POST /auth/github/actions.",
  ),
  githubOidcIssuer: url(
    "GITHUB_OIDC_ISSUER",
    "The issuer of id tokens of GitHub Actions.",
    "https://token.actions.githubusercontent.com",
  ),
  githubOidcTtlSeconds: int(
    "GITHUB_OIDC_TTL_SECONDS",
    900,
    [60, 3_600],
    "Lifetime of the token of a workflow in seconds.",
  ),
  githubUrl: url("GITHUB_URL", "The code host that people sign in to.", "https://github.com"),
  githubApiUrl: url("GITHUB_API_URL", "The REST API of the code host.", "https://api.github.com"),
  githubTimeoutSeconds: seconds(
    "GITHUB_TIMEOUT_SECONDS",
    10,
    [0.001, 120],
    "Time for one answer of an identity provider.",
  ),
  githubDeviceStartsPerHour: int(
    "GITHUB_DEVICE_STARTS_PER_HOUR",
    10,
    [1, 1_000],
    "Sign-ins by device that one address may start in an hour.",
  ),
  githubDeviceStartsPerHourTotal: int(
    "GITHUB_DEVICE_STARTS_PER_HOUR_TOTAL",
    300,
    [1, 100_000],
    "Sign-ins by device that all addresses together may start in an hour.",
  ),
  googleClientId: text("GOOGLE_CLIENT_ID", "", "The client id of Google; turns on sign-in with Google."),
  googleClientSecret: text("GOOGLE_CLIENT_SECRET", "", "The client secret of Google.", { secret: true }),
  googleAccounts: json<readonly AccountGrant[]>(
    "GOOGLE_ACCOUNTS",
    [],
    "Accounts that may sign in with Google: map of address or @domain to {tenant, scopes}.",
    readAccounts,
  ),
  googleIssuer: url("GOOGLE_ISSUER", "The issuer of Google's id tokens.", "https://accounts.google.com"),
  loginReturnOrigins: list(
    "LOGIN_RETURN_ORIGINS",
    [],
    "Origins of pages to which sign-in in a browser may return; the server's own origin always may. They must be same-site with SVC_PUBLIC_URL, because the cookie of the sign-in is SameSite=Lax.",
    { item: readOrigin },
  ),
};
