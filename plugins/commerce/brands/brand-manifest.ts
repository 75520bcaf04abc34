import type { Bus } from "../../../bus/bus.ts";
import type { Principal } from "../../../bus/protocol/principal.ts";
import type { Identity } from "./identity.ts";

interface BrandText {
  readonly id: string;
  readonly brand_tenant: string;
  readonly name: string;
  readonly identity: Identity;
}

/** Returns the name of the manifest of a brand. */
export function manifestOfBrand(id: string): string {
  return `brand-${id}`;
}

/**
 * Writes and activates the manifest of a brand under its tenant: the base manifest with the lines of the brand before its
 * instructions. Returns the version.
 */
export async function provisionManifest(
  bus: Bus,
  brand: BrandText,
  { base, principal }: { readonly base: string; readonly principal: Principal },
): Promise<number> {
  const address = { kind: "manifests", key: brand.brand_tenant } as const;
  const found = await bus.ask(address, "get", { name: base, thread_suffix: null });
  const name = manifestOfBrand(brand.id);
  const manifest = JSON.parse(found.manifest) as BaseManifest;
  const tags = [...new Set([...(manifest.metadata.tags ?? []), "d2c", brand.id])];
  const made = {
    ...manifest,
    metadata: { ...manifest.metadata, name, description: `The agent of ${brand.name}.`, tags },
    spec: { ...manifest.spec, system_prompt: withLines(manifest.spec.system_prompt, brand) },
  };
  const comment = `Brand ${brand.id}`;
  const stored = await bus.ask(address, "put", {
    ...{ name, manifest: JSON.stringify(made), comment, activate: true },
    principal: { ...principal, tenant_id: brand.brand_tenant },
  });
  return stored.version;
}

interface BaseManifest {
  readonly metadata: { readonly name: string; readonly tags?: readonly string[] };
  readonly spec: Readonly<Record<string, unknown>> & {
    readonly system_prompt?: Readonly<Record<string, unknown>>;
  };
}

/** Returns the instructions of the base manifest with the lines of the brand before them. */
function withLines(before: Readonly<Record<string, unknown>> = {}, { name, identity }: BrandText): unknown {
  const lines = [
    `You work for the shop ${JSON.stringify(name)}.`,
    ...(identity.support_email === "" ? [] : [`For other questions, name the address ${identity.support_email}.`]),
    ...(identity.prompt_extra === "" ? [] : [identity.prompt_extra]),
    ...(typeof before.base === "string" && before.base !== "" ? [before.base] : []),
  ];
  return { ...before, base: lines.join("\n\n") };
}
