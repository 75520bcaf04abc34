import { unbuiltDefaults, unbuiltFields } from "../../manifests/compile/unbuilt.ts";

/** The text of docs/unbuilt.md. */
export function unbuiltPage(): string {
  const fields = unbuiltFields.map(({ path, but }) => `- \`${path}\`${but ? `, but for \`${but.words}\`` : ""}`);
  const defaults = unbuiltDefaults.map(({ path, note }) => `- \`${path}\`: ${note}`);
  return `# What this version does not do

Generated from the marks on the fields in \`manifests/sections/\`; \`npm run generate\` writes it again. Nothing is parsed and
then left undone: a manifest that asks for what is not built is refused with 422 \`invalid_manifest\` and a problem of type
\`unsupported\` that names the field, and a setting that does stops the start. The settings are listed at the end of
[settings.md](settings.md).

## Fields of manifests

The schema knows these fields, their types and their limits, and accepts their defaults alone:

${fields.join("\n")}

## Defaults that promise something

These are accepted, because they are the defaults, and nothing carries them out. \`svc validate-manifest\` lists them too.

${defaults.join("\n")}
`;
}
