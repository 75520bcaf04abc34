import assert from "node:assert/strict";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { after, before, beforeEach, describe, type TestContext, test } from "node:test";
import { doctorCommand } from "../../../host/cli/doctor.ts";
import { gcsSettings, s3Settings } from "../../support/buckets.ts";
import { startGcsServer } from "../../support/gcs-server.ts";
import { startS3Server } from "../../support/s3-server.ts";
import { cleanup } from "../../support/temp.ts";
import { run, runJson, someRegistries, temporaryDirectory } from "./support.ts";

const doctor = doctorCommand(async () => someRegistries(), []);
const rightKey = "the-right-key-0001";
const wrongKey = "the-wrong-key-0001";

/**
 * A server of both protocols. It accepts one key, answers a status that the path names, and never answers below
 * /silent.
 */
const asked: { method: string; url: string; headers: IncomingMessage["headers"] }[] = [];
const server = createServer((request, response) => {
  const { method = "", url = "", headers } = request;
  asked.push({ method, url, headers });
  if (url.startsWith("/silent")) return;
  const stated = /^\/status\/(\d+)/.exec(url)?.[1];
  const key = headers["x-api-key"] ?? headers.authorization?.replace("Bearer ", "") ?? headers["x-own"];
  const status = stated ? Number(stated) : key === rightKey ? 200 : 401;
  // Some servers repeat the refused key in their answer, and some answers never end.
  response.writeHead(status, { "content-type": "application/json", location: "/v1/elsewhere" });
  response.write(`{"error": "no such key: ${key}"`);
  if (!url.startsWith("/endless")) response.end("}");
});
let origin = "";

