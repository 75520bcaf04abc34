import { matchGlob } from "./glob.ts";
import type { Path } from "./problems.ts";
import type { ManifestSpec } from "./schema/manifest.ts";
import { multiPatterns } from "./schema/pattern.ts";

// What the rules between fields ask of a manifest.

/** Whether the agent is made of other manifests. */
export function isMulti(spec: ManifestSpec): boolean {
  return (multiPatterns as readonly string[]).includes(spec.pattern);
}

/** Whether the agent is one loop of model and tools. */
export function isLoop(spec: ManifestSpec): boolean {
  return spec.pattern === "react" || spec.pattern === "deep";
}

/** Whether any output style is declared or picked. */
export function hasStyles({ output_styles: { default: name, styles } }: ManifestSpec): boolean {
  return name !== null || styles.length > 0;
}

/** Every URL that the manifest names, empty ones aside. */
export function namedUrls(spec: ManifestSpec): { loc: Path; url: string }[] {
  const found: { loc: Path; url: string }[] = [];
  const take = (field: string, key: string, values: readonly (string | null)[]) => {
    for (const [at, url] of values.entries()) if (url) found.push({ loc: ["spec", field, at, key], url });
  };
  take(
    "mcp_servers",
    "url",
    spec.mcp_servers.map((server) => server.url),
  );
  take(
    "peers",
    "url",
    spec.peers.map((peer) => peer.url),
  );
  take(
    "containers",
    "gateway_url",
    spec.containers.map((container) => container.gateway_url),
  );
  take(
    "http_tools",
    "path_prefix",
    spec.http_tools.map((tool) => tool.path_prefix),
  );
  return found;
}

/** Null when the text is not an http or https URL. */
export function webUrl(text: string): URL | null {
  const url = URL.parse(text);
  return url?.protocol === "http:" || url?.protocol === "https:" ? url : null;
}

/** Whether the rule that decides on `tool` has no when_args: a literal name goes before globs, a later rule before an earlier. */
export function gatesEveryCall({ approvals }: ManifestSpec, tool: string): boolean {
  const literal = approvals.findLast((rule) => rule.tools.includes(tool));
  const rule = literal ?? approvals.findLast(({ tools }) => tools.some((glob) => matchGlob(glob, tool)));
  return rule !== undefined && rule.when_args.length === 0;
}

/** Whether the manifest has all that the framework soc2 asks for. */
export function meetsSoc2(spec: ManifestSpec): boolean {
  const { schemes, required_scopes } = spec.auth.inbound;
  const { precount: _, ...bounds } = spec.limits;
  const controlled =
    spec.policies.length > 0 || spec.approvals.length > 0 || Object.values(bounds).some((bound) => bound !== null);
  return (
    spec.observability.trace && spec.anomaly.enabled && controlled && (schemes.length > 0 || required_scopes.length > 0)
  );
}

/** Whether the manifest has all that the framework eu_ai_act asks for. */
export function meetsAiAct(spec: ManifestSpec): boolean {
  const { providers, judges, targets } = spec.guardrails;
  const guarded = (providers.length > 0 || judges.length > 0) && targets.includes("input");
  const supervised = spec.approvals.length > 0 && spec.approvals.every((rule) => !rule.allow_unattended);
  return (
    spec.governance.transparency_notice &&
    (spec.content_screening.enabled || guarded) &&
    (spec.governance.risk_tier !== "high" || supervised)
  );
}
