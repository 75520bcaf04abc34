import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { type Settings, settingNames } from "../governance/settings/settings.ts";

/** Max names in one warning. */
const namesMax = 10;

/**
 * Warns of settings that a `.env` file in the directory sets and the process lacks: many servers read that file, svc does not.
 * The warning contains only names.
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
    // A missing or unreadable file needs no warning.
    return {};
  }
}
