import { readMap, readObject, readString, readStrings } from "./object-shape.ts";
import { json, list, readHttpUrl, text, url } from "./setting.ts";
import { readTenants, type TenantList } from "./tenant-list.ts";

/** A sandbox of a gateway, as SVC_SANDBOXES defines it under its name. */
export interface SandboxEntry {
  readonly url: string;
  /** A literal or secret:NAME; null for none. */
  readonly auth: string | null;
  readonly tenants: TenantList;
}

/** Settings of runners and gateways: commands and programs that run elsewhere. */
export const runnerSettings = {
  shellRunnerUrl: url(
    "SHELL_RUNNER_URL",
    "URL of a `svc shell-runner`, https, or http on loopback. Commands then run there, and SVC_SHELL_LOCAL does not apply.",
  ),
  shellRunnerToken: text("SHELL_RUNNER_TOKEN", "", "Token of the runner, at least 32 characters.", {
    secret: true,
    item: readToken,
  }),
  shellRunnerPrograms: json<Readonly<Record<string, readonly string[]>>>(
    "SHELL_RUNNER_PROGRAMS",
    {},
    "For `svc shell-runner`: the command of each image and binding, as a JSON object of lists of arguments.",
    readPrograms,
  ),
  sandboxes: json<Readonly<Record<string, SandboxEntry>>>(
    "SANDBOXES",
    {},
    "The sandboxes that spec.sandboxes may name: a JSON object of name to {url, auth?, tenants}.",
    readSandboxes,
    { secret: true },
  ),
  containerGatewayUrl: url("CONTAINER_GATEWAY_URL", "The gateway of spec.containers that name none."),
  containerGatewayAuth: text(
    "CONTAINER_GATEWAY_AUTH",
    "",
    "Sent to SVC_CONTAINER_GATEWAY_URL as a bearer token; a literal or secret:NAME. Empty sends none.",
    { secret: true },
  ),
  sandboxAllowedImages: list(
    "SANDBOX_ALLOWED_IMAGES",
    [],
    "Images that manifests may run on SVC_CONTAINER_GATEWAY_URL: names, or globs with * and ?. Empty allows what the gateway runs.",
  ),
};

const tokenCharsMin = 32;

function readToken(token: string): string {
  if (token.length < tokenCharsMin) throw new Error(`must have at least ${tokenCharsMin} characters`);
  if (!/^[!-~]+$/.test(token)) throw new Error("must be visible ASCII without blanks");
  return token;
}

function readPrograms(document: unknown): Readonly<Record<string, readonly string[]>> {
  return Object.fromEntries(
    Object.entries(readMap(document, "the value")).map(([name, value]) => {
      const argv = readStrings(value, name);
      if (argv.length === 0 || argv.some((argument) => argument.includes("\0")))
        throw new Error(`${name} must be a program and its arguments`);
      return [name, argv];
    }),
  );
}

function readSandboxes(document: unknown): Readonly<Record<string, SandboxEntry>> {
  return Object.fromEntries(
    Object.entries(readMap(document, "the value")).map(([name, value], index) => {
      // Do not repeat the name: it may be a misplaced secret.
      const where = `entry ${index + 1}`;
      const entry = readObject(value, where, ["url", "tenants"], ["auth"]);
      const auth = entry.auth ?? null;
      return [
        name,
        {
          url: readUrl(entry.url, where),
          auth: auth === null ? null : readString(auth, `${where}: auth`),
          tenants: readTenants(entry.tenants, `${where}: tenants`),
        },
      ];
    }),
  );
}

function readUrl(value: unknown, where: string): string {
  try {
    return readHttpUrl(readString(value, `${where}: url`));
  } catch (error) {
    throw new Error(`${where}: url ${(error as Error).message}`);
  }
}
