import { type ProbedProvider, probeProviders } from "../../actors/models/provider-probe.ts";
import type { Env } from "../../bus/env.ts";
import { Egress } from "../../governance/egress/egress.ts";
import { openObjects } from "../../governance/objects/open-objects.ts";
import { SecretMask, Secrets } from "../../governance/secret-mask.ts";
import { isBucket } from "../../governance/settings/object-store-config.ts";
import type { Deployment } from "../deployment.ts";
import { pluginProviders } from "../plugin-seams.ts";
import type { Check } from "./checks.ts";

const statuses: Readonly<Record<ProbedProvider["status"], Check["status"]>> = {
  ok: "ok",
  unsure: "warning",
  refused: "error",
  unreachable: "error",
};

/** Writes and reads an object in the bucket of the deployment, if it has one. */
export async function checkBucket({ settings }: Deployment, env: Env): Promise<readonly Check[]> {
  if (!isBucket(settings)) return [];
  const mask = new SecretMask(settings.secretValues);
  const objects = openObjects(settings, env, new Secrets(settings, mask));
  const name = `bucket ${settings.objectStore === "s3" ? settings.s3Bucket : settings.gcsBucket}`;
  try {
    await objects.check();
    return [{ name, status: "ok", detail: "an object was written and read" }];
  } catch (error) {
    const { message } = ((error as Error).cause ?? error) as Error;
    return [{ name, status: "error", detail: mask.recorded.text(message) }];
  } finally {
    await objects.close();
  }
}

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
