// Sign-in of people by device and browser, with Google, and of workflows, against stand-ins that speak the providers' protocols.
import assert from "node:assert/strict";
import { createPrivateKey } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { before, beforeEach, describe, test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { generateKeyPair, importJWK, SignJWT } from "jose";
import { systemEnv } from "../../bus/env.ts";
import { JwtVerifier } from "../../governance/auth/jwt.ts";
import { tokenKeyOf } from "../../governance/settings/token-keys.ts";
import { signToken } from "../../governance/sign-in/access-tokens.ts";
import { startMock } from "../support/chat.ts";
import { freePort } from "../support/free-port.ts";
import { type Account, audience, type ForgedToken, type Person, startGithub } from "../support/github-server.ts";
import type { Answer } from "../support/http-client.ts";
import { onOneHost } from "../support/on-two-hosts.ts";
import { apiKeys, startServer, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const octocat: Person = { id: 1, login: "octocat", orgs: { acme: 100 } };
const both: Person = { id: 2, login: "both", orgs: { acme: 100, globex: 200 } };
const stranger: Person = { id: 3, login: "stranger" };
const guest: Person = { id: 4, login: "guest" };
const restricted: Person = { id: 5, login: "restricted", orgs: { acme: "restricted" } };
const pending: Person = { id: 6, login: "pending", orgs: { acme: "pending" } };
const renamed: Person = { id: 7, login: "renamed", orgs: { acme: 999 } };
const teamless: Person = { id: 8, login: "teamless", orgs: { initech: 300 } };
const inTeam: Person = { id: 9, login: "in-team", orgs: { initech: 300 }, teams: [31] };
const page = "https://app.example.com/login";

describe("sign-in", () => {
  const atEnd = cleanup();
  const { env, keys } = apiKeys({ auditor: { tenant_id: "acme", scopes: ["audit:read"] } });
  let github: Awaited<ReturnType<typeof startGithub>>;
  let server: TestServer;
  let base: Record<string, string>;
  before(async () => {
    github = await startGithub(atEnd);
    const port = await freePort();
    base = {
      ...env,
      ...github.settings,
      SVC_PORT: String(port),
      SVC_TRUSTED_CLIENT_IP_HEADER: "x-client",
      SVC_PUBLIC_URL: `http://127.0.0.1:${port}`,
      SVC_LOGIN_RETURN_ORIGINS: "https://app.example.com",
      SVC_GITHUB_DEVICE_STARTS_PER_HOUR: "100",
      SVC_GITHUB_ORGS: JSON.stringify({
        acme: { id: 100, tenant: "acme", scopes: ["chat:write", "keys:write"] },
        globex: {
          ...{ id: 200, tenant: "globex", scopes: ["chat:write"] },
          actions: [{ ref: "refs/heads/release", scopes: ["eval:read"] }],
        },
        initech: { id: 300, tenant: "initech", scopes: ["chat:read"], teams: [{ id: 31, scopes: ["audit:read"] }] },
      }),
      SVC_GOOGLE_ACCOUNTS: JSON.stringify({
        "ann@example.com": { tenant: "acme", scopes: ["chat:write"] },
        "@firm.example": { tenant: "firm", scopes: ["chat:write"] },
      }),
      SVC_GITHUB_ACTIONS_GRANTS: JSON.stringify([
        { repository_id: 11, ref: "refs/heads/main", tenant: "acme", scopes: ["eval:write"] },
        { repository_id: 12, tenant: "acme", scopes: ["eval:write"] },
        { repository_id: 12, tenant: "globex", scopes: ["eval:write"] },
      ]),
    };
    server = await startServer({ env: base, atEnd });
  });
  beforeEach(() => {
    Object.assign(github.state, { down: false, replays: false, forges: null, who: null, declines: false, interval: 5 });
  });

  /** Starts a sign-in by device; `polls` are the code host's next answers. */
  async function started(person: Person | null, polls: string[] = []): Promise<string> {
    const { json, status, text } = await server.post("/auth/github/device", undefined);
    assert.equal(status, 200, text);
    Object.assign(github.device(), { person, polls });
    return json.device_code;
  }
  const poll = (device_code: string, more: object = {}) => server.post("/auth/github/token", { device_code, ...more });
  /** The code of a refusal, whose body has only the specified keys. */
  function refused({ status, json }: Answer): string {
    const allowed = ["error", "message", "interval", "tenants", "github_login"];
    assert.deepEqual(
      Object.keys(json).filter((key) => !allowed.includes(key)),
      [],
    );
    assert.equal(typeof json.message, "string");
    return `${status} ${json.error}`;
  }
  const chat = (token: string) => server.get("/chat/sessions", { key: token });

  test("SIGNIN-001 SIGNIN-002 the methods name what is configured, in each mode", async () => {
    const off = await startServer({ env: { ...env }, atEnd });

    const on = await server.get("/auth/methods");
    const closed = await off.get("/auth/methods");

    const all = { github_device: true, github_redirect: true, google_redirect: true };
    assert.deepEqual(on.json, { ...all, bearer_required: true, github_signup: "off" });
    assert.deepEqual(Object.values(closed.json), [false, false, false, true, "off"]);
    for (const [method, path, body] of [
      ["POST", "/auth/github/device", undefined],
      ["POST", "/auth/github/token", { device_code: "x" }],
      ["GET", "/auth/github/authorize?return_to=x", undefined],
      ["POST", "/auth/google/exchange", undefined],
      ["POST", "/auth/github/actions", { id_token: "x" }],
    ] as const) {
      const [anonymous, keyed] = await Promise.all([
        off.request(method, path, { body }),
        off.request(method, path, { body, key: keys.auditor }),
      ]);
      assert.deepEqual(
        [anonymous.status, keyed.status, keyed.json.error],
        [401, 404, "not_configured"],
        `SIGNIN-003 ${path}`,
      );
    }
  });

  test("SIGNIN-003 SIGNIN-004 SIGNIN-005 a member signs in by device, and the token works", async () => {
    github.state.interval = 0;
    const { json: start } = await server.post("/auth/github/device", undefined);
    const first = await poll(start.device_code);
    Object.assign(github.device(), { person: octocat });
    const { status, json, headers } = await poll(start.device_code);

    assert.deepEqual(Object.keys(start), ["device_code", "user_code", "verification_uri", "expires_in", "interval"]);
    assert.doesNotMatch(start.device_code, /^device-/, "the provider's code stays here");
    assert.equal(refused(first), "428 authorization_pending");
    assert.equal(status, 200);
    const { access_token, ...rest } = json;
    assert.deepEqual(rest, {
      ...{ token_type: "Bearer", expires_in: 3_600, tenant: "acme", scopes: ["chat:write"], github_login: "octocat" },
    });
    assert.equal(headers["cache-control"], "no-store");
    assert.equal((await chat(access_token)).status, 200);
    assert.equal((await chat(`${access_token.slice(0, -2)}aa`)).status, 401);
    assert.equal(refused(await poll(start.device_code)), "400 invalid_device_code", "a code works once");
    const { keys: published } = (await server.get("/.well-known/jwks.json")).json;
    assert.deepEqual([published.length, published[0].alg, published[0].d], [1, "ES256", undefined]);
  });

  test("AUDIT-019 a sign-in is an audit row without secrets", async () => {
    const at = (address: string) => ({ headers: { "x-client": address } });
    const { json: start } = await server.post("/auth/github/device", undefined, at("192.0.2.10"));
    Object.assign(github.device(), { person: octocat });
    await server.post("/auth/github/token", { device_code: start.device_code }, at("192.0.2.20"));
    const { json } = await server.get("/audit?event_type=github_login", { key: keys.auditor });

    const row = json.items.at(0);
    assert.equal(row.principal_subj, "github:1");
    assert.deepEqual([row.payload.github_login, row.payload.by], ["octocat", "device"]);
    assert.deepEqual([row.payload.started_at, row.payload.address], ["address/192.0.2.10", "address/192.0.2.20"]);
    assert.doesNotMatch(JSON.stringify(row), /eyJ|gho_/);
  });

  for (const [name, person, polls, expected, more] of [
    ["SIGNIN-014 is not confirmed", null, [], "428 authorization_pending", { interval: 5 }],
    ["SIGNIN-015 polls too fast", null, ["slow_down"], "428 slow_down", { interval: 10 }],
    ["SIGNIN-016 has expired", null, ["expired_token"], "400 expired_token", {}],
    ["SIGNIN-017 was declined", null, ["access_denied"], "403 access_denied", {}],
    ["SIGNIN-018 is of no organisation", stranger, [], "403 not_a_member", { github_login: "stranger" }],
    ["SIGNIN-018 is only invited there", pending, [], "403 not_a_member", { github_login: "pending" }],
    [
      "SIGNIN-018 is of a new organisation of the old name",
      renamed,
      [],
      "403 not_a_member",
      { github_login: "renamed" },
    ],
    ["SIGNIN-018 is in none of the teams", teamless, [], "403 not_a_member", { github_login: "teamless" }],
    ["SIGNIN-018 hides its organisation", restricted, [], "403 org_access_restricted", { github_login: "restricted" }],
    [
      "SIGNIN-020 has two tenants",
      both,
      [],
      "409 tenant_ambiguous",
      { tenants: ["acme", "globex"], github_login: "both" },
    ],
    ["SIGNIN-023 meets a wrong client", null, ["incorrect_client_credentials"], "503 github_config_error", {}],
  ] as const)
    test(`SIGNIN-024 a sign-in that ${name.slice(11)} is refused (${name.slice(0, 10)})`, async () => {
      const handle = await started(person, [...polls]);
      const answer = await poll(handle);

      assert.equal(refused(answer), expected);
      const { error: _error, message: _message, ...rest } = answer.json;
      assert.deepEqual(rest, more);
      if ("interval" in more) assert.equal(answer.headers["retry-after"], String(more.interval));
      const isOpen = expected.startsWith("428") || expected.startsWith("503");
      if (!isOpen) assert.equal(refused(await poll(handle)), "400 invalid_device_code", "the flow is spent");
    });

  test("SIGNIN-018 SIGNIN-020 a tenant is chosen among those that admit the account", async () => {
    const chosen = await poll(await started(both), { tenant: "globex" });
    const foreign = await poll(await started(both), { tenant: "initech" });
    const team = await poll(await started(inTeam));

    assert.deepEqual([chosen.status, chosen.json.tenant], [200, "globex"]);
    assert.equal(refused(foreign), "403 tenant_not_granted");
    assert.deepEqual([team.json.tenant, team.json.scopes], ["initech", ["chat:read", "audit:read"]]);
  });

  test("SIGNIN-016 made-up codes are invalid, and the provider's own code is no handle", async () => {
    await started(octocat);

    for (const code of ["made-up", "device-1", "x".repeat(256)])
      assert.equal(refused(await poll(code)), "400 invalid_device_code");
    assert.equal((await server.post("/auth/github/token", { device_code: "" })).status, 422);
  });

  test("SIGNIN-022 a sign-in outlives a failure of the code host", async () => {
    github.state.interval = 0;
    const handle = await started(octocat);
    github.state.down = true;
    const failed = await poll(handle);
    const start = await server.post("/auth/github/device", undefined);
    github.state.down = false;

    assert.deepEqual([refused(failed), refused(start)], ["502 github_unavailable", "502 github_unavailable"]);
    assert.equal((await poll(handle)).status, 200);
  });

  test("SIGNIN-005 two polls at once get one token", async () => {
    const handle = await started(octocat);
    const answers = await Promise.all([poll(handle), poll(handle), poll(handle)]);

    assert.deepEqual(answers.filter(({ status }) => status === 200).length, 1);
    for (const { status, json } of answers)
      if (status !== 200) assert.match(json.error, /^(slow_down|invalid_device_code)$/);
  });

  test("SIGNIN-015 polls that come too fast stay here, and the interval of the code host is kept", async () => {
    github.state.interval = 1;
    const hasty = await started(octocat, ["authorization_pending"]);
    const before = github.state.polled;
    const answers = [await poll(hasty), await poll(hasty), await poll(hasty)];
    const passedOn = github.state.polled - before;
    const slowed = await started(octocat, ["slow_down"]);
    const told = await poll(slowed);
    await setTimeout(1_100);
    const early = await poll(slowed);
    const signedIn = await poll(hasty);

    assert.deepEqual(
      answers.map(({ json }) => [json.error, json.interval]),
      [
        ["authorization_pending", 1],
        ["slow_down", 6],
        ["slow_down", 6],
      ],
    );
    assert.equal(passedOn, 1);
    assert.deepEqual(
      [told.json.interval, early.status, early.json.error, early.json.interval],
      [10, 428, "slow_down", 15],
    );
    assert.equal(early.headers["retry-after"], "15");
    assert.equal(signedIn.status, 200, signedIn.text);
  });

  let starts = 0;
  /** The path of a callback, with the cookie of its browser. */
  async function authorized(provider: string, who: Person | Account | null, query = "", to = page) {
    github.state.who = who;
    // Each from an address of its own, because the starts of an address are bounded.
    const headers = { "x-client": `10.0.0.${++starts}` };
    const asked = `return_to=${encodeURIComponent(to)}${query}`;
    const start = await server.get(`/auth/${provider}/authorize?${asked}`, { headers });
    assert.equal(start.status, 302, start.text);
    const away = await fetch(String(start.headers.location), { redirect: "manual" });
    const back = new URL(String(away.headers.get("location")));
    return { path: back.pathname + back.search, cookie: cookieOf(start), start };
  }
  const cookieOf = ({ headers }: Answer): string => String(headers["set-cookie"]?.[0]).split(";")[0] as string;
  const back = (path: string, cookie: string) =>
    server.get(path, {
      headers: { cookie, "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document" },
    });
  const exchange = (provider: string, cookie: string, headers: Record<string, string> = {}) =>
    server.request("POST", `/auth/${provider}/exchange`, { headers: { cookie, ...headers } });

  test("SIGNIN-006 SIGNIN-007 SIGNIN-008 a person signs in in a browser, and exchanges the cookie once", async () => {
    const { path, cookie, start } = await authorized("github", octocat);
    const to = new URL(String(start.headers.location));
    const returned = await back(path, cookie);
    const token = await exchange("github", cookieOf(returned), { origin: "https://app.example.com" });
    const again = await exchange("github", cookieOf(returned));

    assert.deepEqual([to.pathname, to.searchParams.get("code_challenge_method")], ["/login/oauth/authorize", "S256"]);
    assert.match(
      String(start.headers["set-cookie"]),
      /^svc_signin=[^;]+; Path=\/; HttpOnly; SameSite=Lax; Max-Age=600$/,
    );
    assert.equal(returned.headers.location, `${page}#svc_login=ok&login=octocat`);
    assert.match(String(returned.headers["set-cookie"]), /Max-Age=60$/);
    assert.deepEqual([token.status, token.json.scopes], [200, ["chat:write", "keys:write"]]);
    assert.equal(token.headers["access-control-allow-credentials"], "true");
    assert.equal((await chat(token.json.access_token)).status, 200);
    assert.equal(refused(again), "401 invalid_login");
    assert.equal(refused(await exchange("github", "svc_signin=made-up")), "401 invalid_login");
  });

  test("SIGNIN-007 a refusal is in the fragment, with the account once it is known", async () => {
    const member = await authorized("github", stranger);
    const ambiguous = await authorized("github", both);
    const chosen = await authorized("github", both, "&tenant=globex");
    const declined = await authorized("github", null);
    const fragments = await Promise.all(
      [member, ambiguous, chosen, declined].map(
        async ({ path, cookie }) => (await back(path, cookie)).headers.location,
      ),
    );

    assert.deepEqual(fragments, [
      `${page}#svc_login_error=not_a_member&login=stranger`,
      `${page}#svc_login_error=tenant_ambiguous&login=both`,
      `${page}#svc_login=ok&login=both`,
      `${page}#svc_login_error=access_denied`,
    ]);
  });

  test("SIGNIN-006 a browser returns to listed origins only", async () => {
    const ask = (to: string) => server.get(`/auth/github/authorize?return_to=${encodeURIComponent(to)}`);
    const { SVC_PUBLIC_URL: own } = base;
    const refusals = [
      "https://app.example.com.evil.example/",
      "https://evil.example/?https://app.example.com",
      "http://app.example.com/",
      "https://app.example.com:8443/",
      "https://user@app.example.com/",
      "https://app.example.com/#x",
      "//app.example.com",
      "javascript:alert(1)",
      "/console",
      ...["\r\nx-injected: yes", "\n", "\r", "\t", "\0", "\u007f", "\u0085", " ", "\u2028", "\\"].flatMap((bad) => [
        `${own}/${bad}`,
        `${own}/${bad}x`,
        `${bad}${own}/`,
        `${own}${bad}/`,
      ]),
    ];

    for (const to of refusals) assert.equal(refused(await ask(to)), "400 return_to_not_allowed", to);
    assert.equal((await ask(`${own}/console`)).status, 302);
  });

  test("SIGNIN-007 a page beyond ASCII is the location as URLs write it", async () => {
    const { path, cookie } = await authorized("github", octocat, "", "https://app.example.com/é/日?q=ü");
    const returned = await back(path, cookie);

    assert.equal(
      returned.headers.location,
      "https://app.example.com/%C3%A9/%E6%97%A5?q=%C3%BC#svc_login=ok&login=octocat",
    );
  });

  test("SIGNIN-021 one address starts ten sign-ins in a browser in a minute", async () => {
    const ask = (address: string) =>
      server.get(`/auth/github/authorize?return_to=${encodeURIComponent(page)}`, { headers: { "x-client": address } });
    const answers = [];
    for (let count = 0; count < 25; count++) answers.push(await ask(`2001:db8::${count + 1}`));

    const refusals = answers.filter(({ status }) => status === 429);
    // The addresses are of one network. At most two minutes pass, with ten starts each.
    assert.ok(refusals.length >= 5 && refusals.length <= 15);
    assert.equal(refused(refusals[0] as Answer), "429 rate_limited");
    assert.equal((await ask("2001:db8:1::1")).status, 302);
  });

  test("SIGNIN-007 a callback of another browser, provider, or of none is an invalid state", async () => {
    const lost = `${base.SVC_PUBLIC_URL}/console#svc_login_error=invalid_state`;
    const one = await authorized("github", octocat);
    const other = await authorized("github", octocat);
    const swapped = await back(one.path, other.cookie);
    const mixed = await back(other.path.replace("github", "google"), other.cookie);
    const first = await back(one.path, one.cookie);
    const repeated = await back(one.path, one.cookie);

    for (const { headers } of [swapped, mixed, repeated, await back("/auth/github/callback?code=1", one.cookie)])
      assert.equal(headers.location, lost);
    assert.match(String(first.headers.location), /svc_login=ok/);
  });

  test("SIGNIN-008 pages of other origins cannot exchange", async () => {
    const { path, cookie } = await authorized("github", octocat);
    const returned = await back(path, cookie);
    const foreign = await exchange("github", cookieOf(returned), { origin: "https://evil.example" });
    const google = await exchange("google", cookieOf(returned));

    assert.deepEqual([foreign.status, foreign.json.error], [403, "origin_not_allowed"]);
    assert.equal(refused(google), "401 invalid_login");
  });

  test("SIGNIN-009 SIGNIN-010 SIGNIN-011 SIGNIN-013 listed Google accounts sign in, others do not", async () => {
    const firm: Account = { sub: "g2", email: "bob@firm.example", hd: "firm.example" };
    const outcomes = [];
    for (const who of [
      { sub: "g1", email: "Ann@example.com" },
      firm,
      { sub: "g3", email: "eve@firm.example" },
      { sub: "g4", email: "ann@example.com", email_verified: false },
      { sub: "g5", email: "eve@example.com", hd: "firm.example" },
    ]) {
      const { path, cookie } = await authorized("google", who);
      const returned = await back(path, cookie);
      outcomes.push(new URL(String(returned.headers.location)).hash);
      if (who !== firm) continue;
      const token = await exchange("google", cookieOf(returned));
      const { access_token, ...rest } = token.json;
      assert.deepEqual(rest, {
        ...{ token_type: "Bearer", expires_in: 3_600, tenant: "firm", scopes: ["chat:write"], github_login: "" },
      });
      assert.equal((await chat(access_token)).status, 200);
      assert.equal(refused(await exchange("google", cookieOf(returned))), "401 invalid_login");
    }

    assert.deepEqual(outcomes, [
      "#svc_login=ok&login=Ann%40example.com",
      "#svc_login=ok&login=bob%40firm.example",
      "#svc_login_error=not_allowed&login=eve%40firm.example",
      "#svc_login_error=not_allowed&login=ann%40example.com",
      "#svc_login_error=not_allowed&login=eve%40example.com",
    ]);
  });

  test("SIGNIN-010 an id token with the nonce of another sign-in is refused", async () => {
    const { path, cookie } = await authorized("google", { sub: "g1", email: "ann@example.com" });
    github.state.replays = true;
    const { location } = (await back(path, cookie)).headers;

    assert.match(String(location), /#svc_login_error=google_unavailable$/);
  });

  test("SIGNIN-010 id tokens of Google are verified as OpenID Connect demands", async () => {
    const now = Math.floor(Date.now() / 1_000);
    const rows: readonly (readonly [string, ForgedToken])[] = [
      ["another audience", { aud: "another-client" }],
      ["a second audience", { aud: ["client-1", "another-client"] }],
      ["another authorized party", { claims: { azp: "another-client" } }],
      ["another issuer", { iss: "https://accounts.evil.example" }],
      ["the issuer of workflows", { iss: `${github.url}/oidc` }],
      ["no signature", { alg: "none" }],
      ["a shared secret in place of the key pair", { alg: "HS256" }],
      ["an unknown key", { other: true }],
      ["an expiry in the past", { claims: { exp: now - 120 } }],
      ["an issue in the future", { claims: { iat: now + 120 } }],
      ["no nonce", { claims: { nonce: undefined } }],
      ["no subject", { claims: { sub: undefined } }],
      ["no address", { claims: { email: undefined } }],
    ];

    for (const [name, forged] of rows) {
      const { path, cookie } = await authorized("google", { sub: "g1", email: "ann@example.com" });
      github.state.forges = forged;
      const returned = await back(path, cookie);
      github.state.forges = null;
      assert.match(String(returned.headers.location), /#svc_login_error=google_unavailable$/, name);
      assert.match(String(returned.headers["set-cookie"]), /^svc_signin=; .*Max-Age=0$/, name);
    }
  });

  test("SIGNIN-007 SIGNIN-008 cookies and states in other forms end no sign-in", async () => {
    const lost = `${base.SVC_PUBLIC_URL}/console#svc_login_error=invalid_state`;
    const { path, cookie } = await authorized("github", octocat);
    const value = cookie.slice("svc_signin=".length);
    const changed = (name: string, to: string) => path.replace(new RegExp(`${name}=[^&]*`), `${name}=${to}`);
    const rows: readonly (readonly [string, string, string])[] = [
      ["no cookie", path, "other=1"],
      ["an empty cookie", path, "svc_signin="],
      ["the cookie twice", path, `${cookie}; ${cookie}`],
      ["a second cookie of the name", path, `${cookie}; svc_signin=x`],
      ["the name of https", path, `__Host-svc_signin=${value}`],
      ["a name of other case", path, `SVC_SIGNIN=${value}`],
      ["quotes", path, `svc_signin="${value}"`],
      ["the cookie cut short", path, cookie.slice(0, -1)],
      ["no state", path.replace(/state=[^&]*/, ""), cookie],
      [
        "the state in other case",
        path.replace(/state=[^&]*/, (pair) => `state=${pair.slice(6).toUpperCase()}`),
        cookie,
      ],
      ["another state", changed("state", "0".repeat(64)), cookie],
      ["the cookie as the state", changed("state", value), cookie],
    ];

    for (const [name, to, shown] of rows) {
      const { headers } = await back(to, shown);
      assert.equal(headers.location, lost, name);
    }
    assert.equal(refused(await exchange("github", cookie)), "401 invalid_login", "the cookie of the start");
    const both = path.includes("error=") ? path : `${path}&error=access_denied`;
    assert.match(String((await back(both, cookie)).headers.location), /#svc_login_error=access_denied$/);
    assert.equal((await back(path, cookie)).headers.location, lost, "the refused sign-in is spent");
    const forged = await authorized("github", octocat);
    const wrongCode = await back(forged.path.replace(/code=[^&]*/, "code=of-another"), forged.cookie);
    assert.match(String(wrongCode.headers.location), /#svc_login_error=/);
    assert.doesNotMatch(String(wrongCode.headers.location), /svc_login=ok/);
  });

  /** The key of the server: its setting, which hosts of a cluster have, or the file that it has made. */
  const signingKey = () =>
    tokenKeyOf(
      createPrivateKey(
        server.environment.SVC_TOKEN_SIGNING_KEY ?? readFileSync(join(server.dataDir, "token-signing.pem")),
      ),
      "the key",
    );

  test("AUTH-035 only the owner of the data directory reads the signing key", {
    skip: onOneHost("hosts of a deployment share the key of the settings"),
  }, () => {
    assert.equal(statSync(join(server.dataDir, "token-signing.pem")).mode & 0o777, 0o600);
  });

  test("AUTH-035 access tokens that svc has not signed like this are refused", async () => {
    const { kid, private: jwk } = signingKey();
    const own = await importJWK({ ...jwk }, "ES256");
    const { privateKey: another } = await generateKeyPair("ES256");
    const now = Math.floor(Date.now() / 1_000);
    const url = String(base.SVC_PUBLIC_URL);
    const good = {
      ...{ tenant: "acme", scopes: ["chat:read"], scheme: "github", github_login: "", sub: "github:1" },
      ...{ iss: url, aud: url, iat: now, exp: now + 60 },
    };
    const sign = (claims: object, header: object = {}, key: Parameters<SignJWT["sign"]>[0] = own) =>
      new SignJWT({ ...good, ...claims }).setProtectedHeader({ alg: "ES256", typ: "at+jwt", kid, ...header }).sign(key);
    const secret = new TextEncoder().encode("0".repeat(32));
    const rows: readonly (readonly [string, string, number])[] = [
      ["nothing", await sign({}), 200],
      ["the type", await sign({}, { typ: "JWT" }), 401],
      ["the key", await sign({}, {}, another), 401],
      ["the algorithm", await sign({}, { alg: "HS256" }, secret), 401],
      ["the kid", await sign({}, { kid: "other" }), 401],
      ["the issuer", await sign({ iss: "https://other.example" }), 401],
      ["the audience", await sign({ aud: "https://other.example" }), 401],
      ["the expiry", await sign({ exp: now - 120 }), 401],
      ["an expiry at all", await sign({ exp: undefined }), 401],
      ["a subject", await sign({ sub: undefined }), 401],
      ["the scheme", await sign({ scheme: "api_key" }), 401],
      ["the tenant", await sign({ tenant: "a:b" }), 401],
      ["the scopes", await sign({ scopes: "chat:read admin" }), 401],
    ];

    for (const [name, token, status] of rows) assert.equal((await chat(token)).status, status, `other in ${name}`);
  });

  test("AUTH-035 a token of another deployment with the same key is refused", async () => {
    const key = signingKey();
    const claims = {
      tenant: "acme",
      sub: "github:1",
      scopes: ["chat:read"],
      scheme: "github",
      github_login: "",
    } as const;
    const tokens = await Promise.all(
      [String(base.SVC_PUBLIC_URL), "https://other.example"].map((publicUrl) =>
        signToken(claims, 60, { tokenSigningKey: [key], publicUrl, allowedTenants: [] }, systemEnv()),
      ),
    );
    const [own, other] = await Promise.all(tokens.map(chat));

    assert.deepEqual([own?.status, other?.status], [200, 401]);
    const off = { githubClientId: "", githubClientSecret: "", githubDevice: true, githubOidcAudience: "" };
    const publicUrl = String(base.SVC_PUBLIC_URL);
    const googleAlone = {
      ...{ ...off, authMode: "api_key", googleClientId: "client", googleClientSecret: "secret" },
      ...{ jwksPublic: null, jwtVerifiers: [], tokenSigningKey: [key], publicUrl, allowedTenants: [] },
    };
    const verifier = new JwtVerifier(googleAlone as never, systemEnv());
    const ofGoogle = await signToken({ ...claims, sub: "google:1", scheme: "google" }, 60, googleAlone, systemEnv());
    assert.equal(await verifier.verify(tokens[0] as string), null, "the provider of the token is off");
    assert.equal((await verifier.verify(ofGoogle))?.sub, "google:1");
  });

  const actions = (id_token: string, more: object = {}) => server.post("/auth/github/actions", { id_token, ...more });
  let runs = 0;
  const workflow = (claims: object = {}) => ({
    ...{ jti: `run-${++runs}`, sub: "repo:acme/app:ref:refs/heads/main", repository_id: "11", ref: "refs/heads/main" },
    ...claims,
  });

  test("SIGNIN-012 SIGNIN-013 a workflow signs in with its id token, once", async () => {
    const token = await github.idToken(workflow());
    const [first, second] = [await actions(token), await actions(token)];

    const { access_token, ...rest } = first.json;
    assert.deepEqual(rest, {
      ...{ token_type: "Bearer", expires_in: 900, tenant: "acme", scopes: ["eval:write"], github_login: "" },
    });
    assert.equal((await chat(access_token)).status, 200);
    assert.equal(refused(second), "401 invalid_id_token", "it is spent");
  });

  test("SIGNIN-025 id tokens with other claims, keys and issuers are refused", async () => {
    const now = Math.floor(Date.now() / 1_000);
    const [head = "", , signature = ""] = (await github.idToken(workflow())).split(".");
    const body = Buffer.from(JSON.stringify(workflow({ aud: audience, exp: now + 300 }))).toString("base64url");
    const none = Buffer.from('{"alg":"none"}').toString("base64url");
    for (const [name, token, expected] of [
      ["another audience", await github.idToken(workflow(), { aud: "other" }), "401 invalid_id_token"],
      ["another issuer", await github.idToken(workflow(), { iss: "https://evil.example" }), "401 invalid_id_token"],
      ["an unknown key", await github.idToken(workflow(), { other: true }), "401 invalid_id_token"],
      ["expired", await github.idToken(workflow({ exp: now - 120 })), "401 invalid_id_token"],
      ["no jti", await github.idToken(workflow({ jti: undefined })), "401 invalid_id_token"],
      ["changed claims", `${head}.${body}.${signature}`, "401 invalid_id_token"],
      ["unsigned", `${none}.${body}.`, "401 invalid_id_token"],
      ["no token", "x", "401 invalid_id_token"],
      ["another repository", await github.idToken(workflow({ repository_id: "99" })), "403 workflow_not_granted"],
      ["another branch", await github.idToken(workflow({ ref: "refs/heads/x" })), "403 workflow_not_granted"],
      [
        "code of a fork",
        await github.idToken(workflow({ event_name: "pull_request_target" })),
        "403 workflow_not_granted",
      ],
    ] as const)
      assert.equal(refused(await actions(token)), expected, name);
    assert.equal(
      refused(await actions(await github.idToken(workflow()), { tenant: "globex" })),
      "403 tenant_not_granted",
    );
  });

  test("SIGNIN-025 id tokens of workflows are verified as OpenID Connect demands", async () => {
    const now = Math.floor(Date.now() / 1_000);
    const google = `${github.url}/google`;
    const { json: own } = await poll(await started(octocat));
    const rows: readonly (readonly [string, string, number])[] = [
      ["a shared secret in place of the key pair", await github.idToken(workflow(), { alg: "HS256" }), 401],
      ["no signature", await github.idToken(workflow(), { alg: "none" }), 401],
      ["a key in its header", await github.idToken(workflow(), { other: true, header: { jwk: { kty: "RSA" } } }), 401],
      [
        "an address of keys in its header",
        await github.idToken(workflow(), { other: true, header: { jku: google } }),
        401,
      ],
      ["an unknown kid", await github.idToken(workflow(), { header: { kid: "three" } }), 401],
      ["no expiry", await github.idToken(workflow({ exp: undefined })), 401],
      ["no time of issue", await github.idToken(workflow({ iat: undefined })), 401],
      ["no subject", await github.idToken(workflow({ sub: undefined })), 401],
      ["a start in the future", await github.idToken(workflow({ nbf: now + 120 })), 401],
      ["an issue in the future", await github.idToken(workflow({ iat: now + 120 })), 401],
      ["an expiry in words", await github.idToken(workflow(), { claims: { exp: "never" } }), 401],
      ["an expiry beyond the leeway", await github.idToken(workflow({ exp: now - 75 })), 401],
      ["an expiry within the leeway", await github.idToken(workflow({ exp: now - 30 })), 200],
      ["an issue within the leeway", await github.idToken(workflow({ iat: now + 30 })), 200],
      ["one audience in a list", await github.idToken(workflow(), { aud: [audience] }), 200],
      ["a second audience", await github.idToken(workflow(), { aud: [audience, "other"] }), 401],
      ["another authorized party", await github.idToken(workflow({ azp: "other" })), 401],
      ["an audience of other case", await github.idToken(workflow(), { aud: audience.toUpperCase() }), 401],
      ["the issuer with a slash", await github.idToken(workflow(), { iss: `${github.url}/oidc/` }), 401],
      ["the issuer of another provider", await github.idToken(workflow(), { iss: google }), 401],
      ["a token of svc", own.access_token, 401],
      ["a repository as a number", await github.idToken(workflow({ repository_id: 11 })), 401],
    ];

    for (const [name, token, status] of rows) assert.equal((await actions(token)).status, status, name);
  });

  test("SIGNIN-026 a workflow with two tenants repeats its token with one of them", async () => {
    const token = await github.idToken(workflow({ repository_id: "12" }));
    const ambiguous = await actions(token);
    const chosen = await actions(token, { tenant: "globex" });

    assert.equal(refused(ambiguous), "409 tenant_ambiguous");
    assert.deepEqual(ambiguous.json.tenants, ["acme", "globex"]);
    assert.deepEqual([chosen.status, chosen.json.tenant], [200, "globex"]);
  });

  test("SIGNIN-012 an organisation admits workflows of its repositories, by its id", async () => {
    const of = (claims: object) =>
      workflow({ repository_id: "77", repository_owner_id: "200", ref: "refs/heads/release", ...claims });
    const admitted = await actions(await github.idToken(of({})));
    const refusals = await Promise.all(
      [{ repository_owner_id: "201" }, { ref: "refs/heads/main" }, { repository_owner_id: undefined }].map(
        async (claims) => actions(await github.idToken(of(claims))),
      ),
    );

    assert.deepEqual([admitted.json.tenant, admitted.json.scopes], ["globex", ["eval:read"]]);
    for (const answer of refusals) assert.equal(refused(answer), "403 workflow_not_granted");
  });

  test("SIGNIN-025 keys of the issuer are read once, and again for a new key", async () => {
    const before = github.state.oidc;
    await actions(await github.idToken(workflow()));
    assert.equal(github.state.oidc, before);
  });

  const readsInEach = onOneHost("each process reads the keys");
  test("SIGNIN-025 requests at once share one read of the keys, and keep a failure", {
    skip: readsInEach,
  }, async () => {
    const fresh = await startServer({ env: { ...base, SVC_PORT: "0" }, atEnd });
    const send = async () => fresh.post("/auth/github/actions", { id_token: await github.idToken(workflow()) });
    const before = github.state.oidc;
    github.state.down = true;
    const failed = await Promise.all([send(), send(), send()]);
    github.state.down = false;
    const soon = await send();
    const afterFailure = github.state.oidc - before;
    await setTimeout(5_100);
    const later = await Promise.all([send(), send(), send(), send()]);

    for (const answer of [...failed, soon]) assert.equal(refused(answer), "502 github_unavailable");
    assert.equal(afterFailure, 1);
    assert.deepEqual(
      later.map(({ status }) => status),
      [200, 200, 200, 200],
    );
    assert.equal(github.state.oidc - before, 2);
  });

  test("SIGNIN-005 a job of a signed-in writer ends when the organisation is removed", async () => {
    const { env: models, mock } = await startMock(atEnd, { models: ["m"], manifests: { agent: {} } });
    const orgs = (scopes: string[], tenant = "acme") => JSON.stringify({ acme: { id: 100, tenant, scopes } });
    mock.answer("m", () => ({ text: "Reported." }));
    const kept = await startServer({
      env: { ...base, ...models, SVC_PORT: "0", SVC_GITHUB_ORGS: orgs(["jobs:write", "jobs:read", "chat:write"]) },
      atEnd,
    });
    const { json: start } = await kept.post("/auth/github/device", undefined);
    Object.assign(github.device(), { person: octocat });
    const { access_token: key } = (await kept.post("/auth/github/token", { device_code: start.device_code })).json;
    const body = { manifest_id: "agent", payload: { prompt: "Report." } };
    const put = await kept.request("PUT", "/jobs/report", { key, body });
    const first = await kept.request("POST", "/jobs/report/run", { key });
    await kept.restart({ SVC_GITHUB_ORGS: orgs(["jobs:write"], "globex") });
    const second = await kept.request("POST", "/jobs/report/run", { key });

    assert.ok(put.status < 300, put.text);
    assert.equal(first.json.status, "ok", first.text);
    assert.deepEqual([second.json.status, second.json.error], ["error", "principal_revoked"]);
  });

  test("SIGNIN-019 SIGNIN-021 invited accounts only, and a bounded number of starts", async () => {
    const invites = await startServer({
      env: {
        ...base,
        ...{ SVC_PORT: "0", SVC_GITHUB_SIGNUP: "invite", SVC_GITHUB_DEVICE_STARTS_PER_HOUR: "2" },
        SVC_GITHUB_INVITES: JSON.stringify({ guest: { id: 4, tenant: "acme", scopes: ["chat:read"] } }),
      },
      atEnd,
    });
    const signIn = async (person: Person) => {
      const { json } = await invites.post("/auth/github/device", undefined);
      Object.assign(github.device(), { person });
      return invites.post("/auth/github/token", { device_code: json.device_code });
    };
    const [invited, other] = [await signIn(guest), await signIn({ ...stranger, login: "guest" })];
    const third = await invites.post("/auth/github/device", undefined);

    assert.deepEqual([invited.status, invited.json.scopes], [200, ["chat:read"]]);
    assert.equal(refused(other), "403 not_invited", "the login alone is not enough");
    assert.equal(refused(third), "429 rate_limited");
    assert.ok(Number(third.headers["retry-after"]) > 0);
    assert.equal((await invites.get("/auth/methods")).json.github_signup, "invite");
  });
});
