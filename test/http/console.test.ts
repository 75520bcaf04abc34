// The files of the console: their addresses, headers and size, and a server without them.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { gunzipSync } from "node:zlib";
import { ownScreens } from "../../http/pages/console-screens.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const asBrowser = { headers: { accept: "text/html" } };
/** Max bytes of all files that a browser may load, compressed, without the editor. */
const gzippedBytesMax = 200_000;

describe("/console", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let text: string;
  before(async () => {
    server = await startServer({ atEnd, env: { SVC_RATE_LIMIT: "60" } });
    text = (await server.get("/console")).text;
  });

  test("is where GET / sends a browser", async () => {
    const { status, headers } = await server.get("/", asBrowser);

    assert.deepEqual([status, headers.location], [303, "/console"]);
    assert.equal((await server.get("/")).json.service, "svc");
  });

  test("is a page whose policy allows this server, its import map, and markup from one library", async () => {
    const { status, headers } = await server.get("/console");
    const policy = String(headers["content-security-policy"]).split("; ");

    assert.deepEqual([status, headers["content-type"]], [200, "text/html; charset=utf-8"]);
    assert.equal(policy[0], "default-src 'none'");
    assert.match(policy[1] ?? "", /^script-src 'self' 'sha256-[\w+/]{43}='$/);
    for (const part of [
      "require-trusted-types-for 'script'",
      "trusted-types dompurify svc-worker",
      "worker-src 'self'",
      "manifest-src 'self'",
      "frame-ancestors 'none'",
    ])
      assert.ok(policy.includes(part), part);
    for (const part of policy) assert.doesNotMatch(part, /https?:|\*|unsafe-(inline|eval)/);
    assert.equal(headers["set-cookie"], undefined);
  });

  test("has files that never change under their address, compressed", async () => {
    const addresses = [...text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path ?? "");
    assert.ok(addresses.length > 5);

    for (const path of addresses.filter((address) => !address.endsWith(".webmanifest"))) {
      const plain = await server.get(path);
      const small = await server.get(path, { headers: { "accept-encoding": "gzip" } });

      assert.equal(plain.status, 200, path);
      assert.equal(plain.headers["cache-control"], "public, max-age=31536000, immutable");
      assert.deepEqual(gunzipSync(small.bytes), plain.bytes);
      const etag = String(plain.headers.etag);
      assert.equal((await server.get(path, { headers: { "if-none-match": etag } })).status, 304);
    }
  });

  test("loads modules of this server only, less than 200 KB of them compressed", async () => {
    const { imports } = JSON.parse(/<script type="importmap">(.*)<\/script>/.exec(text)?.[1] ?? "{}");
    const [main = ""] = /\/console\/\w+\/console\/main\.js/.exec(text) ?? [];
    const seen = new Map<string, number>();
    const sheets = [...text.matchAll(/href="([^"]+\.(?:css|svg))"/g)].map(([, path]) => path ?? "");

    for (const queue = [main, ...sheets]; queue.length > 0; ) {
      const path = queue.pop() ?? "";
      if (seen.has(path)) continue;
      const { status, bytes } = await server.get(path, { headers: { "accept-encoding": "gzip" } });
      assert.equal(status, 200, path);
      seen.set(path, bytes.length);
      if (!path.endsWith(".js")) continue;
      // The editor of manifests is loaded when it is opened.
      if (path.endsWith("/agents/code-editor.js")) continue;
      for (const specifier of specifiersIn(gunzipSync(bytes).toString("utf8")))
        queue.push(specifier.startsWith(".") ? new URL(specifier, `http://x${path}`).pathname : imports[specifier]);
    }

    const total = [...seen.values()].reduce((sum, size) => sum + size, 0);
    assert.ok(seen.size > 30, `${seen.size} files`);
    assert.ok(total < gzippedBytesMax, `${total} bytes`);
  });

  test("announces all modules of the page and its first screen, so that none waits for another", async () => {
    const { imports } = JSON.parse(/<script type="importmap">(.*)<\/script>/.exec(text)?.[1] ?? "{}");
    const announced = [...text.matchAll(/rel="modulepreload"[^>]* href="([^"]+)"/g)].map(([, path]) => path ?? "");

    for (const own of ["/console/main.js", "/console/screens/chat/chat.js"])
      assert.ok(announced.some((path) => path.endsWith(own)));
    for (const path of announced)
      for (const specifier of specifiersIn((await server.get(path)).text, /\b(?:from|import)\s*"([^"]+)"/g)) {
        const needed = specifier.startsWith(".") ? new URL(specifier, `http://x${path}`).pathname : imports[specifier];
        assert.ok(announced.includes(needed), `${path} imports ${specifier}`);
      }
    assert.ok(!announced.some((path) => path.endsWith("code-editor.js")));
  });

  test("does not serve an unknown file, another release, or a file outside of its folders", async () => {
    const [, build = ""] = /\/console\/(\w+)\//.exec(text) ?? [];

    for (const path of [
      ...[`/console/${build}/console/nothing.js`, `/console/0000000000000000/console/main.js`],
      ...[
        `/console/${build}/client/client.d.ts`,
        `/console/${build}/client/package.json`,
        `/console/${build}/http/app.ts`,
      ],
    ])
      assert.equal((await server.get(path)).status, 404, path);
  });

  test("has files that count against no rate limit: many people may share an address", async () => {
    const [, path = ""] = /src="([^"]+main\.js)"/.exec(text) ?? [];

    const answers = await Promise.all(Array.from({ length: 400 }, () => server.get(path)));

    assert.deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
  });

  test("has the screens whose names plugins may not bring", async () => {
    const module = new URL("../../console/screens/screens.js", import.meta.url);
    const { screens } = await import(module.href);

    assert.deepEqual(
      screens.map(({ name }: { name: string }) => name),
      ownScreens,
    );
  });

  test("is removed by SVC_CONSOLE=false", async () => {
    const without = await startServer({ atEnd, env: { SVC_CONSOLE: "false" } });

    assert.equal((await without.get("/console")).status, 404);
    assert.equal((await without.get("/", asBrowser)).status, 200);
  });
});

function specifiersIn(module: string, pattern = /(?:\bfrom|\bimport)\s*\(?\s*"([^"]+)"/g): string[] {
  return [...module.replace(/\/\*\*.*?\*\//gs, "").matchAll(pattern)].map(([, specifier]) => specifier ?? "");
}
