import type { Settings } from "../../governance/settings/settings.ts";
import type { RequestHead } from "../exchange/request-head.ts";

// The cookie of a sign-in in a browser (decision 231). It binds the sign-in to the browser, and then carries its exchange. The prefix
// __Host- keeps other hosts from setting it; browsers accept it over https only.

/** Returns the value of the cookie; empty if the request has none, or several. */
export function signInCookie({ headers }: RequestHead, settings: Pick<Settings, "publicUrl">): string {
  const name = nameOf(settings);
  const values = (headers.cookie ?? "")
    .split(";")
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(`${name}=`))
    .map((pair) => pair.slice(name.length + 1));
  return values.length === 1 ? (values[0] as string) : "";
}

/** Returns the header that sets the cookie for some milliseconds, or removes it. */
export function setSignInCookie(value: string | null, ms: number, settings: Pick<Settings, "publicUrl">): string {
  const rest = `Path=/; HttpOnly; SameSite=Lax${isSecure(settings) ? "; Secure" : ""}`;
  return value === null
    ? `${nameOf(settings)}=; ${rest}; Max-Age=0`
    : `${nameOf(settings)}=${value}; ${rest}; Max-Age=${Math.floor(ms / 1_000)}`;
}

function nameOf(settings: Pick<Settings, "publicUrl">): string {
  return isSecure(settings) ? "__Host-svc_signin" : "svc_signin";
}

function isSecure({ publicUrl }: Pick<Settings, "publicUrl">): boolean {
  return publicUrl.startsWith("https:");
}
