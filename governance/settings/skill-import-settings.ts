import { int, setting, text } from "./setting.ts";
import { type ImportSource, readImportSources, readUpdateWebhooks, type UpdateWebhook } from "./skill-sources.ts";

/** Settings of skills that come from a code host. */
export const skillImportSettings = {
  skillImportGithubToken: text(
    "SKILL_IMPORT_GITHUB_TOKEN",
    "",
    "Token for SVC_GITHUB_API_URL that may read the contents of repositories; empty for requests without one.",
    { secret: true },
  ),
  skillImportSources: setting<readonly ImportSource[]>(
    "SKILL_IMPORT_SOURCES",
    "csv",
    [],
    "Repositories that skills may come from: github:owner/repo, github:owner/* or github:*, each for one tenant with tenant= in front.",
    readImportSources,
    { defaultWords: "every public repository" },
  ),
  skillImportMinAgeDays: int(
    "SKILL_IMPORT_MIN_AGE_DAYS",
    0,
    [0, 365],
    "Days between the first look at a version of a skill and its import. A tenant may ask for more.",
  ),
  skillImportCallsPerHour: int(
    "SKILL_IMPORT_CALLS_PER_HOUR",
    500,
    [1, 100_000],
    "Requests to the code host for one tenant in an hour.",
  ),
  skillImportCallsPerHourTotal: int(
    "SKILL_IMPORT_CALLS_PER_HOUR_TOTAL",
    4_000,
    [1, 1_000_000],
    "Requests to the code host for all tenants in an hour.",
  ),
  skillImportCheckHours: int(
    "SKILL_IMPORT_CHECK_HOURS",
    0,
    [0, 168],
    "Hours between two looks for a new version of an imported skill; 0 for none.",
  ),
  skillUpdateWebhooks: setting<readonly UpdateWebhook[]>(
    "SKILL_UPDATE_WEBHOOKS",
    "csv",
    [],
    "Who hears of new versions of imported skills: tenant=endpoint_id, an endpoint of SVC_WEBHOOK_ENDPOINTS for that tenant.",
    readUpdateWebhooks,
  ),
};
