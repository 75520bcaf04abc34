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
      `## ${title}\n\n${table(["Setting", "Type", "Default", "What it is"], Object.values(settings).map(row))}`,
  );
  return `# Settings

Generated from \`governance/settings/\`; \`npm run generate\` writes it again. Settings are environment variables and are read once,
at the start. An empty variable counts as unset. A malformed value, or one that this version cannot honour, stops the start with
its name and the reason; \`svc doctor\` shows every setting with its value and where it comes from, secrets only as set or unset.

${sections.join("\n\n")}

## Keys of model providers

The first name that is set counts.

${table(
  ["Provider", "Setting", "Else"],
  keyedProviders.map((provider) => [provider, ...providerKeyNames(provider).map(code)]),
)}

\`SVC_SECRET_<NAME>\` is what \`secret:NAME\` means with \`SVC_SECRETS_BACKEND=env\`.

## Known and not supported by this version

These settings belong to behaviour that this version does not have. Their default, or leaving them unset, is accepted; any other
value stops the start.

${table(
  ["Setting", "Default", "For"],
  unbuiltSettings.map((setting) => [code(setting.name), code(setting.default), setting.help]),
)}
`;
}

function row({ name, kind, accepts, default: value, defaultWords, help }: Setting<unknown>): string[] {
  return [code(name), accepts === "" ? kind : `${kind}: ${accepts}`, defaultWords ?? code(defaultText(value)), help];
}
