// Sign-in while the identity provider fails: each failure is refused by name, and leaves no token, no audit row and no cookie.
import assert from "node:assert/strict";
import { before, beforeEach, describe, test } from "node:test";
import { freePort } from "../support/free-port.ts";
import { type Person, type ProviderFault, startGithub } from "../support/github-server.ts";
import type { Answer } from "../support/http-client.ts";
import { apiKeys, startServer, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const octocat: Person = { id: 1, login: "octocat", orgs: { acme: 100 }, teams: [31] };
const ann = { sub: "g1", email: "ann@example.com" };
const everywhere: readonly ProviderFault[] = [
  "a page",
  "a page of its gateway",
  "a redirect",
  "a rate limit",
  "a rate limit of GitHub",
  "a second rate limit of GitHub",
  "an end of the connection",
];

describe("sign-in with a provider that fails", () => {
  const atEnd = cleanup();
  const { env, keys } = apiKeys({ auditor: { tenant_id: "acme", scopes: ["audit:read"] } });
  let github: Awaited<ReturnType<typeof startGithub>>;
  let server: TestServer;
  let page: string;
  let starts = 0;
  before(async () => {
    github = await startGithub(atEnd);
    const port = await freePort();
    page = `http://127.0.0.1:${port}/console`;
    server = await startServer({
      env: {
        ...env,
        ...github.settings,
        SVC_PORT: String(port),
        SVC_TRUSTED_CLIENT_IP_HEADER: "x-client",
        SVC_PUBLIC_URL: `http://127.0.0.1:${port}`,
        SVC_GITHUB_TIMEOUT_SECONDS: "1",
        SVC_GITHUB_ORGS: JSON.stringify({
          acme: { id: 100, tenant: "acme", scopes: ["chat:write"], teams: [{ id: 31, scopes: ["chat:read"] }] },
        }),
        SVC_GOOGLE_ACCOUNTS: JSON.stringify({ "ann@example.com": { tenant: "acme", scopes: ["chat:write"] } }),
      },
      atEnd,
    });
  });
  beforeEach(() => {
    Object.assign(github.state, { fault: null, who: null, interval: 0, asked: [] });
  });

  /** Each start is of another address, because the starts of one are bounded. */
  const headers = () => ({ "x-client": `10.0.0.${++starts}` });
  const start = () => server.post("/auth/github/device", undefined, { headers: headers() });
  const poll = (device_code: string) => server.post("/auth/github/token", { device_code });
  const codeOf = ({ status, json }: Answer): string => `${status} ${json.error ?? ""}`.trim();
  const signIns = async (): Promise<number> => {
    const found = await Promise.all(
      ["github_login", "google_login"].map((type) =>
        server.get(`/audit?event_type=${type}&limit=100`, { key: keys.auditor }),
      ),
    );
    return found.flatMap(({ json }) => json.items).length;
  };
  const subjectOf = ({ json }: Answer): string =>
    JSON.parse(Buffer.from(json.access_token.split(".")[1], "base64url").toString("utf8")).sub;

  /** Starts a sign-in by device, which the person confirms. */
  async function confirmed(person: Person): Promise<{ code: string; becomes: (other: Person) => void }> {
    const { json, status, text } = await start();
    assert.equal(status, 200, text);
    const device = github.device();
    // The token of the code host stays that of this object, and its account changes as people and organisations do.
    const account = { ...person };
    device.person = account;
    return { code: json.device_code, becomes: (other) => void Object.assign(account, { orgs: {} }, other) };
  }

  async function inBrowser(provider: "github" | "google", fault: readonly [string, ProviderFault] | null) {
    const asked = `/auth/${provider}/authorize?return_to=${encodeURIComponent(page)}`;
    const begun = await server.get(asked, { headers: headers() });
    assert.equal(begun.status, 302, begun.text);
    const away = await fetch(String(begun.headers.location), { redirect: "manual" });
    const { pathname, search } = new URL(String(away.headers.get("location")));
    const cookie = cookieOf(begun);
    github.state.fault = fault;
    const callback = () => server.get(pathname + search, { headers: { cookie } });
    return { returned: await callback(), callback };
  }
  const cookieOf = ({ headers: { "set-cookie": set } }: Answer): string => String(set?.[0]).split(";")[0] as string;
  const fragmentOf = ({ headers: { location } }: Answer): string => new URL(String(location)).hash;

  test("SIGNIN-022 a provider without its description starts no sign-in, and is asked again", async () => {
    const begin = () =>
      server.get(`/auth/google/authorize?return_to=${encodeURIComponent(page)}`, { headers: headers() });
    for (const fault of [...everywhere, "another kind of JSON", "a revoked token", "a slow body"] as const) {
      github.state.fault = ["/google/.well-known/", fault];
      const refused = await begin();
      assert.equal(codeOf(refused), "502 google_unavailable", fault);
      assert.equal(refused.headers["set-cookie"], undefined, fault);
    }
    github.state.fault = null;

    assert.equal((await begin()).status, 302);
  });

  const ofDevice: readonly (readonly [path: string, faults: readonly ProviderFault[]])[] = [
    ["/login/oauth/access_token", [...everywhere, "another kind of JSON", "a slow body"]],
    ["/user", [...everywhere, "another kind of JSON", "a revoked token", "a slow body"]],
    ["/user/memberships/", [...everywhere, "a revoked token"]],
    ["/user/teams", [...everywhere, "a revoked token"]],
  ];
  for (const [path, faults] of ofDevice)
    test(`SIGNIN-022 a sign-in by device outlives failures of ${path}`, async () => {
      for (const fault of faults) {
        const { code } = await confirmed(octocat);
        const before = await signIns();
        github.state.fault = [path, fault];
        const failed = await poll(code);
        const between = await signIns();
        github.state.fault = null;
        const signedIn = await poll(code);
        const again = await poll(code);

        assert.equal(codeOf(failed), "502 github_unavailable", fault);
        assert.deepEqual(Object.keys(failed.json), ["error", "message"], fault);
        assert.equal(between, before, fault);
        assert.deepEqual([signedIn.status, signedIn.json.scopes], [200, ["chat:write", "chat:read"]], fault);
        assert.equal(codeOf(again), "400 invalid_device_code", fault);
      }
      assert.ok(!github.state.asked.includes("/login/oauth/elsewhere"), "no secret follows a redirect");
    });

  test("SIGNIN-022 a failing start of a device stores no flow, and the next one starts", async () => {
    for (const fault of [...everywhere, "another kind of JSON"] as const) {
      github.state.fault = ["/login/device/code", fault];
      const failed = await start();
      assert.equal(codeOf(failed), "502 github_unavailable", fault);
      assert.deepEqual(Object.keys(failed.json), ["error", "message"], fault);
    }
    github.state.fault = null;

    assert.equal((await start()).status, 200);
  });

  const ofBrowser: readonly (readonly [path: string, provider: "github" | "google"])[] = [
    ["/login/oauth/access_token", "github"],
    ["/user", "github"],
    ["/user/memberships/", "github"],
    ["/google/token", "google"],
    ["/google/jwks", "google"],
  ];
  for (const [path, provider] of ofBrowser)
    test(`SIGNIN-007 SIGNIN-022 a sign-in in a browser ends with a failure of ${path}`, async () => {
      const before = await signIns();
      // After a failure, the keys of Google are not read again for seconds.
      for (const fault of path === "/google/jwks" ? (["a page"] as const) : everywhere) {
        github.state.who = provider === "github" ? octocat : ann;
        const { returned, callback } = await inBrowser(provider, [path, fault]);
        github.state.fault = null;
        const repeated = await callback();
        const exchanged = await server.post(`/auth/${provider}/exchange`, undefined, {
          headers: { cookie: cookieOf(returned) },
        });

        assert.equal(fragmentOf(returned), `#svc_login_error=${provider}_unavailable`, fault);
        assert.match(String(returned.headers["set-cookie"]), /^svc_signin=; .*Max-Age=0$/, fault);
        assert.equal(fragmentOf(repeated), "#svc_login_error=invalid_state", fault);
        assert.equal(codeOf(exchanged), "401 invalid_login", fault);
      }

      assert.equal(await signIns(), before);
    });

  test("SIGNIN-018 a member who is removed before the token is refused", async () => {
    const removed: Person = { id: 1, login: "octocat" };
    const pending = await start();
    const device = github.device();
    const waiting = await poll(pending.json.device_code);
    device.person = removed;
    const afterPoll = await poll(pending.json.device_code);
    const { code, becomes } = await confirmed(octocat);
    github.state.fault = ["/user/memberships/", "a page"];
    const failed = await poll(code);
    github.state.fault = null;
    becomes(removed);
    const afterFailure = await poll(code);
    const leaves = { ...octocat };
    github.state.who = leaves;
    const asked = `/auth/github/authorize?return_to=${encodeURIComponent(page)}`;
    const begun = await server.get(asked, { headers: headers() });
    const away = await fetch(String(begun.headers.location), { redirect: "manual" });
    Object.assign(leaves, { orgs: {} });
    const { pathname, search } = new URL(String(away.headers.get("location")));
    const returned = await server.get(pathname + search, { headers: { cookie: cookieOf(begun) } });

    assert.equal(codeOf(waiting), "428 authorization_pending");
    assert.equal(codeOf(failed), "502 github_unavailable");
    for (const answer of [afterPoll, afterFailure]) {
      assert.equal(codeOf(answer), "403 not_a_member");
      assert.equal(answer.json.github_login, "octocat");
    }
    for (const spent of [pending.json.device_code, code])
      assert.equal(codeOf(await poll(spent)), "400 invalid_device_code");
    assert.equal(fragmentOf(returned), "#svc_login_error=not_a_member&login=octocat");
  });

  test("SIGNIN-005 the subject is the id of the account, also when its login changes hands", async () => {
    const first = await confirmed(octocat);
    const before = await poll(first.code);
    const other = await confirmed({ ...octocat, id: 77 });
    const after = await poll(other.code);
    const { code, becomes } = await confirmed(octocat);
    github.state.fault = ["/user/teams", "a rate limit"];
    const failed = await poll(code);
    github.state.fault = null;
    becomes({ ...octocat, id: 78 });
    const between = await poll(code);
    const nameless = await confirmed({ ...octocat, id: "1" as never });

    assert.deepEqual([before, after].map(subjectOf), ["github:1", "github:77"]);
    assert.equal(codeOf(failed), "502 github_unavailable");
    assert.equal(subjectOf(between), "github:78");
    assert.equal(codeOf(await poll(nameless.code)), "502 github_unavailable", "an id that is no number");
  });
});
