// A failed sign-in in a browser is answered with a redirect. The log tells the operator the cause of an internal error.
import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { test } from "node:test";
import pino from "pino";
import { systemEnv } from "../../bus/env.ts";
import { Outgoing } from "../../governance/egress/outgoing.ts";
import { SecretMask, Secrets } from "../../governance/secret-mask.ts";
import { readSettings } from "../../governance/settings/settings.ts";
import { SignIn } from "../../governance/sign-in/sign-in.ts";
import { startGithub } from "../support/github-server.ts";
import { testStore } from "../support/stores.ts";
import { cleanup } from "../support/temp.ts";

const atEnd = cleanup();

test("an internal error of a sign-in in a browser is logged with its cause", async () => {
  const github = await startGithub(atEnd);
  const { store } = await testStore("sqlite", atEnd);
  const system = systemEnv();
  let isBroken = false;
  const env = {
    ...system,
    id(): string {
      if (isBroken) throw new Error("no random bytes");
      return system.id();
    },
  };
  const pem = generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey.export({ type: "pkcs8", format: "pem" });
  const { settings } = readSettings({
    ...github.settings,
    SVC_PUBLIC_URL: "https://svc.example.com",
    SVC_TOKEN_SIGNING_KEY: String(pem),
    SVC_GITHUB_ORGS: JSON.stringify({ acme: { id: 100, tenant: "acme", scopes: ["chat:write"] } }),
  });
  const lines: string[] = [];
  const log = pino({}, { write: (line: string) => void lines.push(line) });
  const mask = new SecretMask([]);
  const outgoing = new Outgoing({ settings, secrets: new Secrets(settings, mask), env });
  const signIn = new SignIn({ settings, store, env, mask, log, outgoing, connections: { async keep() {} } });
  github.state.who = { id: 1, login: "octocat", orgs: { acme: 100 } };

  const start = await signIn.startRedirect("github", "https://svc.example.com/console", null, "192.0.2.1");
  const away = await fetch(start.location, { redirect: "manual" });
  const { searchParams } = new URL(String(away.headers.get("location")));
  isBroken = true;
  const sent = { code: String(searchParams.get("code")), state: String(searchParams.get("state")) };
  const { location } = await signIn.endRedirect("github", sent, start.cookie);

  assert.match(location, /#svc_login_error=internal_error/);
  assert.equal(lines.length, 1);
  const line = JSON.parse(lines[0] as string);
  assert.deepEqual([line.msg, line.provider, line.err.message], ["sign-in failed", "github", "no random bytes"]);
});
