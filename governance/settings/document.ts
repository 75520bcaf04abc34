import { keyedProviders } from "./model-options.ts";
import { providerKeyNames } from "./provider-keys.ts";
import { defaultText, type Setting } from "./setting.ts";
import { settingsSections } from "./settings.ts";
import { unbuiltSettings } from "./unbuilt.ts";

/** The text of docs/settings.md. */
export function settingsDocument(): string {
  const sections = settingsSections.map(
    ({ title, settings }) =>
      `## ${title}\n\n${rows(["Setting", "Type", "Default", "What it is"], Object.values(settings).map(row))}`,
  );
  return `# Settings

Generated from \`governance/settings/\`; \`npm run generate\` writes it again. Settings are environment variables and are read once,
at the start. An empty variable counts as unset. A malformed value, or one that this version cannot honour, stops the start with
its name and the reason; \`svc doctor\` shows every setting with its value and where it comes from, secrets only as set or unset.

${sections.join("\n\n")}

## Keys of model providers

The first name that is set counts.

${rows(
  ["Provider", "Setting", "Else"],
  keyedProviders.map((provider) => [provider, ...providerKeyNames(provider).map(code)]),
)}

\`SVC_SECRET_<NAME>\` is what \`secret:NAME\` means with \`SVC_SECRETS_BACKEND=env\`.

## Known and not supported by this version

These settings belong to behaviour that this version does not have. Their default, or leaving them unset, is accepted; any other
value stops the start.

${rows(
  ["Setting", "Default", "For"],
  unbuiltSettings.map((setting) => [code(setting.name), code(setting.default), setting.help]),
)}
`;
}

function row({ name, kind, accepts, default: value, defaultWords, help }: Setting<unknown>): string[] {
  return [code(name), accepts === "" ? kind : `${kind}: ${accepts}`, defaultWords ?? code(defaultText(value)), help];
}

function code(text: string): string {
  return text === "" ? "" : `\`${text}\``;
}

/** A table with its columns aligned, as the formatter has it. */
function rows(head: readonly string[], body: readonly (readonly string[])[]): string {
  const cells = [head, ...body].map((row) => row.map((cell) => cell.replaceAll("|", "\\|")));
  const widths = head.map((_, column) => Math.max(3, ...cells.map((row) => row[column]?.length ?? 0)));
  const line = (row: readonly string[]): string =>
    `| ${row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(" | ")} |`;
  const [top = [], ...rest] = cells;
  return [line(top), line(widths.map((width) => "-".repeat(width))), ...rest.map(line)].join("\n");
}
