import { unbuiltDefaults, unbuiltFields } from "../../manifests/compile/unbuilt.ts";

/** The text of docs/unbuilt.md. */
export function unbuiltPage(): string {
  const fields = unbuiltFields.map(({ path, but }) => `- \`${path}\`${but ? `, but for \`${but.words}\`` : ""}`);
  const defaults = unbuiltDefaults.map(({ path, note }) => `- \`${path}\`: ${note}`);
  return `# Unsupported features

Generated from the marks on the fields in \`manifests/sections/\` by \`npm run generate\`. svc ignores nothing: it refuses a manifest that uses
an unsupported field with 422 \`invalid_manifest\` and a problem of type \`unsupported\` that names the field, and an unsupported setting stops
the start. [settings.md](settings.md) lists these settings at its end.

## Fields of manifests

The schema contains these fields with their types and limits, and accepts only their defaults:

${fields.join("\n")}

## Defaults without effect

These values are accepted because they are the defaults, but they have no effect. \`svc validate-manifest\` lists them too.

${defaults.join("\n")}
`;
}
