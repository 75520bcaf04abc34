import type { Settings } from "../../../governance/settings/settings.ts";
import type { Registries } from "../../../manifests/registries.ts";
import type { Models } from "../../models/models.ts";
import type { Tool } from "../tool.ts";
import { builtInTools } from "./built-in.ts";

/** What the manifests of a deployment may name: its tools and the routes of its models. */
export function registriesOf(settings: Settings, models: Models): Registries & { tools: ReadonlyMap<string, Tool> } {
  return {
    tools: new Map(builtInTools.map((tool) => [tool.name, tool])),
    routes: models.routes,
    defaultModelId: models.defaultModelId,
    workspaceDeploymentTenants: settings.workspaceDeploymentTenants,
  };
}
