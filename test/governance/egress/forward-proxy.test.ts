// The proxy for browsers: raw requests of a client that may be hostile, by CONNECT and as plain HTTP.
import assert from "node:assert/strict";
import { connect } from "node:net";
import { before, describe, test } from "node:test";
import { systemEnv } from "../../../bus/env.ts";
import type { Resolver } from "../../../governance/egress/connector.ts";
import { ForwardProxy, type ProxyPass, type ProxyRules } from "../../../governance/egress/forward-proxy.ts";
import type { EgressEvent } from "../../../governance/egress/outgoing.ts";
import { plainRoute } from "../../../governance/egress/route.ts";
import { eventually } from "../../support/eventually.ts";
import { cleanup } from "../../support/temp.ts";
import { startWebSite, type WebSite } from "../../support/web-site.ts";

describe("the proxy for browsers", () => {
  const atEnd = cleanup();
  let site: WebSite;
  let proxy: ForwardProxy;
  let port: number;
  /** Answers to the questions for `rebound.test`: an address of the internet first, then loopback. */
  let answers: readonly string[][] = [];
  let asked = 0;
  const resolve: Resolver = (name, _options, done) => {
    const found = name === "mixed.test" ? ["93.184.215.14", "127.0.0.1"] : (answers[asked++] ?? ["127.0.0.1"]);
    queueMicrotask(() =>
      done(
        null,
        found.map((address) => ({ address, family: 4 })),
      ),
    );
  };
  before(async () => {
    site = await startWebSite(atEnd);
    site.on("/page", (request, response) => response.end(`a page for ${JSON.stringify(request.headers)}`));
    site.on("/big", (_, response) => response.end(Buffer.alloc(300_000, "x")));
    const fixed = new Map([["site.test", { address: "127.0.0.1", port: site.port }]]);
    proxy = new ForwardProxy({ env: systemEnv(), route: { ...plainRoute, fixed }, resolve });
    atEnd.after(() => proxy.close());
    port = await proxy.listen("127.0.0.1", 0);
  });

  function open(rules: Partial<ProxyRules> = {}): { pass: ProxyPass; events: EgressEvent[]; login: string } {
    const events: EgressEvent[] = [];
    const pass = proxy.open({
      ...{ targets: [], allowHosts: [], bytesMax: 1_000_000 },
      onEvent: (event) => events.push(event),
      ...rules,
    });
    atEnd.after(() => pass.close());
    const encoded = Buffer.from(`${pass.name}:${pass.password}`).toString("base64");
    return { pass, events, login: `Proxy-Authorization: Basic ${encoded}\r\n` };
  }

  /** Sends bytes on a new connection; returns everything that came until it closed. */
  function send(...parts: readonly string[]): Promise<string> {
    const [first = "", ...later] = parts;
    return new Promise((resolve) => {
      let text = "";
      const socket = connect(port, "127.0.0.1", () => socket.write(first));
      socket.setTimeout(1_000, () => socket.destroy());
      socket.on("data", (bytes) => {
        text += bytes.toString("latin1");
        const next = later.shift();
        if (next !== undefined) socket.write(next);
      });
      socket.on("error", () => {});
      socket.on("close", () => resolve(text));
    });
  }

  const close = "Connection: close\r\n\r\n";
  const forbidden = [
    "127.0.0.1:PORT",
    "localhost:PORT",
    "[::1]:PORT",
    "2130706433:PORT",
    "0x7f.1:PORT",
    "169.254.169.254:80",
    "mixed.test:PORT",
    "a:b@site.test:80",
    "site.test",
    "site.test:80/path",
    "[fe80::1%25eth0]:80",
    "",
  ];
  for (const authority of forbidden)
    test(`a tunnel to ${authority || "nothing"} is refused`, async () => {
      const { login } = open();
      const before = site.requests.length;

      const text = await send(`CONNECT ${authority.replace("PORT", String(site.port))} HTTP/1.1\r\n${login}\r\n`);

      assert.match(text, /^HTTP\/1\.1 (?:403|400)|^$/);
      assert.equal(site.requests.length, before);
    });

  for (const url of ["http://127.0.0.1:PORT/page", "http://localhost:PORT/page", "http://a:b@site.test/page"])
    test(`a request for ${url} is closed without an answer`, async () => {
      const { pass, login } = open();
      const at = url.replace("PORT", String(site.port));

      assert.equal(await send(`GET ${at} HTTP/1.1\r\nHost: x\r\n${login}${close}`), "");
      assert.equal(pass.failureOf(at)?.name, "EgressBlocked");
    });

  for (const target of ["/page", "https://site.test/page", "ftp://site.test/", "*"])
    test(`a request for ${target} is closed: it is no URL of plain HTTP`, async () => {
      const { login } = open();

      assert.doesNotMatch(await send(`GET ${target} HTTP/1.1\r\nHost: site.test\r\n${login}${close}`), /200/);
    });

  test("a request is forwarded without the headers for the proxy", async () => {
    const { login } = open();

    const text = await send(
      `GET http://site.test/page HTTP/1.1\r\nHost: other.test\r\n${login}Keep-Alive: 5\r\nX-Own: 1\r\nConnection: close, x-own\r\n\r\n`,
    );

    assert.match(text, /^HTTP\/1\.1 200.*"host":"site\.test"/s);
    assert.doesNotMatch(text, /x-own|proxy-authorization|"keep-alive"/);
  });

  test("a tunnel carries bytes both ways, and a name is resolved once", async () => {
    const { login } = open();

    const text = await send(
      `CONNECT site.test:80 HTTP/1.1\r\n${login}\r\n`,
      `GET /page HTTP/1.1\r\nHost: inner\r\n${close}`,
    );

    assert.match(text, /^HTTP\/1\.1 200 Connection established\r\n\r\nHTTP\/1\.1 200.*"host":"inner"/s);
  });

  test("a name that is bound to loopback by its second answer is refused then", async () => {
    const { login, events } = open();
    answers = [["127.0.0.1"]];
    asked = 0;

    const text = await send(`CONNECT rebound.test:${site.port} HTTP/1.1\r\n${login}\r\n`);

    assert.match(text, /^HTTP\/1\.1 403/);
    assert.equal(asked, 1);
    assert.deepEqual(events, [{ status: "blocked", host: "rebound.test", port: site.port, reason: "address" }]);
  });

  test("each list of hosts must admit a host", async () => {
    const { login, events } = open({ allowHosts: [["site.test"], ["other.test", "site.test"]] });

    assert.match(await send(`GET http://site.test/page HTTP/1.1\r\nHost: x\r\n${login}${close}`), /200/);
    assert.equal(await send(`GET http://other.test/page HTTP/1.1\r\nHost: x\r\n${login}${close}`), "");
    assert.equal(events[0]?.reason, "host");
  });

  test("a target of SVC_EGRESS_PRIVATE is reached at its port", async () => {
    const target = { host: "127.0.0.1", cidr: null, port: site.port, tenants: "*" as const };
    const { login } = open({ targets: [target] });

    const text = await send(`GET http://127.0.0.1:${site.port}/page HTTP/1.1\r\nHost: x\r\n${login}${close}`);

    assert.match(text, /^HTTP\/1\.1 200/);
    assert.equal(await send(`GET http://127.0.0.1:${site.tlsPort}/ HTTP/1.1\r\nHost: x\r\n${login}${close}`), "");
  });

  test("the connections of a pass are closed when it has used its bytes", async () => {
    const { pass, login } = open({ bytesMax: 100_000 });

    const text = await send(`GET http://site.test/big HTTP/1.1\r\nHost: x\r\n${login}${close}`);

    assert.ok(pass.isCut);
    assert.ok(text.length < 300_000, String(text.length));
    assert.equal(await send(`GET http://site.test/page HTTP/1.1\r\nHost: x\r\n${login}${close}`), "");
  });

  test("a closed pass has no connections, and its password is refused", async () => {
    const { pass, login } = open();
    site.on("/open", () => {});
    const waiting = send(`GET http://site.test/open HTTP/1.1\r\nHost: x\r\n${login}\r\n`);
    await eventually("the site is asked", async () => site.requests.at(-1)?.url === "/open");

    pass.close();

    assert.equal(await waiting, "");
    assert.match(await send(`GET http://site.test/page HTTP/1.1\r\nHost: x\r\n${login}${close}`), /^HTTP\/1\.1 407/);
  });

  const strangers = [
    "",
    "Proxy-Authorization: Basic\r\n",
    "Proxy-Authorization: Basic OjE=\r\n",
    "Proxy-Authorization: Bearer x\r\n",
  ];
  for (const login of strangers)
    test(`the login ${JSON.stringify(login)} is refused`, async () => {
      const plain = await send(`GET http://site.test/page HTTP/1.1\r\nHost: x\r\n${login}${close}`);
      const tunnel = await send(`CONNECT site.test:80 HTTP/1.1\r\n${login}\r\n`);

      assert.match(plain, /^HTTP\/1\.1 407/);
      assert.match(tunnel, /^HTTP\/1\.1 407.*Proxy-Authenticate: Basic/s);
    });

  test("bytes that are no HTTP close their connection alone", async () => {
    assert.doesNotMatch(await send("\x16\x03\x01\x02\x00garbage\r\n\r\n"), /200/);
    const { login } = open();
    assert.match(await send(`GET http://site.test/page HTTP/1.1\r\nHost: x\r\n${login}${close}`), /^HTTP\/1\.1 200/);
  });
});