before(async () => {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
after(() => {
  server.closeAllConnections();
  server.close();
});
beforeEach(() => {
  asked.length = 0;
});

interface Check {
  name: string;
  status: string;
  detail: string;
}

async function providers(context: TestContext, environment: Record<string, string>) {
  const all = { SVC_DATA_DIR: join(temporaryDirectory(context), "data"), ...environment };
  const { code, answer } = await runJson(doctor, ["--online"], all);
  const checks = (answer.checks as Check[]).filter(({ name }) => name.startsWith("provider"));
  return {
    code,
    checks,
    text: JSON.stringify(checks),
    of: (name: string) => checks.find((each) => each.name === `provider ${name}`),
  };
}

const own = (map: Record<string, object>) => ({ SVC_MODEL_PROVIDERS: JSON.stringify(map) });

describe("svc doctor --online", () => {
  test("accepts keys of built-in providers at own addresses, and of own providers", async (context) => {
    const { code, of, text } = await providers(context, {
      SVC_MODEL_PROVIDER_OPTIONS: JSON.stringify({ openai: { base_url: `${origin}/v1`, api_key: "secret:OPENAI" } }),
      SVC_SECRET_OPENAI: rightKey,
      ...own({
        mine: { base_url: `${origin}/mine`, api_key: rightKey },
        claude: { base_url: `${origin}/claude`, api_key: rightKey, kind: "anthropic" },
        headed: { base_url: `${origin}/endless`, headers: { "x-own": rightKey } },
      }),
    });

    assert.equal(code, 0);
    for (const name of ["openai", "mine", "claude", "headed"]) assert.equal(of(name)?.status, "ok", name);
    assert.deepEqual(asked.map(({ method, url }) => `${method} ${url}`).sort(), [
      "GET /claude/models",
      "GET /endless/models",
      "GET /mine/models",
      "GET /v1/models",
    ]);
    const claude = asked.find(({ url }) => url === "/claude/models")?.headers;
    assert.equal(claude?.["anthropic-version"], "2023-06-01");
    assert.equal(claude?.authorization, undefined);
    assert.doesNotMatch(text, /the-right-key/);
  });

  test("names the setting of a refused key, and never the key", async (context) => {
    const environment = {
      OPENAI_API_KEY: wrongKey,
      ANTHROPIC_API_KEY: wrongKey,
      SVC_MODEL_PROVIDER_OPTIONS: JSON.stringify({
        openai: { base_url: `${origin}/v1` },
        anthropic: { base_url: `${origin}/a/v1` },
        groq: { base_url: `${origin}/g`, api_key: "short" },
        xai: { base_url: `${origin}/x`, api_key: "secret:NOWHERE" },
        google: { base_url: `${origin}/status/400`, api_key: wrongKey },
      }),
      ...own({
        mine: { base_url: `${origin}/status/403`, api_key: "tiny" },
        bare: { base_url: `${origin}/bare` },
      }),
    };

    const { code, of, text } = await providers(context, environment);
    const printed = await run(doctor, ["--online"], {
      SVC_DATA_DIR: join(temporaryDirectory(context), "data"),
      ...environment,
    });

    assert.equal(code, 1);
    for (const [name, words] of [
      ["openai", "/v1/models answers 401: it does not take the key; see OPENAI_API_KEY"],
      ["anthropic", "see ANTHROPIC_API_KEY"],
      ["groq", "see api_key of groq in SVC_MODEL_PROVIDER_OPTIONS"],
      ["xai", "NOWHERE"],
      ["google", "answers 400"],
      ["mine", "answers 403: it does not take the key; see api_key of mine in SVC_MODEL_PROVIDERS"],
      ["bare", "it asks for a key"],
    ] as const) {
      assert.equal(of(name)?.status, "error", name);
      assert.ok(of(name)?.detail.includes(words), `${name}: ${of(name)?.detail}`);
    }
    assert.doesNotMatch(text + printed.stdout, /the-wrong-key|"short"|tiny/);
  });

  test("prints the address and the cause of an unreachable provider within seconds", async (context) => {
    const { code, of } = await providers(
      context,
      own({
        closed: { base_url: "http://127.0.0.1:1/v1", api_key: rightKey },
        unnamed: { base_url: "http://no-such-host.invalid/v1" },
        silent: { base_url: `${origin}/silent` },
      }),
    );

    assert.equal(code, 1);
    for (const name of ["closed", "unnamed", "silent"]) assert.equal(of(name)?.status, "error", name);
    assert.match(of("closed")?.detail ?? "", /^http:\/\/127\.0\.0\.1:1\/v1\/models does not answer: .*ECONNREFUSED/);
    assert.match(of("unnamed")?.detail ?? "", /no-such-host\.invalid\/v1\/models does not answer: .*no-such-host/);
    assert.match(of("silent")?.detail ?? "", /\/silent\/models does not answer within 5 seconds/);
  });

  test("reports any other answer as inconclusive, and follows no redirect", async (context) => {
    const statuses = [302, 404, 405, 429, 500];

    const { code, checks } = await providers(
      context,
      own(
        Object.fromEntries(
          statuses.map((status) => [`s${status}`, { base_url: `${origin}/status/${status}`, api_key: rightKey }]),
        ),
      ),
    );

    assert.equal(code, 0);
    assert.deepEqual(
      checks.map(({ status, detail }) => [status, Number(/answers (\d+)/.exec(detail)?.[1])]),
      statuses.map((status) => ["warning", status]),
    );
    assert.equal(asked.length, statuses.length);
  });

  test("asks the gateway with each key and once without, and only on request", async (context) => {
    const gateway = { SVC_LITELLM_BASE_URL: `${origin}/gateway` };

    const bare = await providers(context, gateway);
    const keyed = await providers(context, { ...gateway, GROQ_API_KEY: rightKey, ANTHROPIC_API_KEY: wrongKey });
    const calls = asked.length;
    await runJson(doctor, [], { SVC_DATA_DIR: join(temporaryDirectory(context), "data"), ...gateway });

    assert.deepEqual(
      bare.checks.map(({ name, status }) => [name, status]),
      [["provider gateway", "error"]],
    );
    assert.deepEqual([keyed.of("groq")?.status, keyed.of("anthropic")?.status], ["ok", "error"]);
    assert.equal(keyed.checks.length, 2);
    assert.deepEqual([calls, asked.length], [3, 3]);
  });

  test("reports if there is nothing to try, and providers without a free call", async (context) => {
    const none = await providers(context, {});
    const decider = await providers(context, { TYPESAFE_API_KEY: rightKey });

    assert.match(none.text, /no provider has a key or an address/);
    assert.match(decider.of("typesafe")?.detail ?? "", /not tested/);
    assert.equal(asked.length, 0);
  });
});

describe("svc doctor --online with a bucket", () => {
  const tried = async (context: TestContext, environment: Record<string, string | undefined>) => {
    const all = { SVC_DATA_DIR: join(temporaryDirectory(context), "data"), ...environment };
    const { code, answer } = await runJson(doctor, ["--online"], all);
    const checks = (answer.checks as Check[]).filter(({ name }) => /^bucket|^object_store/.test(name));
    return { code, checks, text: JSON.stringify(answer) };
  };

  test("writes and reads an object", async (context) => {
    const s3 = await startS3Server(cleanup(context));
    const { code, checks } = await tried(context, s3Settings(s3.url));
    const gcs = await startGcsServer(cleanup(context));
    const google = await tried(context, gcsSettings(gcs));

    assert.deepEqual([code, google.code], [0, 0]);
    assert.deepEqual(checks, [
      { name: "object_store", status: "ok", detail: `the bucket svc-objects at ${s3.url}; --online tries it` },
      { name: "bucket svc-objects", status: "ok", detail: "an object was written and read" },
    ]);
    assert.equal(google.checks.at(-1)?.status, "ok");
  });

  test("names what a bucket answers to wrong keys, without them", async (context) => {
    const s3 = await startS3Server(cleanup(context));
    const wrong = { ...s3Settings(s3.url), SVC_S3_SECRET_KEY: "the-wrong-key-of-a-bucket" };

    const { code, checks, text } = await tried(context, wrong);

    assert.equal(code, 1);
    assert.deepEqual(checks.at(-1), {
      name: "bucket svc-objects",
      status: "error",
      detail: "the object store refused to write: 403 SignatureDoesNotMatch",
    });
    assert.doesNotMatch(text, /the-wrong-key|AKIA/);
  });
});
