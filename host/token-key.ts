import { createPrivateKey, generateKeyPairSync } from "node:crypto";
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Env } from "../bus/env.ts";
import { type Settings, withTokenKey } from "../governance/settings/settings.ts";
import { hasSignIn } from "../governance/settings/sign-in-methods.ts";
import { type TokenKey, tokenKeyOf } from "../governance/settings/token-keys.ts";
import { makeDirectories } from "../storage/store/directories.ts";

/** Name of the file in the data directory that contains the key of access tokens. */
const fileName = "token-signing.pem";

/** Returns the settings with the key of the data directory if sign-in is on and they name none. Makes the key at the first start. */
export function withStoredTokenKey(settings: Settings, env: Pick<Env, "id">): Settings {
  if (settings.tokenSigningKey.length > 0 || !hasSignIn(settings)) return settings;
  return withTokenKey(settings, readKey(settings) ?? makeKey(settings, env));
}

function readKey({ dataDir }: Pick<Settings, "dataDir">): TokenKey | null {
  let pem: string;
  try {
    pem = readFileSync(join(dataDir, fileName), "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
  return tokenKeyOf(createPrivateKey(pem), fileName);
}

function makeKey({ dataDir }: Pick<Settings, "dataDir">, env: Pick<Env, "id">): TokenKey {
  makeDirectories(dataDir);
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  // A draft first: a file that a crash leaves half-written would stop every later start.
  const draft = join(dataDir, `${fileName}.${env.id()}`);
  writeFileSync(draft, privateKey.export({ type: "pkcs8", format: "pem" }), { mode: 0o600, flag: "wx", flush: true });
  renameSync(draft, join(dataDir, fileName));
  return tokenKeyOf(privateKey, fileName);
}
