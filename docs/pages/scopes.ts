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

Generated from the routes in \`http/routes/\` by \`npm run generate\`. A credential has scopes: \`scopes\` of a key in SVC_AUTH_API_KEYS, or the
claim \`scope\` or \`scopes\` of a token. \`admin\` and \`*\` include every scope, and \`x:write\` includes \`x:read\`. With SVC_AUTH_MODE=none
svc checks no scopes. A manifest may require more scopes: \`spec.auth.inbound.required_scopes\`, and \`spec.policies\` for its tools.

## Scopes of routes

${table(["Scope", "Routes"], rows(scopes))}

## Chat

These routes need a credential with any scope; with SVC_CHAT_SCOPES=strict they need the scope in the table.

${table(["Scope", "Routes"], rows(["chat:read", "chat:write"]))}

## Other scopes

\`POST /chat/mode\` needs ${bypassScopes.map(code).join(" and ")} for the mode \`bypass\`. Each run in that mode needs it too; without it the run uses the
manifest's default mode. The scopes in \`spec.policies\` and \`required_scopes\` may have any name, so a key or a trigger may have any scope. The
start and \`svc doctor\` warn of a scope that is nearly one of these, or that ends with a \`*\` without effect.

## Every credential

These routes need a credential, but no scope: ${(byScope.get("authenticated") ?? []).join(", ")}.

## No credential

These routes need none, or have their own kind of credential: ${(byScope.get("public") ?? []).join(", ")}. With SVC_DOCS_PUBLIC also
${(byScope.get("docs") ?? []).join(" and ")}.
`;
}
