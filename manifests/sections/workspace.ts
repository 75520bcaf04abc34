import { choice, section } from "../fields/fields.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";

const fields = {
  workspace: section("The folder of workspace tools.", {
    scope: choice("Sharing of the folder.", ["thread", "tenant", "deployment"], "thread"),
  }),
};

type Spec = SpecOf<typeof fields>;

/** The compiled part of this section. */
interface CompiledWorkspace {
  readonly workspaceScope: Spec["workspace"]["scope"];
}

export const workspace = defineSection({
  fields,
  compile({ workspace: { scope } }: Spec, { registries, tenantId, refuse }): CompiledWorkspace {
    if (scope === "deployment" && !registries.workspaceDeploymentTenants.includes(tenantId))
      refuse(["spec", "workspace", "scope"], "can be deployment only for tenants that the operator lists", "conflict");
    return { workspaceScope: scope };
  },
});
