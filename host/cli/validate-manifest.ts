import { constants } from "node:fs";
import { access } from "node:fs/promises";
import { SvcError } from "../../bus/errors.ts";
import { problemLines } from "../../governance/settings/problem-lines.ts";
import { serverSettings } from "../../governance/settings/server-settings.ts";
import type { CompiledAgent } from "../../manifests/compile/compiled.ts";
import { type CommandArgs, type Outcome, UsageError } from "../../plugins/command.ts";
import { loadDeployment } from "../deployment.ts";
import { type Command, failed } from "./command.ts";
import type { RegistriesOf } from "./doctor.ts";
import { readTenant } from "./keys.ts";
import { checkManifestFile } from "./manifest-file.ts";
import { objectSourceOf } from "./object-source.ts";
import { harmless, inert } from "./terminal-text.ts";

/** `svc validate-manifest`: parses and compiles a manifest as the server would. */
export function validateManifestCommand(registriesOf: RegistriesOf): Command {
  return {
    summary: "Check a manifest file with the rules of the server.",
    options: {
      environment: { type: "string", short: "e", value: "NAME", help: "Check for this SVC_ENVIRONMENT." },
      tenant: { type: "string", value: "TENANT", help: "Check for this tenant (default)." },
    },
    positionals: ["FILE"],
    async run(args, io) {
      const [path = ""] = args.positionals;
      const tenantId = readTenant(args);
      const deployment = await loadDeployment({ ...io.environment, ...environmentOption(args) });
      try {
        await access(path, constants.R_OK);
      } catch (error) {
        return failed(2, "unreadable", `${path} cannot be read: ${(error as Error).message}`);
      }
      try {
        const { settings } = deployment;
        const objects = objectSourceOf(settings, io.env);
        const registries = await registriesOf(deployment);
        const checked = await checkManifestFile(path, { tenantId, settings, registries, objects, env: io.env });
        if (checked === null) return failed(2, "unreadable", `${path} is not a file`);
        return accepted(checked.agent, checked.unseen);
      } catch (error) {
        if (error instanceof SvcError && error.code === "invalid_manifest") return refused(path, error);
        throw error;
      }
    },
  };
}

function environmentOption({ options: { environment } }: CommandArgs): { SVC_ENVIRONMENT?: string } {
  if (typeof environment !== "string") return {};
  try {
    return { SVC_ENVIRONMENT: serverSettings.environment.read(environment) };
  } catch (error) {
    throw new UsageError(`--environment ${(error as Error).message}.`);
  }
}

function accepted(agent: CompiledAgent, unseen: readonly string[]): Outcome {
  const json = {
    ok: true,
    name: agent.name,
    model: agent.model.route.id,
    tools: agent.tools.map(({ name }) => name),
    digest: agent.digest,
    empty_rules: agent.emptyRules,
    unseen_sub_agents: unseen,
  };
  const lines = [
    `${agent.name} is valid: model ${json.model}, tools ${json.tools.join(", ") || "none"}.`,
    ...agent.emptyRules.map(({ rule, kind }) => `Selects nothing: ${kind} ${rule}.`),
    ...unseen.map((name) => `Not found in a file, so not checked (the server may have it stored): sub-agent ${name}.`),
  ];
  return { code: 0, json, text: harmless(lines.join("\n")) };
}

function refused(path: string, error: SvcError): Outcome {
  const json = { ok: false, error: error.code, detail: error.details.detail };
  return {
    code: 1,
    json,
    text: [`${path} is not valid:`, ...problemLines(error).map((line) => `  ${inert(line)}`)].join("\n"),
  };
}
