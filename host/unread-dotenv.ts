import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { type Settings, settingNames } from "../governance/settings/settings.ts";

/** Names that one warning lists at most. */
const namesMax = 10;

/**
 * Warns of settings that a `.env` in the directory sets and the process does not have: svc does not read the file, and many servers
 * do. The warning has names only.
 */
export function warningsOfDotEnv({ fromEnvironment }: Settings, directory = "."): readonly string[] {
  const set = new Set(fromEnvironment);
  const known = new Set(settingNames());
  const unset = Object.keys(readDotEnv(directory)).filter(
    (name) => (known.has(name) || name.startsWith("SVC_SECRET_")) && !set.has(name),
  );
  if (unset.length === 0) return [];
  const more = unset.length > namesMax ? ` and ${unset.length - namesMax} more` : "";
  return [
    `svc does not read the file .env in the working directory. It sets ${unset.slice(0, namesMax).join(", ")}${more}, which this process does ` +
      "not have; export them, for example by: set -a; . ./.env; set +a.",
  ];
}

function readDotEnv(directory: string): NodeJS.Dict<string> {
  try {
    return parseEnv(readFileSync(join(directory, ".env"), "utf8"));
  } catch {
    // No such file, or one that nobody may read: nothing to warn of.
    return {};
  }
}
