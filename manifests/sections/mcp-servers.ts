import { Type } from "../../bus/type.ts";
import {
  choice,
  closed,
  flag,
  list,
  mapOf,
  nullable,
  text,
  texts,
  toolGlobs,
  toolName,
  unbuilt,
} from "../fields/fields.ts";
import { credential, refuseSecret, timeoutMs, urlText } from "../fields/remote.ts";
import { each, type Rule, unique } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import { type NetworkSpec, urlRules } from "./network.ts";

const fields = {
  mcp_servers: list(
    "MCP servers whose tools the agent gets as <name>__<tool>.",
    closed("One server.", {
      name: toolName("First part of its tools' names."),
      url: nullable(urlText("Its URL, for http and sse.")),
      command: nullable(text("The command to start, for stdio.", { maxLength: 1024 })),
      args: texts("Arguments of the command."),
      cwd: nullable(text("Directory of the command.", { maxLength: 1024 })),
      env: mapOf("Environment of the command.", Type.String()),
      auth: credential(),
      transport: choice("Its transport.", ["http", "sse", "stdio"], "sse"),
      tools: toolGlobs("Tools to bind; empty binds all."),
      timeout_ms: timeoutMs("Timeout of one call; null is 30 seconds."),
      use_instructions: unbuilt(flag("Shows the model the server's own instructions.")),
      pin: choice(
        "first_use: the tools of the first use are approved, later changes wait for approval. approved: all tools wait.",
        ["first_use", "approved"],
        "first_use",
      ),
    }),
  ),
};

type Spec = SpecOf<typeof fields> & NetworkSpec;
type Server = Spec["mcp_servers"][number];

/** A server of a manifest. */
export type McpServer = Server;

const rules: readonly Rule<Spec>[] = [
  unique("mcp_servers", "name"),
  ...urlRules("mcp_servers", "url"),
  {
    says: "is required by the transports http and sse",
    type: "missing",
    broken: (spec) => servers(spec, "url", ({ transport, url }) => transport !== "stdio" && url === null),
  },
  {
    says: "is required by the transport stdio",
    type: "missing",
    broken: (spec) => servers(spec, "command", ({ transport, command }) => transport === "stdio" && command === null),
  },
  {
    says: "does not go with the transport stdio",
    broken: (spec) => servers(spec, "url", ({ transport, url }) => transport === "stdio" && url !== null),
  },
  {
    says: "goes with the transport stdio only",
    broken: (spec) => servers(spec, "command", ({ transport, command }) => transport !== "stdio" && command !== null),
  },
];

/** The compiled part of this section. */
interface CompiledServers {
  readonly mcpServers: readonly McpServer[];
}

export const mcpServers = defineSection({
  fields,
  rules,
  compile(spec: Spec, context): CompiledServers {
    const { registries, refuse } = context;
    for (const [at, { transport, command, auth, env }] of spec.mcp_servers.entries()) {
      const loc = ["spec", "mcp_servers", at];
      refuseSecret(auth, [...loc, "auth"], context);
      for (const [name, value] of Object.entries(env)) refuseSecret(value, [...loc, "env", name], context);
      const fault = transport === "stdio" ? (registries.targets?.stdioFault(command ?? "") ?? noStdio) : null;
      if (fault !== null) refuse(["spec", "mcp_servers", at, "command"], fault, "unsupported");
    }
    return { mcpServers: spec.mcp_servers };
  },
});

const noStdio = "needs a way to run commands, which the operator has not set up";

function servers(spec: Spec, key: keyof Server, broken: (server: Server) => boolean) {
  return each("spec.mcp_servers", spec.mcp_servers, broken, key);
}
