import { keyedProviders } from "../../governance/settings/model-options.ts";
import { providerKeyNames } from "../../governance/settings/provider-keys.ts";
import { defaultText, type Setting } from "../../governance/settings/setting.ts";
import { settingsSections } from "../../governance/settings/settings.ts";
import { unbuiltSettings } from "../../governance/settings/unbuilt.ts";
import { code, table } from "./markdown.ts";

/** The text of docs/settings.md. */
export function settingsPage(): string {
  const sections = settingsSections.map(
    ({ title, settings }) =>
      `## ${title}\n\n${table(["Setting", "Type", "Default", "Meaning"], Object.values(settings).map(row))}`,
  );
  return `# Settings

Generated from \`governance/settings/\` by \`npm run generate\`. Settings are environment variables, which svc reads once, at the start. An
empty variable counts as unset. A malformed or unsupported value stops the start, with the name of the setting and the reason.
\`svc doctor\` shows every setting with its value and its source; of secrets it shows only whether they are set.

${sections.join("\n\n")}

## Keys of model providers

svc uses the first of the two names that is set.

${table(
  ["Provider", "Setting", "Else"],
  keyedProviders.map((provider) => [provider, ...providerKeyNames(provider).map(code)]),
)}

\`SVC_SECRET_<NAME>\` is the value of \`secret:NAME\` with \`SVC_SECRETS_BACKEND=env\`.

## Known and not supported by this version

These settings belong to features that this version does not have. Leave them unset or at their default; any other value stops the start.

${table(
  ["Setting", "Default", "For"],
  unbuiltSettings.map((setting) => [code(setting.name), code(setting.default), setting.help]),
)}
`;
}

function row({ name, kind, accepts, default: value, defaultWords, help }: Setting<unknown>): string[] {
  return [code(name), accepts === "" ? kind : `${kind}: ${accepts}`, defaultWords ?? code(defaultText(value)), help];
}
