// SVC_EGRESS_PROXY: tunnels of the connector through a real proxy, for both HTTP clients.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from "node:net";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { systemEnv } from "../../../bus/env.ts";
import type { Resolver } from "../../../governance/egress/connector.ts";
import { Egress } from "../../../governance/egress/egress.ts";
import { Outgoing, type OutgoingDeps } from "../../../governance/egress/outgoing.ts";
import { readTarget } from "../../../governance/egress/target.ts";
import { modelTestCertificate } from "../../support/certificate.ts";
import { cleanup, tempDir } from "../../support/temp.ts";
import { startWebSite, type WebSite } from "../../support/web-site.ts";

/** An address of the internet, which the proxy replaces by the site. */
const outside = "93.184.215.14";

describe("the proxy of SVC_EGRESS_PROXY", () => {
  const atEnd = cleanup();
  let site: WebSite;
  let proxyPort = 0;
  let refuses = false;
  const heads: string[] = [];
  const resolve: Resolver = (name, _options, done) =>
    queueMicrotask(() => done(null, [{ address: name === "inside.test" ? "127.0.0.1" : outside, family: 4 }]));

  before(async () => {
    site = await startWebSite(atEnd);
    site.on("/page", (_, response) => response.end("by the proxy"));
    const proxy = createTcpServer((client: Socket) => {
      client.on("error", () => {});
      client.once("data", (bytes) => {
        const head = bytes.toString();
        heads.push(head);
        if (refuses) {
          client.end("HTTP/1.1 403 Forbidden\r\n\r\n");
          return;
        }
        const port = /:443 /.test(head) ? site.tlsPort : site.port;
        const upstream = connect(port, "127.0.0.1", () => {
          client.write("HTTP/1.1 200 OK\r\nVia: test\r\n\r\n");
          client.pipe(upstream).pipe(client);
        });
        upstream.on("error", () => client.destroy());
      });
    });
    proxyPort = await new Promise((listening) =>
      proxy.listen(0, "127.0.0.1", () => listening((proxy.address() as AddressInfo).port)),
    );
    atEnd.after(async () => void proxy.close());
  });

  function outgoing(): Outgoing {
    const ca = join(tempDir(atEnd), "ca.pem");
    writeFileSync(ca, modelTestCertificate.cert);
    const settings: OutgoingDeps["settings"] = {
      egressCredentials: {},
      egressPrivate: [{ host: "inside.test", cidr: null, port: site.port, tenants: "*" }],
      egressProxy: `http://user:pass%20word@127.0.0.1:${proxyPort}`,
      egressCaFile: ca,
      testResolve: {},
    };
    const made = new Outgoing({ settings, secrets: { resolve: async (text) => text }, env: systemEnv(), resolve });
    atEnd.after(() => made.close());
    return made;
  }

  const rules = { tenantId: "acme", policy: "public", allowHosts: [], credentials: [], onEvent: () => {} } as const;

  test("a request over http goes through a tunnel to the checked address", async () => {
    heads.length = 0;

    const { bytes } = await outgoing().whole(rules, { url: "http://model.test/page" }, 1000);

    assert.equal(bytes.toString(), "by the proxy");
    assert.match(heads[0] ?? "", new RegExp(`^CONNECT ${outside}:80 HTTP/1.1\r\n`));
    assert.ok(heads[0]?.includes(`Proxy-Authorization: Basic ${Buffer.from("user:pass word").toString("base64")}\r\n`));
  });

  test("a request over https checks the certificate of the name inside the tunnel", async () => {
    const { bytes } = await outgoing().whole(rules, { url: "https://model.test/page" }, 1000);

    assert.equal(bytes.toString(), "by the proxy");
    await assert.rejects(outgoing().whole(rules, { url: "https://other.test/page" }, 1000), /altname|certificate/i);
  });

  test("a private address is reached without the proxy", async () => {
    heads.length = 0;

    const { bytes } = await outgoing().whole(rules, { url: `http://inside.test:${site.port}/page` }, 1000);

    assert.equal(bytes.toString(), "by the proxy");
    assert.deepEqual(heads, []);
  });

  test("a refusal of the proxy fails the request", async () => {
    refuses = true;
    try {
      await assert.rejects(outgoing().whole(rules, { url: "http://model.test/page" }, 1000), /opened no tunnel/);
    } finally {
      refuses = false;
    }
  });

  test("model streams use the tunnel too", async () => {
    const route = {
      proxy: { host: "127.0.0.1", port: proxyPort, authorization: null },
      ca: null,
      fixed: new Map(),
    };
    const egress = new Egress("public", resolve, systemEnv(), route);
    atEnd.after(() => egress.close());

    const text = await new Promise<string>((done, failed) => {
      let body = "";
      egress.dispatch(
        readTarget("http://model.test/page"),
        { method: "GET", headers: ["host", "model.test"], body: null, silenceMs: 5_000 },
        {
          onRequestStart: () => {},
          onResponseStart: () => {},
          onResponseData(bytes) {
            body += bytes.toString();
          },
          onResponseEnd: () => done(body),
          onResponseError: failed,
        },
      );
    });

    assert.equal(text, "by the proxy");
  });
});
