import { Type } from "../../bus/type.ts";
import { choice, closed, flag, list, mapOf, nullable, text, texts, toolGlobs, toolName } from "../fields/fields.ts";
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
      command: nullable(
        text("The program to start, for stdio; SVC_MCP_STDIO_ALLOWED_COMMANDS must list it.", { maxLength: 1024 }),
      ),
      args: texts("Arguments of the program, for stdio."),
      cwd: nullable(
        text("Where the program begins, for stdio: an absolute path in SVC_SHELL_READABLE. null is an empty folder.", {
          maxLength: 1024,
        }),
      ),
      env: mapOf("Environment of the program, for stdio: literals or secret:NAME.", Type.String()),
      auth: credential(),
      transport: choice("Its transport.", ["http", "sse", "stdio"], "sse"),
      tools: toolGlobs("Tools to bind; empty binds all."),
      timeout_ms: timeoutMs("Timeout of one call; null is 30 seconds."),
      use_instructions: flag(
        "Shows the model the server's own instructions, as untrusted data of at most 4,096 characters.",
      ),
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
    says: "does not go with the transport stdio: env carries its credentials",
    broken: (spec) => servers(spec, "auth", ({ transport, auth }) => transport === "stdio" && auth !== null),
  },
  ...(["command", "args", "cwd", "env"] as const).map((key) => ({
    says: "goes with the transport stdio only",
    broken: (spec: Spec) => servers(spec, key, (server) => server.transport !== "stdio" && isSet(server[key])),
  })),
  {
    says: "must be an absolute path without . and .. segments",
    type: "pattern",
    broken: (spec) => servers(spec, "cwd", ({ cwd }) => cwd !== null && !isPlainPath(cwd)),
  },
  {
    says: "must have names of letters, digits and _, and values without NUL",
    type: "pattern",
    broken: (spec) => servers(spec, "env", ({ env }) => !Object.entries(env).every(isVariable)),
  },
  {
    says: "may not set PATH, which finds the allowed program, or variables of the loader, which act outside the sandbox",
    broken: (spec) => servers(spec, "env", ({ env }) => Object.keys(env).some((name) => reserved.test(name))),
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
    for (const [at, { transport, command, cwd, auth, env }] of spec.mcp_servers.entries()) {
      const loc = ["spec", "mcp_servers", at];
      refuseSecret(auth, [...loc, "auth"], context);
      for (const [name, value] of Object.entries(env)) refuseSecret(value, [...loc, "env", name], context);
      if (transport !== "stdio") continue;
      const { targets } = registries;
      const fault = targets === undefined ? noStdio : targets.stdioFault(command ?? "");
      if (fault !== null) refuse([...loc, "command"], fault, "unsupported");
      const folderFault = cwd === null || targets === undefined ? null : targets.stdioFolderFault(cwd);
      if (folderFault !== null) refuse([...loc, "cwd"], folderFault, "unsupported");
    }
    return { mcpServers: spec.mcp_servers };
  },
});

const noStdio = "needs a way to run commands, which the operator has not set up";

/** Variables that the program of the sandbox reads too. */
const reserved = /^(?:PATH|LD_.*|GLIBC_.*|GCONV_PATH|LOCPATH|NLSPATH|SVC_.*)$/;

function isSet(value: Server["command" | "args" | "cwd" | "env"]): boolean {
  return value !== null && (typeof value === "string" || Object.keys(value).length > 0);
}

function isPlainPath(path: string): boolean {
  return path.startsWith("/") && path.split("/").every((part) => part !== "." && part !== ".." && !part.includes("\0"));
}

function isVariable([name, value]: [string, string]): boolean {
  return /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) && !value.includes("\0");
}

function servers(spec: Spec, key: keyof Server, broken: (server: Server) => boolean) {
  return each("spec.mcp_servers", spec.mcp_servers, broken, key);
}
