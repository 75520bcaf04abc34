// svc connections: the destinations that settings and manifests of the operator name.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { settingsSections } from "../../../governance/settings/settings.ts";
import { connectionsCommand } from "../../../host/cli/connections.ts";
import { run, runJson, temporaryDirectory } from "./support.ts";

test("svc connections lists the destinations of settings and manifests, without secrets", async (t) => {
  const directory = temporaryDirectory(t);
  const spec = {
    http_tools: [{ name: "fetch" }, { name: "api", path_prefix: "https://api.example/v1/" }],
    mcp_servers: [{ name: "books", url: "https://books.example/mcp", transport: "http" }],
    peers: [{ name: "other", url: "http://other.example:9000" }],
    network: { allow_hosts: ["api.example", "books.example", "other.example"] },
  };
  writeFileSync(join(directory, "reach.json"), JSON.stringify({ metadata: { name: "reach" }, spec }));
  const surf = { browser_tools: [{ name: "read", binding: "main" }] };
  writeFileSync(join(directory, "surf.json"), JSON.stringify({ metadata: { name: "surf" }, spec: surf }));
  writeFileSync(join(directory, "broken.json"), "{");
  const environment = {
    SVC_MANIFEST_DIR: directory,
    SVC_DATABASE_URL: "postgres://svc:secret-password-1@db.example/svc",
    SVC_REDIS_URL: "redis://:secret-password-2@redis.example:6380",
    OPENAI_API_KEY: "secret-openai-key-123456",
    SVC_MODEL_ROUTES: JSON.stringify({ small: { provider: "openai", model: "small", kind: "embedding" } }),
    SVC_EGRESS_PROXY: "http://user:secret-password-3@proxy.example:3128",
    SVC_EGRESS_PRIVATE: JSON.stringify([{ cidr: "10.1.0.0/16", port: 8080, tenants: ["acme"] }]),
    SVC_BROWSERS: JSON.stringify({ main: { url: "wss://browser.example/?token=secret-token-1", tenants: ["acme"] } }),
    SVC_WEBHOOK_ENDPOINTS: JSON.stringify({
      done: { url: "https://hook.example/x", secret: "whsec-of-done-1", tenants: "*" },
    }),
  };

  const { code, answer } = await runJson(connectionsCommand, [], environment);
  const { stdout } = await run(connectionsCommand, [], environment);

  const lines = (answer.connections as { to: string; why: string; from: string }[]).map(
    ({ to, why, from }) => `${to} | ${why} | ${from}`,
  );
  assert.equal(code, 0);
  for (const line of [
    "db.example:5432 | the database | SVC_DATABASE_URL",
    "redis.example:6380 | tool queues | SVC_REDIS_URL",
    "api.openai.com:443 | models of openai | OPENAI_API_KEY",
    "api.openai.com:443 | texts of documents and memories, for small | SVC_MODEL_ROUTES",
    "hook.example:443 | webhooks to done | SVC_WEBHOOK_ENDPOINTS",
    "proxy.example:3128 | the proxy of all public destinations | SVC_EGRESS_PROXY",
    "10.1.0.0/16:8080 | tools of agents of acme | SVC_EGRESS_PRIVATE",
    "api.example, books.example, other.example | the tool fetch | reach: spec.http_tools",
    "api.example:443 | the tool api | reach: spec.http_tools",
    "books.example:443 | the MCP server books | reach: spec.mcp_servers",
    "other.example:9000 | the agent other | reach: spec.peers",
    "browser.example:443 | the browser main of acme | SVC_BROWSERS",
    "any public host | pages of the tool read, through svc's proxy for browsers | surf: spec.browser_tools",
  ])
    assert.ok(lines.includes(line), `${line} in ${lines.join("\n")}`);
  assert.doesNotMatch(stdout + JSON.stringify(answer), /secret-/);
});

test("svc connections lists the bucket of the objects, and where its credentials come from", async () => {
  const key = { type: "service_account", client_email: "a@b", private_key: "-----BEGIN PRIVATE KEY-----" };
  const role = JSON.stringify([{ host: "169.254.169.254", port: 80, tenants: [] }]);
  const s3 = { SVC_OBJECT_STORE: "s3", SVC_S3_BUCKET: "objects", SVC_S3_REGION: "eu-west-1" };
  const gcs = { SVC_OBJECT_STORE: "gcs", SVC_GCS_BUCKET: "objects" };
  const cases: [environment: Record<string, string>, lines: string[]][] = [
    [
      { ...s3, SVC_EGRESS_PRIVATE: role },
      [
        "objects.s3.eu-west-1.amazonaws.com:443 | the object store, in the bucket objects | SVC_S3_REGION",
        "169.254.169.254:80 | credentials of the instance's role | SVC_EGRESS_PRIVATE",
      ],
    ],
    [
      { ...s3, SVC_S3_ENDPOINT: "http://minio:9000", SVC_S3_ACCESS_KEY: "a", SVC_S3_SECRET_KEY: "b" },
      ["minio:9000 | the object store, in the bucket objects | SVC_S3_ENDPOINT"],
    ],
    [
      { ...gcs, SVC_GCS_CREDENTIALS: JSON.stringify(key) },
      [
        "storage.googleapis.com:443 | the object store, in the bucket objects | SVC_GCS_ENDPOINT",
        "oauth2.googleapis.com:443 | tokens for the bucket | SVC_GCS_CREDENTIALS",
      ],
    ],
    [
      { ...gcs, SVC_GCS_CREDENTIALS: "secret:KEY" },
      ["token_uri of the key | tokens for the bucket | SVC_GCS_CREDENTIALS"],
    ],
  ];

  for (const [environment, lines] of cases) {
    const { answer } = await runJson(connectionsCommand, [], environment);
    const found = (answer.connections as { to: string; why: string; from: string }[]).map(
      ({ to, why, from }) => `${to} | ${why} | ${from}`,
    );
    for (const line of lines) assert.ok(found.includes(line), `${line} in ${found.join("\n")}`);
  }
});

/** Settings that turn on what the URLs are for. */
const enabling: Readonly<Record<string, string>> = {
  SVC_SEARCH_BACKEND: "searxng",
  SVC_GITHUB_CLIENT_ID: "client",
  SVC_GITHUB_OIDC_AUDIENCE: "svc",
  SVC_GOOGLE_CLIENT_ID: "client",
};

for (const store of ["s3", "gcs"] as const)
  test(`svc connections lists the host of every setting that is a URL, with the store ${store}`, async () => {
    const bucket = { SVC_OBJECT_STORE: store, SVC_S3_BUCKET: "b", SVC_S3_REGION: "r", SVC_GCS_BUCKET: "b" };
    const urls = settingsSections
      .flatMap(({ settings }) => Object.values(settings) as readonly { name: string; kind: string }[])
      .filter(({ kind }) => kind === "url")
      .map(({ name }) => name)
      .filter((name) => !name.startsWith(store === "s3" ? "SVC_GCS" : "SVC_S3"));
    const hosts = urls.map((name) => `${name.toLowerCase().replaceAll("_", "-")}.example`);
    const environment = Object.fromEntries(urls.map((name, at) => [name, `https://${hosts[at]}`]));

    const { answer } = await runJson(connectionsCommand, [], { ...enabling, ...bucket, ...environment });

    const found = (answer.connections as { to: string }[]).map(({ to }) => to);
    assert.deepEqual(
      hosts.filter((host) => !found.includes(`${host}:443`)),
      [],
    );
    assert.ok(hosts.length > 5);
  });
