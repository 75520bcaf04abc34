import { readFile } from "node:fs/promises";
import { createLogger } from "../../../governance/log.ts";
import { Processes } from "../../../governance/processes/processes.ts";
import { SecretMask } from "../../../governance/secret-mask.ts";
import { isLoopback } from "../../../governance/settings/hosts.ts";
import { loadSettings, type Settings } from "../../../governance/settings/settings.ts";
import { tokensOf } from "../../../manifests/sections/shell-tools.ts";
import { UsageError } from "../../../plugins/command.ts";
import { type Command, failed, textOption } from "../command.ts";
import { RunnerServer } from "./runner-server.ts";

/** `svc shell-runner`: runs commands for servers, on a machine or in a container of its own. */
export const shellRunnerCommand: Command = {
  summary: "Run commands for servers that name this runner in SVC_SHELL_RUNNER_URL.",
  options: {
    host: { type: "string", value: "HOST", help: "Address to listen on (127.0.0.1)." },
    port: { type: "string", value: "PORT", help: "Port to listen on (8090); 0 takes any." },
    cert: { type: "string", value: "FILE", help: "Certificate for HTTPS, in PEM." },
    key: { type: "string", value: "FILE", help: "Private key of the certificate, in PEM." },
  },
  positionals: [],
  async run(args, { env, environment, stop }) {
    const settings = loadSettings(environment);
    const host = textOption(args, "host", "127.0.0.1");
    const port = Number(textOption(args, "port", "8090"));
    if (!Number.isInteger(port) || port < 0 || port > 65_535) throw new UsageError("--port must be from 0 to 65535.");
    const [cert, key] = [textOption(args, "cert", ""), textOption(args, "key", "")];
    if ((cert === "") !== (key === "")) throw new UsageError("--cert and --key go together.");
    const refusal = refusalOf(settings, host, cert !== "");
    if (refusal !== null) return failed(1, "boot_refused", refusal);
    const tls = cert === "" ? null : { cert: await readFile(cert, "utf8"), key: await readFile(key, "utf8") };
    const log = createLogger(settings, new SecretMask(settings.secretValues), { runner: true });
    const processes = new Processes({ ...settings, shellRunnerUrl: "" }, env);
    const config = {
      ...{ token: settings.shellRunnerToken, root: settings.workspaceRoot, tls },
      allowed: settings.shellAllowedCommands.map(tokensOf),
      programs: settings.shellRunnerPrograms,
    };
    const server = new RunnerServer(config, processes, env, log);
    try {
      const bound = await server.listen(host, port);
      const shown = host.includes(":") ? `[${host}]` : host;
      log.info({ url: `${tls === null ? "http" : "https"}://${shown}:${bound}` }, "the runner is ready");
      await new Promise<void>((resolve) => {
        if (stop.aborted) resolve();
        stop.addEventListener("abort", () => resolve());
      });
    } finally {
      processes.close();
      server.close();
    }
    return { code: 0, json: { ok: true }, text: "" };
  },
};

function refusalOf(settings: Settings, host: string, isEncrypted: boolean): string | null {
  if (settings.shellRunnerToken === "")
    return "svc shell-runner needs SVC_SHELL_RUNNER_TOKEN, of at least 32 characters.";
  if (settings.shellLocal === "none") return "svc shell-runner needs SVC_SHELL_LOCAL, bwrap or trusted.";
  if (settings.shellLocal === "trusted" && settings.environment === "production")
    return "SVC_SHELL_LOCAL=trusted is not for production; use bwrap.";
  if (!isEncrypted && !isLoopback(host) && !settings.allowInsecure)
    return `Plain HTTP on ${host} needs SVC_ALLOW_INSECURE=true; use --cert and --key.`;
  return null;
}
