// `svc login` and the actions of `svc keys` against a server, with a stand-in for GitHub.
import assert from "node:assert/strict";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, beforeEach, describe, test } from "node:test";
import { hostsCommand } from "../../../host/cli/hosts.ts";
import { keysCommand } from "../../../host/cli/keys.ts";
import { loginCommand } from "../../../host/cli/login.ts";
import { eventually } from "../../support/eventually.ts";
import { freePort } from "../../support/free-port.ts";
import { audience, type Person, requestToken, startGithub } from "../../support/github-server.ts";
import { apiKeys, startServer, type TestServer } from "../../support/server.ts";
import { cleanup, tempDir } from "../../support/temp.ts";
import { run, runJson } from "./support.ts";

const octocat: Person = { id: 1, login: "octocat", orgs: { acme: 100 } };
const both: Person = { id: 2, login: "both", orgs: { acme: 100, globex: 200 } };

describe("svc login and svc keys", () => {
  const atEnd = cleanup();
  const { env, keys } = apiKeys({ root: { scopes: ["*"] } });
  let github: Awaited<ReturnType<typeof startGithub>>;
  let server: TestServer;
  let home: string;
  let file: string;
  before(async () => {
    github = await startGithub(atEnd);
    const port = await freePort();
    server = await startServer({
      atEnd,
      env: {
        ...env,
        ...github.settings,
        SVC_PORT: String(port),
        SVC_PUBLIC_URL: `http://127.0.0.1:${port}`,
        SVC_GITHUB_DEVICE_STARTS_PER_HOUR: "100",
        SVC_RUNTIME_KEYS: "true",
        SVC_GITHUB_ACTIONS_GRANTS: JSON.stringify([{ repository_id: 11, tenant: "acme", scopes: ["runs:read"] }]),
        SVC_GITHUB_ORGS: JSON.stringify({
          acme: { id: 100, tenant: "acme", scopes: ["runs:read"] },
          globex: { id: 200, tenant: "globex", scopes: ["runs:read"] },
        }),
      },
    });
    home = tempDir(atEnd);
    file = join(home, ".config/svc/logins.json");
  });
  beforeEach(() => {
    github.state.interval = 1;
  });

  const url = () => ["--url", server.url];
  /** Signs in while a person confirms, or declines, the code. */
  async function login(person: Person | null, argv: readonly string[] = []) {
    const before = github.device();
    const signedIn = runJson(loginCommand, [...url(), ...argv], { HOME: home });
    const device = await eventually("the code", async () => github.device() !== before && github.device());
    device.person = person;
    device.declined = person === null;
    return signedIn;
  }

  test("signs in by device, and other commands use the token", async () => {
    const refused = await runJson(hostsCommand, url(), { HOME: home });

    const { code, answer } = await login(octocat);
    const used = await runJson(hostsCommand, url(), { HOME: home });

    assert.deepEqual([refused.code, refused.answer.error], [1, "unauthorized"]);
    assert.deepEqual([code, answer.tenant, answer.github_login], [0, "acme", "octocat"]);
    assert.equal(used.code, 0);
    assert.equal(statSync(file).mode & 0o777, 0o600);
    assert.ok(!JSON.stringify(answer).includes(JSON.parse(readFileSync(file, "utf8"))[server.url].token));
  });

  test("a key in SVC_KEY wins, and a token goes to its own server only", async () => {
    await login(octocat);
    const other = server.url.replace("127.0.0.1", "localhost");

    const withKey = await runJson(hostsCommand, url(), { HOME: home, SVC_KEY: "wrong" });
    const elsewhere = await runJson(hostsCommand, ["--url", other], { HOME: home });

    assert.match(String(withKey.answer.message), /does not know the key/);
    assert.match(String(elsewhere.answer.message), /svc login/);
  });

  test("an expired token and a damaged file count as none", async () => {
    await login(octocat);
    const saved = JSON.parse(readFileSync(file, "utf8"));
    saved[server.url].expires_at = 1;
    for (const text of [JSON.stringify(saved), "{broken", "[]", "null", `{"${server.url}":null}`]) {
      writeFileSync(file, text);
      const { answer } = await runJson(hostsCommand, url(), { HOME: home });
      assert.match(String(answer.message), /needs an API key/, text);
    }
  });

  test("login names the tenants, a refusal and a removed token", async () => {
    const ambiguous = await login(both);
    const chosen = await login(both, ["--tenant", "globex"]);
    const declined = await login(null);
    const forgotten = await runJson(loginCommand, [...url(), "--forget"], { HOME: home });
    const again = await runJson(loginCommand, [...url(), "--forget"], { HOME: home });

    assert.deepEqual([ambiguous.code, ambiguous.answer.error], [2, "tenant_ambiguous"]);
    assert.match(String(ambiguous.answer.message), /acme, globex/);
    assert.equal(chosen.answer.tenant, "globex");
    assert.deepEqual([declined.code, declined.answer.error], [1, "access_denied"]);
    assert.deepEqual([forgotten.answer.removed, again.answer.removed], [true, false]);
  });

  test("a workflow signs in, and its token is printed and not saved", async () => {
    const workflow = { jti: "run-1", sub: "repo:acme/app", repository_id: "11" };
    const asWorkflow = (more: object = {}, argv: readonly string[] = ["--audience", audience]) => {
      const environment = {
        ACTIONS_ID_TOKEN_REQUEST_URL: `${github.url}/actions/id-token?api-version=2`,
        ACTIONS_ID_TOKEN_REQUEST_TOKEN: requestToken,
        ...more,
      };
      return run(loginCommand, [...url(), "--github-actions", ...argv], environment);
    };
    github.state.workflow = workflow;

    const signedIn = await asWorkflow();
    const used = await runJson(hostsCommand, url(), { SVC_KEY: signedIn.stdout.trim() });
    github.state.workflow = { ...workflow, jti: "run-2", repository_id: "12" };
    const foreign = await asWorkflow();
    const outside = await asWorkflow({ ACTIONS_ID_TOKEN_REQUEST_URL: "" });
    const refused = await asWorkflow({ ACTIONS_ID_TOKEN_REQUEST_TOKEN: "another" });
    const nameless = await asWorkflow({}, []);

    assert.equal(signedIn.code, 0, signedIn.stderr);
    assert.equal(used.code, 0, JSON.stringify(used.answer));
    assert.deepEqual([foreign.code, outside.code, refused.code, nameless.code], [1, 1, 1, 2]);
    assert.match(foreign.stderr, /No entry admits this workflow/);
    assert.match(outside.stderr, /id-token: write/);
    assert.match(refused.stderr, /gave no id token \(status 401\)/);
    assert.match(nameless.stderr, /--audience/);
  });

  test("a plain connection to another machine needs --insecure", async () => {
    const { code, stderr } = await run(loginCommand, ["--url", "http://agents.example.com"], { HOME: home });

    assert.equal(code, 2);
    assert.match(stderr, /--insecure/);
  });

  test("keys are made, listed and revoked", async () => {
    const asRoot = { HOME: home, SVC_KEY: keys.root };
    const made = await runJson(
      keysCommand,
      ["create", ...url(), "--scopes", "runs:read", "--name", "ci", "--budget-usd", "2.5", "--budget-period", "day"],
      asRoot,
    );
    const used = await runJson(hostsCommand, url(), { SVC_KEY: String(made.answer.key) });
    const listed = await run(keysCommand, ["list", ...url()], asRoot);
    const revoked = await runJson(keysCommand, ["revoke", String(made.answer.id), ...url()], asRoot);
    const refused = await runJson(hostsCommand, url(), { SVC_KEY: String(made.answer.key) });

    assert.deepEqual([made.code, made.answer.budget], [0, { period: "day", usd: 2.5 }]);
    assert.equal(used.code, 0);
    assert.match(listed.stdout, /live .* key:\S+ +root +ci +runs:read/);
    assert.equal(revoked.answer.revoked, true);
    assert.equal(refused.code, 1);
    assert.equal((await run(keysCommand, ["revoke", ...url()], asRoot)).code, 2);
    assert.equal((await run(keysCommand, ["burn"], asRoot)).code, 2);
  });

  test("a VAPID key is a pair that the settings take", async () => {
    const { answer } = await runJson(keysCommand, ["vapid"]);
    await server.restart({
      SVC_PUSH_VAPID_PRIVATE_KEY: String(answer.private_key),
      SVC_PUSH_VAPID_SUBJECT: "mailto:ops@example.com",
    });

    const { json } = await server.get("/push/vapid-public-key", { key: keys.root });

    assert.equal(json.public_key, answer.public_key);
  });
});
