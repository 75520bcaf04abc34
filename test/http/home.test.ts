// The root path: a page for browsers, JSON for other clients, and no more than public data for either.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { before, describe, test } from "node:test";
import { promisify } from "node:util";
import { escapeHtml } from "../../http/pages/html.ts";
import packageFile from "../../package.json" with { type: "json" };
import { apiKeys, manifestEnv, startServer, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";
import { assertCommonHeaders } from "./support.ts";

const { env, keys } = apiKeys({ all: { tenant_id: "planted-tenant", scopes: ["*"] } });
const asBrowser = { headers: { accept: "text/html,application/xhtml+xml,*/*;q=0.8" } };

describe("GET /", () => {
  const atEnd = cleanup();
  let open: TestServer;
  let guarded: TestServer;
  before(async () => {
    const planted = manifestEnv(atEnd, { "planted-manifest": {} });
    open = await startServer({ atEnd, env: { SVC_CONSOLE: "false" } });
    guarded = await startServer({
      atEnd,
      env: {
        ...env,
        ...planted,
        SVC_CONSOLE: "false",
        SVC_DEFAULT_MANIFEST: "planted-manifest",
        SVC_TRUSTED_CLIENT_IP_HEADER: "X-Real-Ip",
      },
    });
  });

  test("answers a browser with a page: a description, working links and a curl command", async () => {
    const page = await open.get("/", asBrowser);

    assert.deepEqual([page.status, page.headers["content-type"]], [200, "text/html; charset=utf-8"]);
    assert.match(page.text, /<h1>svc runs here<\/h1>/);
    assert.match(String(page.headers["content-security-policy"]), /^default-src 'none';/);
    assert.doesNotMatch(page.text, /<script|<style|\bon\w+=/);
    assert.equal(page.headers.vary, "Accept");
    const links = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path ?? "");
    assert.ok(links.includes("/docs") && links.includes("/openapi.json"));
    for (const path of links) assert.equal((await open.get(path)).status, 200, path);
  });

  test("answers any other client with the same content as JSON", async () => {
    for (const accept of [undefined, "*/*", "application/json"]) {
      const answer = await open.get("/", accept === undefined ? {} : { headers: { accept } });

      assert.deepEqual([answer.status, answer.json.service, answer.json.docs], [200, "svc", "/docs"]);
      assert.equal(answer.headers.vary, "Accept");
      assertCommonHeaders(answer);
    }
  });

  test("shows a curl command that works in a shell", async () => {
    const { first_request } = (await open.get("/")).json;
    const { text } = await open.get("/", asBrowser);

    const { stdout } = await promisify(execFile)("/bin/sh", ["-c", first_request]);

    assert.match(stdout, /"event":"done"[^\n]*\n\ndata: \[DONE\]\n\n$/);
    const shown = /<pre><code>(.*)<\/code><\/pre>/.exec(text)?.[1] ?? "";
    assert.doesNotMatch(shown, /["'<>]/);
    assert.equal(
      escapeHtml(`<a href="x" on='y'>&</a>`),
      "&#60;a href=&#34;x&#34; on=&#39;y&#39;&#62;&#38;&#60;/a&#62;",
    );
    assert.equal(
      shown.replace(/&#(\d+);/g, (_, code) => String.fromCharCode(code)),
      first_request,
    );
  });

  test("shows a key in it if one is needed", async () => {
    const { first_request } = (await guarded.get("/")).json;
    const { text } = await guarded.get("/", asBrowser);

    const { stdout } = await promisify(execFile)("/bin/sh", ["-c", first_request], {
      env: { ...process.env, SVC_KEY: keys.all },
    });

    assert.match(stdout, /data: \[DONE\]\n\n$/);
    assert.match(text, /export SVC_KEY=…/);
  });

  test("uses the requested host in it, and https only from a trusted proxy", async () => {
    const headers = { host: "localhost:1234", "x-forwarded-proto": "https" };

    assert.match((await guarded.get("/", { headers })).json.first_request, /^curl -N https:\/\/localhost:1234\/chat/);
    assert.match((await open.get("/", { headers })).json.first_request, /^curl -N http:\/\/localhost:1234\/chat/);
  });

  test("refuses an invalid host before it appears in a page", async () => {
    for (const host of ['"><script>alert(1)</script>', "localhost;id", "localhost'", "$(id)"]) {
      const { status, text } = await open.get("/", { headers: { ...asBrowser.headers, host } });

      assert.ok(status === 403 || status === 400, `${host}: ${status}`);
      assert.ok(!text.includes("<script"), host);
    }
  });

  test("shows no tenant, manifest, version or environment", async () => {
    for (const options of [{}, asBrowser, { key: keys.all }]) {
      const { status, text } = await guarded.get("/", options);

      assert.equal(status, 200);
      for (const secret of ["planted", packageFile.version, "development", "acme"])
        assert.ok(!text.includes(secret), secret);
    }
  });
});
