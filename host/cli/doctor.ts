import type { Env } from "../../bus/env.ts";
import { SecretMask } from "../../governance/secret-mask.ts";
import { bootRefusals, bootWarnings } from "../../governance/settings/boot-refusals.ts";
import { problemLines } from "../../governance/settings/problem-lines.ts";
import type { Registries } from "../../manifests/registries.ts";
import { type Deployment, readDeployment } from "../deployment.ts";
import { pluginProviders, pluginSettings } from "../plugin-seams.ts";
import { warningsOfScopes } from "../scope-warnings.ts";
import { warningsOfDotEnv } from "../unread-dotenv.ts";
import type { Binary } from "./binaries.ts";
import { type Check, runChecks } from "./checks.ts";
import type { Command } from "./command.ts";
import { type EffectiveSetting, effectiveSettings } from "./effective-settings.ts";
import { table } from "./help.ts";
import { checkBucket, checkProviders } from "./online-checks.ts";
import { harmless, inert } from "./terminal-text.ts";

/** Creates the registries of a deployment; the layer above supplies it. */
export type RegistriesOf = (deployment: Deployment) => Promise<Registries>;

const valueCharsMax = 80;

/** `svc doctor`: checks the settings, the dependencies of the server, and whether its binaries are the tested ones. */
export function doctorCommand(registriesOf: RegistriesOf, binaries: readonly Binary[]): Command {
  return {
    summary: "Show every setting and check the server's dependencies; exit 1 if it would not start or work.",
    options: {
      online: {
        type: "boolean",
        help: "Try the bucket of the object store, and each model provider's key with a call that costs nothing.",
      },
    },
    positionals: [],
    async run({ options }, { env, environment }) {
      const { issues, ...deployment } = await readDeployment(environment);
      const { settings, plugins } = deployment;
      const refusals = [
        ...issues.map(({ name, reason }) => `${name} ${reason}.`),
        ...bootRefusals(settings, pluginProviders(plugins)),
      ];
      const warnings = [
        ...bootWarnings(settings),
        ...warningsOfScopes(settings, plugins),
        ...warningsOfDotEnv(settings),
      ];
      const checks = [
        ...(await check(deployment, registriesOf, env, binaries)),
        ...(options.online === true
          ? [...(await checkBucket(deployment, env)), ...(await checkProviders(deployment, env))]
          : []),
      ];
      const ok = refusals.length === 0 && checks.every(({ status }) => status !== "error");
      const shown = effectiveSettings(settings, pluginSettings(plugins));
      const mask = new SecretMask(settings.secretValues).recorded;
      return {
        code: ok ? 0 : 1,
        json: mask.value({ ok, settings: shown, warnings, refusals, checks }),
        text: mask.text(reportText(shown, warnings, refusals, checks)),
        report: true,
      };
    },
  };
}

async function check(
  deployment: Deployment,
  registriesOf: RegistriesOf,
  env: Env,
  binaries: readonly Binary[],
): Promise<readonly Check[]> {
  try {
    return await runChecks(deployment, await registriesOf(deployment), env, binaries);
  } catch (error) {
    return [{ name: "model_routes", status: "error", detail: problemLines(error).join("; ") }];
  }
}

function reportText(
  settings: readonly EffectiveSetting[],
  warnings: readonly string[],
  refusals: readonly string[],
  checks: readonly Check[],
): string {
  const rows = settings.map(({ name, value, source }): [string, string] => [
    name,
    source === "default" ? printed(value) : `${printed(value)}  (environment)`,
  ]);
  const findings = checks.map(({ name, status, detail }): [string, string] => [`${status.padEnd(7)}  ${name}`, detail]);
  const problems = checks.flatMap((check) => check.problems ?? []);
  const text = [
    `Settings\n${table(rows)}`,
    `Checks\n${table(findings)}`,
    ...list("Problems", problems.map(inert)),
    ...list("Warnings", warnings),
    ...list("The server would not start", refusals),
  ].join("\n\n");
  // The report quotes files and databases.
  return harmless(text);
}

function list(title: string, lines: readonly string[]): readonly string[] {
  return lines.length === 0 ? [] : [`${title}\n${lines.map((line) => `  ${line}`).join("\n")}`];
}

function printed(value: unknown): string {
  const words = Array.isArray(value) && value.every((item) => typeof item === "string");
  const text = words ? value.join(", ") : typeof value === "string" ? value : JSON.stringify(value);
  if (text === "" || text === "null" || text === "[]" || text === "{}") return "-";
  return text.length > valueCharsMax ? `${text.slice(0, valueCharsMax)}…` : text;
}
