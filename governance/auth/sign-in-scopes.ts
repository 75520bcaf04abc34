import type { SignInGrantRow } from "../../storage/tables/sign-in-grants.ts";
import type { Settings } from "../settings/settings.ts";
import { signInMethods } from "../settings/sign-in-methods.ts";
import { type SignInScheme, signInSchemes } from "../sign-in/access-tokens.ts";
import { grantsOfEntries } from "../sign-in/entries.ts";

/** The settings that grant access to signed-in principals. */
export type SignInGrants = Parameters<typeof signInMethods>[0] &
  Pick<Settings, "githubOrgs" | "githubSignup" | "githubInvites" | "googleAccounts" | "githubActionsGrants">;

/** Lifetime of stored work after the last sign-in of its principal. */
const signInMs = 30 * 86_400_000;

/** True if principals of this scheme come from a sign-in. */
export function isSignInScheme(scheme: string): scheme is SignInScheme {
  return signInSchemes.some((each) => each === scheme);
}

/**
 * Returns the scopes that a signed-in principal holds in a tenant: what the entries of its last sign-in grant at present. Null if its
 * provider is off, none of these entries is left, or the sign-in is too old (decision 246).
 */
export function signInScopes(
  { tenant_id, scheme }: { readonly tenant_id: string; readonly scheme: SignInScheme },
  signIn: Pick<SignInGrantRow, "entries" | "at"> | undefined,
  settings: SignInGrants,
  now: number,
): readonly string[] | null {
  if (signIn === undefined || now - signIn.at > signInMs || !isOn(scheme, settings)) return null;
  const githubInvites = settings.githubSignup === "invite" ? settings.githubInvites : [];
  const grants = grantsOfEntries(signIn.entries, { ...settings, githubInvites });
  const own = grants.filter(({ tenant }) => tenant === tenant_id);
  return own.length === 0 ? null : own.flatMap(({ scopes }) => scopes);
}

/** True while the provider of a scheme is configured. */
export function isOn(scheme: SignInScheme, settings: Parameters<typeof signInMethods>[0]): boolean {
  const { github_device, github_redirect, google_redirect, github_actions } = signInMethods(settings);
  switch (scheme) {
    case "github":
      return github_device || github_redirect;
    case "google":
      return google_redirect;
    case "github_actions":
      return github_actions;
  }
}
