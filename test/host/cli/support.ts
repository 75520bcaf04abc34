import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { systemEnv } from "../../../bus/env.ts";
import type { Environment } from "../../../governance/settings/settings.ts";
import type { Command } from "../../../host/cli/command.ts";
import { dispatch, type Printed } from "../../../host/cli/dispatch.ts";
import type { Terminal } from "../../../host/cli/list-table.ts";
import type { ModelRoute, Registries } from "../../../manifests/registries.ts";
import { silentTalk } from "../../support/silent-talk.ts";

/** A directory that is deleted after the test. */
export function temporaryDirectory(context: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), "svc-cli-"));
  context.after(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** Runs one command as the command line does. */
export function run(
  command: Command,
  argv: readonly string[],
  environment: Environment = {},
  terminal: Terminal | null = null,
  stop: AbortSignal = new AbortController().signal,
): Promise<Printed> {
  return dispatch(
    ["command", ...argv],
    { command: async () => command },
    {
      env: systemEnv(),
      environment,
      stop,
      terminal,
      talk: silentTalk(),
    },
  );
}

/** The answer of --json; asserts that it is one line. */
export async function runJson(command: Command, argv: readonly string[], environment: Environment = {}) {
  const { code, stdout, stderr } = await run(command, [...argv, "--json"], environment);
  const lines = stdout.trimEnd().split("\n");
  if (lines.length !== 1 || stderr !== "") throw new Error(`not one JSON line: ${stdout}${stderr}`);
  return { code, answer: JSON.parse(stdout) as Record<string, unknown> };
}

/** The registries of a deployment with one tool and one route for each of two providers. */
export function someRegistries(defaultModelId = "hosted"): Registries {
  const route = (id: string, provider: string): ModelRoute => ({
    id,
    provider,
    model: id,
    modalities: ["text"],
    context_window: 128_000,
    max_output_tokens: null,
    tools_max: null,
    parameters: null,
    price: null,
  });
  const tools = ["calculator", "todo_write"].map((name) => {
    const parameters = { type: "object", properties: {}, additionalProperties: false };
    return [
      name,
      { name, description: name, parameters, effect: "read" as const, risk: "reads" as const, workspace: false },
    ] as const;
  });
  return {
    tools: new Map(tools),
    routes: new Map([
      ["hosted", route("hosted", "openai")],
      ["demo", route("demo", "demo")],
    ]),
    decisions: new Map(),
    embeddings: new Set(),
    patterns: new Set(["react"]),
    defaultModelId,
    defaultVisionModelId: "",
    webhookEndpoints: new Map(),
    workspaceDeploymentTenants: ["default"],
    hasRedis: false,
  };
}
