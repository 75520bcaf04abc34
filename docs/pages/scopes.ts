import { bypassScopes } from "../../governance/auth/permission-modes.ts";
import { readSettings } from "../../governance/settings/settings.ts";
import { scopesOf } from "../../http/route.ts";
import { allRoutes } from "../../http/routes/all.ts";
import { code, table } from "./markdown.ts";

/** The text of docs/scopes.md. */
export function scopesPage(): string {
  const { settings } = readSettings({});
  const routes = allRoutes({ ...settings, triggers: null });
  const byScope = new Map<string, string[]>();
  for (const { access, method, path } of routes) {
    for (const scope of typeof access === "string" ? [access] : access)
      byScope.set(scope, [...(byScope.get(scope) ?? []), code(`${method} ${path}`)]);
  }
  const rows = (names: readonly string[]): string[][] =>
    names.map((name) => [code(name), (byScope.get(name) ?? []).join(", ")]);
  const scopes = scopesOf(routes)
    .filter((name) => !name.startsWith("chat:"))
    .sort();
  return `# Scopes

Generated from the routes in \`http/routes/\`; \`npm run generate\` writes it again. A credential has scopes: \`scopes\` of a key in
SVC_AUTH_API_KEYS, the claim \`scope\` or \`scopes\` of a token. \`admin\` and \`*\` stand for every scope, \`x:write\` for \`x:read\` too. With
SVC_AUTH_MODE=none nothing is checked. A manifest may ask for more: \`spec.auth.inbound.required_scopes\`, and \`spec.policies\` for its tools.

## Scopes of routes

${table(["Scope", "Routes"], rows(scopes))}

## Chat

These ask for a credential with any scope at all; with SVC_CHAT_SCOPES=strict for the one that stands here.

${table(["Scope", "Routes"], rows(["chat:read", "chat:write"]))}

## Beside those of routes

\`POST /chat/mode\` asks for ${bypassScopes.map(code).join(" and ")} where the mode is \`bypass\`, and so does each run in that mode: without it the
manifest's default mode holds. What \`spec.policies\` and \`required_scopes\` ask for may have any name. So a key or a
trigger may have any scope; the start and \`svc doctor\` warn of one that is nearly one of these, or ends with a \`*\` that stands for nothing.

## Every credential

These ask for a credential, and for no scope: ${(byScope.get("authenticated") ?? []).join(", ")}.

## Nobody's

These ask for none, or for credentials of their own: ${(byScope.get("public") ?? []).join(", ")}. With SVC_DOCS_PUBLIC also
${(byScope.get("docs") ?? []).join(" and ")}.
`;
}
