import { choice, section } from "../fields/fields.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";

const fields = {
  workspace: section("Where workspace tools work.", {
    scope: choice("Who shares the directory.", ["thread", "tenant", "deployment"], "thread"),
  }),
};

type Spec = SpecOf<typeof fields>;

/** Where a run works. */
interface CompiledWorkspace {
  readonly workspaceScope: Spec["workspace"]["scope"];
}

export const workspace = defineSection({
  fields,
  compile({ workspace: { scope } }: Spec, { registries, tenantId, refuse }): CompiledWorkspace {
    if (scope === "deployment" && !registries.workspaceDeploymentTenants.includes(tenantId))
      refuse(
        ["spec", "workspace", "scope"],
        "can be deployment for the tenants that the operator lists only",
        "conflict",
      );
    return { workspaceScope: scope };
  },
});
