import type { Faults } from "./faults.ts";

const fileName = "plugin.json";
const hostsMax = 50;
const hostCharsMax = 253;
const listMax = 64;
const label = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/i;

/** The facts of plugin.json that svc uses. The file grants nothing. */
export interface PluginFile {
  readonly allowedHosts: readonly string[];
}

/** Reads plugin.json and reports its faults. Null if it has any. */
export function readPlugin(text: string, faults: Faults): PluginFile | null {
  const before = faults.all.length;
  const report = (message: string): void => faults.add(fileName, message);
  const value = parsed(text);
  if (!isRecord(value)) {
    report("must be a JSON object");
    return null;
  }
  const { name, version, description, skills, agents, rules, mcp, network, ...others } = value;
  for (const key of Object.keys(others)) report(`has the unknown key ${key.slice(0, 100)}`);
  if (!isText(name, 128)) report("name must be a text of 1 to 128 characters");
  for (const [key, one] of Object.entries({ version, description }))
    if (one !== undefined && typeof one !== "string") report(`${key} must be a text`);
  for (const [key, one, charsMax] of [
    ["skills", skills, 512] as const,
    ["agents", agents, 64] as const,
    ["rules", rules, 512] as const,
  ])
    if (
      one !== undefined &&
      !(Array.isArray(one) && one.length <= listMax && one.every((item) => isText(item, charsMax)))
    )
      report(`${key} must be a list of texts`);
  if (mcp !== undefined && !isMcp(mcp)) report("mcp must be {servers: [{name, command?, url?}]}");
  const allowedHosts = hostsOf(network, report);
  return faults.all.length > before ? null : { allowedHosts };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function hostsOf(network: unknown, report: (message: string) => void): readonly string[] {
  if (network === undefined) return [];
  const hosts = isRecord(network) ? (network.allowedHosts ?? []) : null;
  if (!Array.isArray(hosts) || hosts.length > hostsMax) {
    report(`network must be {allowedHosts}, a list of at most ${hostsMax} hosts`);
    return [];
  }
  for (const host of hosts)
    if (typeof host !== "string" || !isHost(host))
      report("network.allowedHosts must name hosts: concrete ones, or *. before at least two labels");
  return hosts as readonly string[];
}

function isHost(host: string): boolean {
  if (host.length > hostCharsMax) return false;
  const isWide = host.startsWith("*.");
  const name = isWide ? host.slice(2) : host;
  const labels = name.split(".");
  return labels.every((one) => label.test(one)) && (!isWide || labels.length > 1);
}

function isMcp(mcp: unknown): boolean {
  if (!isRecord(mcp) || !Array.isArray(mcp.servers) || mcp.servers.length > listMax) return false;
  return mcp.servers.every((server) => {
    if (!isRecord(server)) return false;
    const { name, command, url, ...others } = server;
    const areTexts = [command, url].every((one) => one === undefined || typeof one === "string");
    return isText(name, 128) && areTexts && Object.keys(others).length === 0;
  });
}

function isText(value: unknown, charsMax: number): boolean {
  return typeof value === "string" && value !== "" && [...value].length <= charsMax;
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
