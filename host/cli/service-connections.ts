import type { Settings } from "../../governance/settings/settings.ts";
import { tracingOf } from "../../governance/settings/tracing-settings.ts";
import { type Connection, row } from "./connection-row.ts";

/** Returns the connections to code hosts, identity providers, push services and the collector of traces. */
export function serviceConnections(settings: Settings): readonly Connection[] {
  const { githubUrl, githubApiUrl, githubClientId, githubOidcAudience, githubOidcIssuer } = settings;
  const { googleClientId, googleIssuer, pushVapidPrivateKey, pushAllowedHosts, repoHosts } = settings;
  const { authMode, jwtVerifiers } = settings;
  const tracing = tracingOf(settings);
  const signIn = "sign-in with GitHub";
  return [
    row(githubApiUrl, "skills that people import, and pull requests", "SVC_GITHUB_API_URL"),
    ...repoHosts.map((host) => row(`https://${host}`, "clones of repositories, and pushes to them", "SVC_REPO_HOSTS")),
    ...(githubClientId === ""
      ? []
      : [row(githubUrl, signIn, "SVC_GITHUB_URL"), row(githubApiUrl, signIn, "SVC_GITHUB_API_URL")]),
    ...(githubOidcAudience === ""
      ? []
      : [row(githubOidcIssuer, "keys of id tokens of GitHub Actions", "SVC_GITHUB_OIDC_ISSUER")]),
    ...(googleClientId === ""
      ? []
      : [row(googleIssuer, "sign-in with Google, with the addresses that the issuer names", "SVC_GOOGLE_ISSUER")]),
    ...(authMode === "jwt" ? jwtVerifiers : []).map(({ issuer, jwksUrl }) =>
      row(jwksUrl, `keys of tokens of ${issuer}`, "SVC_JWT_VERIFIERS"),
    ),
    ...(pushVapidPrivateKey === null
      ? []
      : [{ to: pushAllowedHosts.join(", "), why: "push services of browsers", from: "SVC_PUSH_ALLOWED_HOSTS" }]),
    ...(tracing === null ? [] : [row(tracing.url, "traces", "SVC_OTEL_ENDPOINT")]),
  ];
}
