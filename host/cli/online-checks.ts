import { type ProbedProvider, probeProviders } from "../../actors/models/provider-probe.ts";
import type { Env } from "../../bus/env.ts";
import { Egress } from "../../governance/egress/egress.ts";
import { SecretMask, Secrets } from "../../governance/secret-mask.ts";
import type { Deployment } from "../deployment.ts";
import { pluginProviders } from "../plugin-seams.ts";
import type { Check } from "./checks.ts";

const statuses: Readonly<Record<ProbedProvider["status"], Check["status"]>> = {
  ok: "ok",
  unsure: "warning",
  refused: "error",
  unreachable: "error",
};

/** Checks the key of each model provider with a free call. The results contain no keys. */
export async function checkProviders({ settings, plugins }: Deployment, env: Env): Promise<readonly Check[]> {
  const mask = new SecretMask(settings.secretValues);
  const egress = new Egress("operator");
  try {
    const tried = await probeProviders({ settings, env, mask, secrets: new Secrets(settings, mask), egress });
    const found = tried.map(
      ({ name, status, detail }): Check => ({
        name: `provider ${name}`,
        status: statuses[status],
        detail: mask.recorded.text(detail),
      }),
    );
    const untried = [
      ...(settings.providerApiKeys.typesafe === undefined ? [] : ["typesafe"]),
      ...pluginProviders(plugins).map(({ name }) => name),
    ];
    const rest = untried.map(
      (name): Check => ({
        name: `provider ${name}`,
        status: "warning",
        detail: "not tested, because it has no call without cost",
      }),
    );
    if (found.length + rest.length > 0) return [...found, ...rest];
    return [
      { name: "providers", status: "warning", detail: "no provider has a key or an address: nothing was tested" },
    ];
  } finally {
    await egress.close();
  }
}
