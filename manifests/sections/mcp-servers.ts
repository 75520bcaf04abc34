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
import { credential, timeoutMs, urlText } from "../fields/remote.ts";
import { each, type Rule, unique } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import { type NetworkSpec, urlRules } from "./network.ts";

const fields = {
  mcp_servers: unbuilt(
    list(
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
        use_instructions: flag("Shows the model the server's own instructions."),
      }),
    ),
  ),
};

type Spec = SpecOf<typeof fields> & NetworkSpec;
type Server = Spec["mcp_servers"][number];

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

export const mcpServers = defineSection({ fields, rules });

function servers(spec: Spec, key: keyof Server, broken: (server: Server) => boolean) {
  return each("spec.mcp_servers", spec.mcp_servers, broken, key);
}
