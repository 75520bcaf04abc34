import type { Env } from "../../bus/env.ts";
import { isLoopback } from "../../governance/settings/hosts.ts";
import { type CommandArgs, type Outcome, type ServerAnswer, UsageError } from "../../plugins/command.ts";
import { type Command, type CommandIo, failed, textOption } from "./command.ts";
import { loginFile, saveLogin } from "./login-file.ts";
import { refused } from "./refused.ts";
import { askServer, serverUrl, urlOption } from "./server-call.ts";
import { inert } from "./terminal-text.ts";

/** Longer than any provider lets a person confirm a code. */
const patienceMs = 1_800_000;
const intervalSecondsMax = 60;

interface DeviceStart {
  readonly device_code: string;
  readonly user_code: string;
  readonly verification_uri: string;
  readonly interval: number;
}

interface TokenAnswer {
  readonly access_token: string;
  readonly expires_in: number;
  readonly tenant: string;
  readonly scopes: readonly string[];
  readonly github_login: string;
}

/** `svc login`: signs a person in by device, or a workflow by its id token, and saves the token for other commands. */
export const loginCommand: Command = {
  summary: "Sign in to a server with GitHub, and save the token for other commands.",
  options: {
    ...urlOption,
    tenant: { type: "string", value: "TENANT", help: "The tenant, if several admit the account." },
    "github-actions": { type: "boolean", help: "Sign the workflow in that runs this command, and print the token." },
    audience: { type: "string", value: "NAME", help: "SVC_GITHUB_OIDC_AUDIENCE of the server; with --github-actions." },
    insecure: { type: "boolean", help: "Allow http to a server on another machine." },
    forget: { type: "boolean", help: "Remove the saved token of the server." },
  },
  positionals: [],
  async run(args, io) {
    const url = serverUrl(args, io.environment);
    const { protocol, hostname } = new URL(url);
    if (protocol !== "https:" && !isLoopback(hostname) && args.options.insecure !== true)
      throw new UsageError("the token would cross the network unencrypted; use https, or --insecure.");
    const path = loginFile(io.environment);
    const isWorkflow = args.options["github-actions"] === true;
    if (path === null && !isWorkflow)
      return failed(1, "no_home", "HOME is not set, so there is no place for the token.");
    if (args.options.forget === true) return forget(path, url);
    const answer = isWorkflow ? await asWorkflow(url, args, io) : await byDevice(url, args, io);
    if ("code" in answer) return answer;
    const { access_token, expires_in, tenant, scopes, github_login } = answer;
    const expires_at = io.env.now() + expires_in * 1_000;
    const json = { ok: true, url, tenant, scopes, github_login, expires_at };
    if (isWorkflow) return { code: 0, json: { ...json, token: access_token }, text: access_token };
    if (path !== null) saveLogin(path, url, { token: access_token, expires_at });
    const who = github_login === "" ? "" : ` as ${inert(github_login)}`;
    return { code: 0, json, text: `Signed in to ${new URL(url).origin}${who}, tenant ${inert(tenant)}.` };
  },
};

function forget(path: string | null, url: string): Outcome {
  const removed = path !== null && saveLogin(path, url, null);
  return { code: 0, json: { ok: true, removed }, text: removed ? "The token is removed." : "There was no token." };
}

async function byDevice(
  url: string,
  args: CommandArgs,
  { env, talk, stop }: CommandIo,
): Promise<TokenAnswer | Outcome> {
  const started = await askServer("POST", `${url}/auth/github/device`, undefined, {});
  if (started.status !== 200) return refusalOf(started);
  const start = JSON.parse(started.body) as DeviceStart;
  talk.notes.write(`Open ${inert(start.verification_uri)} and enter the code ${inert(start.user_code)}.\n`);
  const until = env.monotonic() + patienceMs;
  let seconds = start.interval;
  while (env.monotonic() < until) {
    await pause(env, Math.min(Math.max(seconds, 1), intervalSecondsMax) * 1_000, stop);
    if (stop.aborted) return failed(1, "stopped", "The sign-in was stopped.");
    const body = { device_code: start.device_code, ...tenantOf(args) };
    const answer = await askServer("POST", `${url}/auth/github/token`, undefined, body);
    if (answer.status === 200) return JSON.parse(answer.body) as TokenAnswer;
    if (answer.status !== 428) return refusalOf(answer);
    seconds = (JSON.parse(answer.body) as { interval?: number }).interval ?? seconds;
  }
  return failed(1, "expired_token", "Nobody has confirmed the code in half an hour.");
}

/** Asks GitHub for the id token of the workflow, and the server for its own token. */
async function asWorkflow(url: string, args: CommandArgs, { environment }: CommandIo): Promise<TokenAnswer | Outcome> {
  const { ACTIONS_ID_TOKEN_REQUEST_URL: from = "", ACTIONS_ID_TOKEN_REQUEST_TOKEN: token = "" } = environment;
  if (from === "" || token === "")
    return failed(1, "no_id_token", "This is no workflow with the permission id-token: write.");
  const audience = textOption(args, "audience", "");
  if (audience === "") throw new UsageError("--audience is missing.");
  const asked = new URL(from);
  asked.searchParams.set("audience", audience);
  const given = await askServer("GET", asked.href, token);
  const { value } = given.status === 200 ? (JSON.parse(given.body) as { value?: unknown }) : { value: undefined };
  if (typeof value !== "string") return failed(1, "no_id_token", `GitHub gave no id token (status ${given.status}).`);
  const body = { id_token: value, ...tenantOf(args) };
  const answer = await askServer("POST", `${url}/auth/github/actions`, undefined, body);
  return answer.status === 200 ? (JSON.parse(answer.body) as TokenAnswer) : refusalOf(answer);
}

function tenantOf(args: CommandArgs): { tenant?: string } {
  const tenant = textOption(args, "tenant", "");
  return tenant === "" ? {} : { tenant };
}

/** Returns the outcome of a refusal of the sign-in table. Several tenants are the caller's choice, hence a usage error. */
function refusalOf(answer: ServerAnswer): Outcome {
  try {
    const { error, message, tenants } = JSON.parse(answer.body) as {
      error: string;
      message?: string;
      tenants?: string[];
    };
    if (error === "tenant_ambiguous")
      return failed(
        2,
        error,
        `Several tenants admit the account: choose one with --tenant, of ${(tenants ?? []).map(inert).join(", ")}.`,
      );
    if (error === "unauthorized" || error === "not_configured" || error === "not_found")
      return failed(1, "not_configured", "The server does not offer this sign-in; see GET /auth/methods.");
    if (typeof message === "string") return failed(1, error, inert(message));
  } catch {
    // The answer is not that of svc.
  }
  return refused(answer);
}

function pause(env: Env, ms: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      timer.cancel();
      stop.removeEventListener("abort", end);
      resolve();
    };
    const timer = env.timer(ms, end);
    stop.addEventListener("abort", end);
    if (stop.aborted) end();
  });
}
