import type { Settings } from "./settings.ts";

type MethodSettings = Pick<
  Settings,
  | "authMode"
  | "githubClientId"
  | "githubClientSecret"
  | "githubDevice"
  | "githubOidcAudience"
  | "googleClientId"
  | "googleClientSecret"
>;

/** The ways to sign in that the settings turn on. Mode none needs no token, so it has none (decision 247). */
export function signInMethods(settings: MethodSettings) {
  const { authMode, githubClientId, githubClientSecret, githubDevice, githubOidcAudience } = settings;
  const isOpen = authMode !== "none";
  return {
    github_device: isOpen && githubClientId !== "" && githubDevice,
    github_redirect: isOpen && githubClientId !== "" && githubClientSecret !== "",
    google_redirect: isOpen && settings.googleClientId !== "" && settings.googleClientSecret !== "",
    github_actions: isOpen && githubOidcAudience !== "",
  };
}

/** True if people or workflows can sign in. */
export function hasSignIn(settings: MethodSettings): boolean {
  return Object.values(signInMethods(settings)).includes(true);
}

/** Returns why the settings of sign-in stop the boot, one sentence each. */
export function signInRefusals(settings: MethodSettings & Pick<Settings, "publicUrl">): readonly string[] {
  const { githubClientId, githubClientSecret, googleClientId, googleClientSecret, publicUrl } = settings;
  const refusals: string[] = [];
  if (hasSignIn(settings) && publicUrl === "")
    refusals.push(
      "Sign-in needs SVC_PUBLIC_URL: tokens name it as their issuer, and providers send people back to it.",
    );
  if (githubClientSecret !== "" && githubClientId === "")
    refusals.push("SVC_GITHUB_CLIENT_SECRET is set without SVC_GITHUB_CLIENT_ID.");
  if ((googleClientId === "") !== (googleClientSecret === ""))
    refusals.push("SVC_GOOGLE_CLIENT_ID and SVC_GOOGLE_CLIENT_SECRET must be set together.");
  return refusals;
}
