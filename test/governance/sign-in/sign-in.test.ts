// Sign-in against a stand-in of GitHub: its log, its repetition after a failed write, and many starts from one network.
import assert from "node:assert/strict";
import { createPrivateKey, generateKeyPairSync } from "node:crypto";
import { test } from "node:test";
import pino from "pino";
import { type Env, systemEnv } from "../../../bus/env.ts";
import { SvcError } from "../../../bus/errors.ts";
import { JwtVerifier } from "../../../governance/auth/jwt.ts";
import { Outgoing } from "../../../governance/egress/outgoing.ts";
import { SecretMask, Secrets } from "../../../governance/secret-mask.ts";
import { readSettings } from "../../../governance/settings/settings.ts";
import { signInMethods, signInRefusals } from "../../../governance/settings/sign-in-methods.ts";
import { SignIn } from "../../../governance/sign-in/sign-in.ts";
import { addressCaller } from "../../../http/middleware/address-caller.ts";
import { signInRoutes } from "../../../http/routes/sign-in.ts";
import { setSignInCookie, signInCookie } from "../../../http/sign-in/cookie.ts";
import { startGithub } from "../../support/github-server.ts";
import { type RefusingStore, refusingStore } from "../../support/refusing-store.ts";
import { testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const atEnd = cleanup();
const octocat = { id: 1, login: "octocat", orgs: { acme: 100 } };

interface World {
  readonly github: Awaited<ReturnType<typeof startGithub>>;
  readonly store: RefusingStore;
  readonly signIn: SignIn;
  readonly lines: string[];
  /** The same deployment with other settings. */
  readonly restarted: (more: Readonly<Record<string, string>>) => { signIn: SignIn; verifier: JwtVerifier };
}

const newPem = (): string =>
  generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey.export({ type: "pkcs8", format: "pem" }).toString();

async function world(env: Env = systemEnv(), more: Readonly<Record<string, string>> = {}): Promise<World> {
  const github = await startGithub(atEnd);
  const { store: plain } = await testStore("sqlite", atEnd);
  const store = refusingStore(plain);
  const environment = {
    ...github.settings,
    SVC_AUTH_MODE: "api_key",
    SVC_PUBLIC_URL: "https://svc.example.com",
    SVC_TOKEN_SIGNING_KEY: newPem(),
    SVC_GITHUB_ORGS: JSON.stringify({ acme: { id: 100, tenant: "acme", scopes: ["chat:write"] } }),
    SVC_GITHUB_ACTIONS_GRANTS: JSON.stringify([{ repository_id: 11, tenant: "acme", scopes: ["eval:write"] }]),
    ...more,
  };
  const lines: string[] = [];
  const log = pino({}, { write: (line: string) => void lines.push(line) });
  const mask = new SecretMask([]);
  const restarted = (changed: Readonly<Record<string, string>>) => {
    const { settings } = readSettings({ ...environment, ...changed });
    const outgoing = new Outgoing({ settings, secrets: new Secrets(settings, mask), env });
    const signIn = new SignIn({ settings, store, env, mask, log, outgoing, connections: { async keep() {} } });
    return { signIn, verifier: new JwtVerifier(settings, env) };
  };
  github.state.who = octocat;
  return { github, store, lines, restarted, signIn: restarted({}).signIn };
}

/** Sends a browser to GitHub and back. Returns what `endRedirect` needs. */
async function throughGithub({ signIn }: Pick<World, "signIn">) {
  const start = await signIn.startRedirect("github", "https://svc.example.com/console", null, "192.0.2.1");
  const away = await fetch(start.location, { redirect: "manual" });
  const { searchParams } = new URL(String(away.headers.get("location")));
  return {
    sent: { code: String(searchParams.get("code")), state: String(searchParams.get("state")) },
    cookie: start.cookie,
  };
}

const refusalOf = (signedIn: Promise<unknown>): Promise<string> =>
  signedIn.then(
    () => "none",
    (error) => SvcError.from(error).code,
  );

test("an internal error of a sign-in in a browser is logged with its cause", async () => {
  const system = systemEnv();
  let isBroken = false;
  const made = await world({
    ...system,
    id(): string {
      if (isBroken) throw new Error("no random bytes");
      return system.id();
    },
  });
  const { sent, cookie } = await throughGithub(made);

  isBroken = true;
  const { location } = await made.signIn.endRedirect("github", sent, cookie);

  assert.match(location, /#svc_login_error=internal_error/);
  assert.equal(made.lines.length, 1);
  const line = JSON.parse(made.lines[0] as string);
  assert.deepEqual([line.msg, line.provider, line.err.message], ["sign-in failed", "github", "no random bytes"]);
});

test("SIGNIN-026 an id token and an exchange are spent with the token that they gave, not before", async () => {
  const made = await world();
  const { github, signIn, store } = made;
  const idToken = await github.idToken({ jti: "run-1", sub: "repo:acme/app", repository_id: "11" });
  const { sent, cookie } = await throughGithub(made);
  const exchanged = (await signIn.endRedirect("github", sent, cookie)).cookie ?? "";

  for (const signsIn of [
    () => signIn.workflow(idToken, null, "192.0.2.1"),
    () => signIn.exchange("github", exchanged, "192.0.2.1"),
  ]) {
    store.refused = "sign_in_grant_touch";
    const failed = await refusalOf(signsIn());
    store.refused = null;
    const atOnce = await Promise.all([signsIn(), signsIn()].map(refusalOf));
    const later = await refusalOf(signsIn());

    assert.equal(failed, "storage_unavailable");
    assert.equal(atOnce.filter((code) => code === "none").length, 1, String(atOnce));
    assert.match(later, /^invalid_(id_token|login)$/);
  }
});

test("SIGNIN-007 SIGNIN-008 SIGNIN-016 a sign-in ends after its time, at each of its steps", async () => {
  let passedMs = 0;
  const system = systemEnv();
  const made = await world({ ...system, now: () => system.now() + passedMs });
  const { github, signIn } = made;
  github.state.interval = 0;
  const after = async (ms: number, work: () => Promise<string>): Promise<string> => {
    passedMs += ms;
    const told = await work();
    passedMs -= ms;
    return told;
  };
  const callback = async (ms: number) => {
    const { sent, cookie } = await throughGithub(made);
    return after(ms, async () => new URL((await signIn.endRedirect("github", sent, cookie)).location).hash);
  };
  const exchange = async (ms: number) => {
    const { sent, cookie } = await throughGithub(made);
    const { cookie: next } = await signIn.endRedirect("github", sent, cookie);
    return after(ms, () => refusalOf(signIn.exchange("github", next ?? "", "192.0.2.1")));
  };
  const device = async (ms: number) => {
    const { device_code } = await signIn.startDevice("192.0.2.1");
    github.device().person = octocat;
    return after(ms, () => refusalOf(signIn.pollDevice(device_code, null, "192.0.2.1")));
  };

  assert.deepEqual(
    [await callback(595_000), await callback(601_000)],
    ["#svc_login=ok&login=octocat", "#svc_login_error=invalid_state"],
  );
  assert.deepEqual([await exchange(55_000), await exchange(61_000)], ["none", "invalid_login"]);
  assert.deepEqual([await device(895_000), await device(901_000)], ["none", "invalid_device_code"]);
});

test("AUTH-035 the first signing key signs, and all of them verify and end sign-ins", async () => {
  const [old, next] = [newPem(), newPem()];
  const made = await world(systemEnv(), { SVC_TOKEN_SIGNING_KEY: old });
  const both = made.restarted({ SVC_TOKEN_SIGNING_KEY: JSON.stringify([next, old]) });
  const replaced = made.restarted({ SVC_TOKEN_SIGNING_KEY: next });
  const tokenOf = async ({ signIn }: Pick<World, "signIn">, from: Pick<World, "signIn"> = { signIn }) => {
    const { sent, cookie } = await throughGithub(from);
    const { cookie: exchanged } = await signIn.endRedirect("github", sent, cookie);
    return exchanged === null ? null : (await signIn.exchange("github", exchanged, "192.0.2.1")).access_token;
  };

  const begunBefore = (await tokenOf(both, made)) ?? "";
  const lost = await tokenOf(replaced, made);
  const ofOld = (await tokenOf(made)) ?? "";
  const holders = [made.restarted({}).verifier, both.verifier, replaced.verifier];
  const verified = (token: string) =>
    Promise.all(holders.map(async (verifier) => (await verifier.verify(token))?.sub ?? null));

  assert.deepEqual(await verified(ofOld), ["github:1", "github:1", null]);
  assert.deepEqual(await verified(begunBefore), [null, "github:1", "github:1"]);
  assert.equal(lost, null, "the row of the sign-in cannot be read with another key");
});

test("AUTH-035 only lists of private keys of the curve P-256 are signing keys", () => {
  const pem = newPem();
  const jwk = createPrivateKey(pem).export({ format: "jwk" });
  const { d: _secret, ...publicJwk } = jwk;
  const other = generateKeyPairSync("ec", { namedCurve: "P-384" }).privateKey.export({ format: "jwk" });
  const rsa = generateKeyPairSync("rsa", { modulusLength: 2_048 }).privateKey;
  const refused = [
    ...["[]", '{"keys": []}', "7", "a secret", JSON.stringify([pem, pem]), JSON.stringify([pem, jwk])],
    ...[publicJwk, other, rsa.export({ format: "jwk" }), [pem, 7], [pem, publicJwk]].map((each) =>
      JSON.stringify(each),
    ),
    rsa.export({ type: "pkcs8", format: "pem" }).toString(),
  ];

  for (const text of refused) {
    const { issues } = readSettings({ SVC_TOKEN_SIGNING_KEY: text });
    assert.deepEqual(
      issues.map(({ name }) => name),
      ["SVC_TOKEN_SIGNING_KEY"],
      text.slice(0, 60),
    );
    assert.ok(!JSON.stringify(issues).includes(String(jwk.d)), "a refusal names no key");
  }
  for (const text of [pem, JSON.stringify(jwk), JSON.stringify([jwk]), JSON.stringify({ keys: [jwk] })])
    assert.deepEqual(readSettings({ SVC_TOKEN_SIGNING_KEY: text }).issues, [], text.slice(0, 60));
});

test("SIGNIN-021 10,000 device starts from one IPv6 network are ten, and other clients start", async () => {
  const { github, signIn } = await world(systemEnv(), { SVC_GITHUB_DEVICE_STARTS_PER_HOUR: "10" });
  const start = (address: string) => refusalOf(signIn.startDevice(addressCaller(address, "127.0.0.1")));
  const codes = new Map<string, number>();

  for (let at = 0; at < 10_000; at += 500) {
    const addresses = Array.from({ length: 500 }, (_, n) => `2001:db8:1:2:${(at + n).toString(16)}::${n.toString(16)}`);
    for (const code of await Promise.all(addresses.map(start))) codes.set(code, (codes.get(code) ?? 0) + 1);
  }
  const others = await Promise.all(["2001:db8:1:3::1", "192.0.2.7", "::ffff:192.0.2.8"].map(start));

  assert.deepEqual(Object.fromEntries(codes), { none: 10, rate_limited: 9_990 });
  assert.deepEqual(others, ["none", "none", "none"]);
  assert.ok(github.device() !== undefined);
});

test("SIGNIN-021 all clients together start a bounded number of devices in an hour", async () => {
  const { signIn } = await world(systemEnv(), { SVC_GITHUB_DEVICE_STARTS_PER_HOUR_TOTAL: "3" });
  const codes = [];
  for (let at = 1; at <= 4; at++) codes.push(await refusalOf(signIn.startDevice(`192.0.2.${at}`)));

  assert.deepEqual(codes, ["none", "none", "none", "rate_limited"]);
});

test("SIGNIN-003 each way to sign in is on with its own settings, and none without authentication", () => {
  const [device, github] = [
    { SVC_GITHUB_CLIENT_ID: "c" },
    { SVC_GITHUB_CLIENT_ID: "c", SVC_GITHUB_CLIENT_SECRET: "s" },
  ];
  const google = { SVC_GOOGLE_CLIENT_ID: "c", SVC_GOOGLE_CLIENT_SECRET: "s" };
  const all = { ...github, ...google, SVC_GITHUB_OIDC_AUDIENCE: "a" };
  const rows: readonly (readonly [environment: Readonly<Record<string, string>>, on: readonly boolean[]])[] = [
    [{}, [false, false, false, false]],
    [device, [true, false, false, false]],
    [github, [true, true, false, false]],
    [{ ...github, SVC_GITHUB_DEVICE: "false" }, [false, true, false, false]],
    [{ SVC_GITHUB_CLIENT_SECRET: "s" }, [false, false, false, false]],
    [google, [false, false, true, false]],
    [{ SVC_GOOGLE_CLIENT_ID: "c" }, [false, false, false, false]],
    [{ SVC_GITHUB_OIDC_AUDIENCE: "a" }, [false, false, false, true]],
    [all, [true, true, true, true]],
    [{ ...all, SVC_AUTH_MODE: "none" }, [false, false, false, false]],
  ];

  for (const [environment, on] of rows) {
    const { settings } = readSettings({ SVC_AUTH_MODE: "api_key", ...environment });
    assert.deepEqual(Object.values(signInMethods(settings)), on, JSON.stringify(environment));
    const access = signInRoutes(settings).map(({ path, access: of }) => [path, of] as const);
    const isPublic = (part: string) => access.filter(([path]) => path.includes(part)).map(([, of]) => of === "public");
    const parts = ["/github/device", "/github/authorize", "/google/", "/github/actions"];
    assert.deepEqual(
      parts.map((part) => isPublic(part).includes(true)),
      on,
    );
    for (const part of parts) assert.equal(new Set(isPublic(part)).size, 1, part);
    assert.equal(/SVC_PUBLIC_URL/.test(signInRefusals(settings).join()), on.includes(true), "it needs SVC_PUBLIC_URL");
  }
});

test("SIGNIN-008 the cookie of a sign-in has the form that its scheme allows", () => {
  const [https, loopback] = [{ publicUrl: "https://svc.example.com" }, { publicUrl: "http://127.0.0.1:8080" }];
  const read = (cookie: string | undefined, settings: { publicUrl: string }) =>
    signInCookie({ headers: { ...(cookie && { cookie }) } } as never, settings);

  assert.equal(
    setSignInCookie("x", 600_000, https),
    "__Host-svc_signin=x; Path=/; HttpOnly; SameSite=Lax; Secure; Max-Age=600",
  );
  assert.equal(
    setSignInCookie(null, 0, https),
    "__Host-svc_signin=; Path=/; HttpOnly; SameSite=Lax; Secure; Max-Age=0",
  );
  assert.equal(setSignInCookie("x", 60_000, loopback), "svc_signin=x; Path=/; HttpOnly; SameSite=Lax; Max-Age=60");
  assert.equal(read("a=1; __Host-svc_signin=x; b=2", https), "x");
  for (const cookie of ["svc_signin=x", "__Host-svc_signin=x; __Host-svc_signin=y", "a__Host-svc_signin=x", undefined])
    assert.equal(read(cookie, https), "", cookie);
  assert.equal(read("__Host-svc_signin=x; svc_signin=y", loopback), "y");
});
