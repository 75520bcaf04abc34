import { isScope } from "../../governance/settings/api-keys.ts";
import {
  readIntegerField,
  readMap,
  readObject,
  readString,
  readStrings,
} from "../../governance/settings/object-shape.ts";
import { json, type Setting } from "../../governance/settings/setting.ts";
import { readTenantId } from "../../governance/settings/tenant-id.ts";

/** A bot in a chat service, as SVC_CHANNELS defines it. */
export interface ChannelEntry {
  readonly id: string;
  readonly platform: string;
  readonly tenant_id: string;
  readonly manifest: string;
  readonly team_id: string;
  /** Any of them verifies a request. Each is a literal or `secret:NAME`. */
  readonly signing_secrets: readonly string[];
  readonly bot_token: string;
  readonly scopes: readonly string[];
  /** Channels in which the bot answers; empty for all. */
  readonly channels: readonly string[];
  /** Users whom the bot answers; empty for all. */
  readonly users: readonly string[];
  /** Messages per minute, of all users and of one. */
  readonly rate_limit: number;
  readonly user_rate_limit: number;
}

const name = "CHANNELS";
const rateDefault = 60;
const userRateDefault = 10;
const rateMax = 10_000;
/** The service makes these ids; they become part of thread ids. */
const idPattern = /^[A-Za-z0-9]{1,32}$/;

/** Returns the setting for these platforms. */
export function channelsSetting(platforms: readonly string[]): Setting<readonly ChannelEntry[]> {
  return {
    ...json<readonly ChannelEntry[]>(
      name,
      [],
      "Bots in chat services: map of id to {platform, tenant, manifest, team_id, signing_secret, bot_token, scopes, channels, users, rate_limit, user_rate_limit}.",
      (document) =>
        Object.entries(readMap(document, "the value")).map(([id, value], index) => {
          if (!/^[a-z0-9][a-z0-9_-]{0,63}$/.test(id))
            throw new Error(
              `entry ${index + 1}: an id is 1 to 64 of a-z, 0-9, _ and -, and begins with a letter or a digit`,
            );
          return readEntry(id, value, platforms);
        }),
      { secret: true },
    ),
    literals: (entries) =>
      entries
        .flatMap(({ signing_secrets, bot_token }) => [...signing_secrets, bot_token])
        .filter((text) => !text.startsWith("secret:")),
  };
}

/** The setting, to read its value. */
export const channels: Setting<readonly ChannelEntry[]> = channelsSetting([]);

function readEntry(id: string, value: unknown, platforms: readonly string[]): ChannelEntry {
  const entry = readObject(
    value,
    id,
    ["platform", "tenant", "manifest", "team_id", "signing_secret", "bot_token"],
    ["scopes", "channels", "users", "rate_limit", "user_rate_limit"],
  );
  const at = (field: string) => `${id}: ${field}`;
  const platform = readString(entry.platform, at("platform"));
  if (!platforms.includes(platform)) throw new Error(`${at("platform")} must be ${platforms.join(" or ")}`);
  const scopes = readStrings(entry.scopes ?? [], at("scopes"));
  if (!scopes.every(isScope)) throw new Error(`${at("scopes")}: a scope is visible ASCII without commas and quotes`);
  const secrets = typeof entry.signing_secret === "string" ? [entry.signing_secret] : entry.signing_secret;
  const rate = (field: string, most: number, fallback: number): number =>
    entry[field] === undefined ? fallback : readIntegerField(entry[field], at(field), 1, most);
  const rate_limit = rate("rate_limit", rateMax, rateDefault);
  return {
    id,
    platform,
    tenant_id: readTenant(entry.tenant, at("tenant")),
    manifest: readString(entry.manifest, at("manifest")),
    team_id: readIds([entry.team_id], at("team_id"))[0] ?? "",
    signing_secrets: readSecrets(secrets, at("signing_secret")),
    bot_token: readString(entry.bot_token, at("bot_token")),
    scopes,
    channels: readIds(entry.channels ?? [], at("channels")),
    users: readIds(entry.users ?? [], at("users")),
    rate_limit,
    user_rate_limit: rate("user_rate_limit", rate_limit, Math.min(userRateDefault, rate_limit)),
  };
}

function readIds(value: unknown, where: string): readonly string[] {
  const ids = readStrings(value, where);
  if (!ids.every((id) => idPattern.test(id))) throw new Error(`${where}: an id is 1 to 32 letters and digits`);
  return ids;
}

function readSecrets(value: unknown, where: string): readonly string[] {
  const secrets = readStrings(value, where);
  if (secrets.length === 0) throw new Error(`${where} must be a string, or a list of strings`);
  return secrets;
}

function readTenant(value: unknown, where: string): string {
  try {
    return readTenantId(readString(value, where));
  } catch (error) {
    throw new Error(`${where}: ${(error as Error).message}`);
  }
}
