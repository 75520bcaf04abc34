import { list, nullable, section, text } from "../fields/fields.ts";
import { each, type Rule, when } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import { admitsHost, isHostEntry } from "../hosts.ts";

const fields = {
  network: section("Hosts that the agent's tools may connect to.", {
    allow_hosts: nullable(
      list(
        "Hosts, *.host or IP addresses; null is unrestricted, an empty list allows nothing.",
        text("A host, *.host or an IP address.", { maxLength: 255 }),
      ),
    ),
    credentials: list("Ids of the operator's egress credentials.", text("An id.", { maxLength: 128 })),
  }),
};

/** The fields of this section in `spec`. */
export type NetworkSpec = SpecOf<typeof fields>;

const rules: readonly Rule<NetworkSpec>[] = [
  {
    says: "must be a host, *. before a host, or an IP address, without scheme, port and path and in ASCII",
    type: "pattern",
    broken: ({ network }) =>
      each("spec.network.allow_hosts", network.allow_hosts ?? [], (entry) => !isHostEntry(entry)),
  },
  {
    says: "needs spec.network.allow_hosts with the host of each credential",
    broken: ({ network }) =>
      when(network.credentials.length > 0 && !network.allow_hosts?.length, "spec.network.credentials"),
  },
];

/** The compiled part of this section. */
interface CompiledNetwork {
  readonly network: {
    /** Hosts that tools may connect to; null for every public host. */
    readonly allowHosts: readonly string[] | null;
    /** Ids of credentials, without duplicates. */
    readonly credentials: readonly string[];
  };
}

export const network = defineSection({
  fields,
  rules,
  compile({ network: { allow_hosts, credentials } }: NetworkSpec, { registries, tenantId, refuse }): CompiledNetwork {
    for (const [at, id] of credentials.entries()) {
      const loc = ["spec", "network", "credentials", at];
      const found = registries.targets?.egressCredential(id, tenantId) ?? null;
      // The message is the same for a missing credential and for one of another tenant, so that it reveals nothing.
      if (found === null) refuse(loc, `names an unknown egress credential: ${id}`, "unresolved");
      else if (found.fault !== null)
        refuse(loc, `names the egress credential ${id}, which ${found.fault}`, "unresolved");
      else if (!admitsHost(allow_hosts ?? [], found.host))
        refuse(loc, `names the egress credential ${id}, whose host is not in spec.network.allow_hosts`, "conflict");
    }
    return { network: { allowHosts: allow_hosts, credentials: [...new Set(credentials)] } };
  },
});

/** Returns the rules for the URL in `key` of every entry of `spec.<field>`; a missing or empty URL is ignored. */
export function urlRules<F extends string, K extends string>(
  field: F,
  key: K,
): Rule<NetworkSpec & Readonly<Record<F, readonly Readonly<Record<K, string | null>>[]>>>[] {
  const path = `spec.${field}`;
  return [
    {
      says: "must be an http or https URL",
      type: "pattern",
      broken: (spec) => each(path, spec[field], ({ [key]: url }) => Boolean(url) && webUrl(url) === null, key),
    },
    {
      says: "is a URL whose host is not in spec.network.allow_hosts",
      broken(spec) {
        const allowed = spec.network.allow_hosts;
        if (allowed === null) return [];
        const isOutside = (url: URL | null) => url !== null && !admitsHost(allowed, url.hostname);
        return each(path, spec[field], ({ [key]: url }) => isOutside(webUrl(url)), key);
      },
    },
  ];
}

/** Returns null unless the text is an http or https URL. */
function webUrl(text: string | null): URL | null {
  const url = URL.parse(text ?? "");
  return url?.protocol === "http:" || url?.protocol === "https:" ? url : null;
}
