import { bool, list, oneOf, text } from "./setting.ts";

/** Settings of commands: shell tools, and MCP servers that are processes (decisions 110 and 173). */
export const shellSettings = {
  shellLocal: oneOf(
    "SHELL_LOCAL",
    ["none", "bwrap", "trusted"],
    "none",
    "How commands of agents run on this machine. bwrap: in a sandbox of bubblewrap. trusted: with all rights of svc; refused in production.",
  ),
  shellNetwork: bool("SHELL_NETWORK", false, "Lets sandboxed commands use the network of the machine."),
  shellAllowedCommands: list(
    "SHELL_ALLOWED_COMMANDS",
    [],
    "How commands may begin that manifests allow, as in git status. Empty allows what the manifests allow.",
    { item: readPrefix },
  ),
  shellPath: text(
    "SHELL_PATH",
    "/usr/local/bin:/usr/bin:/bin",
    "PATH of commands: absolute folders, separated by colons.",
    { pattern: /^\/[^:]*(?::\/[^:]*)*$/, reason: "must be absolute folders, separated by colons" },
  ),
  mcpStdioAllowedCommands: list(
    "MCP_STDIO_ALLOWED_COMMANDS",
    [],
    "Commands that manifests may start as MCP servers, as the manifests write them: names of programs, or absolute paths.",
    { item: readProgram },
  ),
  shellReadable: list(
    "SHELL_READABLE",
    [],
    "Folders that sandboxed commands may read, besides those of the system: absolute paths.",
    { item: readAbsolute },
  ),
};

function readProgram(command: string): string {
  if (!/^[^\0\s]+$/.test(command) || /^[^/].*\//.test(command))
    throw new Error("must be names of programs, or absolute paths, without blanks");
  return command;
}

function readPrefix(command: string): string {
  if (command.includes("\0")) throw new Error("must not hold a NUL character");
  return command;
}

function readAbsolute(path: string): string {
  if (!/^\/[^\0]*$/.test(path) || path === "/") throw new Error("must be absolute paths below the root directory");
  return path;
}
