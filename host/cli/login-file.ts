import { chmodSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Environment } from "../../governance/settings/settings.ts";

// The tokens of `svc login`, one for each server. The file is readable by its owner alone, and a token goes to the server that gave it, never to
// another.

/** The token of one server. */
export interface Login {
  readonly token: string;
  /** Epoch milliseconds. */
  readonly expires_at: number;
}

/** Returns the path of the file: below XDG_CONFIG_HOME, or in the user's home. Null without either. */
export function loginFile({ XDG_CONFIG_HOME = "", HOME = "", USERPROFILE = "" }: Environment): string | null {
  const home = HOME || USERPROFILE;
  const folder = XDG_CONFIG_HOME || (home === "" ? "" : join(home, ".config"));
  return folder === "" ? null : join(folder, "svc", "logins.json");
}

/** Returns the token for a server, if there is one that has not expired. */
export function savedLogin(url: string, environment: Environment, now: number): Login | null {
  const path = loginFile(environment);
  const login = path === null ? undefined : readLogins(path)[originOf(url)];
  return login !== undefined && login.expires_at > now ? login : null;
}

/** Saves the token of a server, or removes it for null. Returns true if the server had one. */
export function saveLogin(path: string, url: string, login: Login | null): boolean {
  const { [originOf(url)]: before, ...others } = readLogins(path);
  const all = login === null ? others : { ...others, [originOf(url)]: login };
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  // Written aside and renamed, so that another command never reads half of it.
  const draft = `${path}.new`;
  writeFileSync(draft, `${JSON.stringify(all, null, 2)}\n`, { mode: 0o600 });
  chmodSync(draft, 0o600);
  renameSync(draft, path);
  return before !== undefined;
}

function readLogins(path: string): Readonly<Record<string, Login>> {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch {
    return {};
  }
  try {
    const found = JSON.parse(text) as Record<string, Login>;
    const isGood = ([, login]: [string, Login]) =>
      typeof login?.token === "string" && Number.isFinite(login.expires_at);
    return Object.fromEntries(Object.entries(found ?? {}).filter(isGood));
  } catch {
    return {};
  }
}

function originOf(url: string): string {
  return new URL(url).origin;
}
