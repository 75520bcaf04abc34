// Concurrent requests of a tenant: their limit, and requests that are aborted while they wait. Headers after a redirect.
import assert from "node:assert/strict";
import { test } from "node:test";
import { systemEnv } from "../../../bus/env.ts";
import { Outgoing } from "../../../governance/egress/outgoing.ts";
import { eventually } from "../../support/eventually.ts";
import { type Cleanup, cleanup } from "../../support/temp.ts";
import { startWebSite, type WebSite } from "../../support/web-site.ts";

const rules = (tenantId: string) =>
  ({ tenantId, policy: "public", allowHosts: [], credentials: [], onEvent: () => {} }) as const;

/** The way out, with both names of the site allowed. */
function outgoingTo({ port }: WebSite, atEnd: Cleanup): Outgoing {
  const target = { host: "127.0.0.1", cidr: null, port, tenants: "*" } as const;
  const outgoing = new Outgoing({
    settings: {
      egressCredentials: {},
      egressPrivate: [target],
      egressProxy: "",
      egressCaFile: null,
      testResolve: { "other.example": { address: "127.0.0.1", port } },
    },
    secrets: { resolve: async (text) => text },
    env: systemEnv(),
  });
  atEnd.after(() => outgoing.close());
  return outgoing;
}

test("secret headers of a request stay with its origin after a redirect, and others follow it", async (t) => {
  const atEnd = cleanup(t);
  const site = await startWebSite(atEnd);
  site.on("/here", (_, response) => response.writeHead(307, { location: "/there" }).end());
  site.on("/there", (_, response) => response.writeHead(307, { location: "http://other.example/away" }).end());
  site.on("/away", (_, response) => response.end("done"));
  const secret = { authorization: "Bearer x", cookie: "a=b", "idempotency-key": "k", "mcp-session-id": "s" };
  const url = `http://127.0.0.1:${site.port}/here`;

  const { status } = await outgoingTo(site, atEnd).whole(
    rules("acme"),
    { url, method: "POST", body: "x", headers: { Authorization: secret.authorization, ...secret, "x-own": "1" } },
    100,
  );

  const names = [...Object.keys(secret), "x-own"];
  const sent = site.requests.map(({ headers }) => names.filter((name) => headers[name] !== undefined));
  assert.equal(status, 200);
  assert.deepEqual(sent, [names, names, ["x-own"]]);
});

test("a tenant has 32 requests at once and 1,000 waiting ones, and holds back no other tenant", async (t) => {
  const atEnd = cleanup(t);
  const site = await startWebSite(atEnd);
  const held: (() => void)[] = [];
  site.on("/held", (_, response) => void held.push(() => response.end("done")));
  site.on("/free", (_, response) => response.end("free"));
  const outgoing = outgoingTo(site, atEnd);
  const base = `http://127.0.0.1:${site.port}`;
  const abort = new AbortController();
  const stop = new AbortController();

  const first = Array.from({ length: 32 }, () => outgoing.whole(rules("acme"), { url: `${base}/held` }, 100));
  await eventually("the limit is reached", async () => held.length === 32);
  const aborted = outgoing.whole(rules("acme"), { url: `${base}/free`, signal: abort.signal }, 100);
  const late = outgoing.whole(rules("acme"), { url: `${base}/free`, timeoutMs: 20 }, 100);
  const waiting = outgoing.whole(rules("acme"), { url: `${base}/free` }, 100);
  abort.abort(new Error("the run was stopped"));

  await assert.rejects(aborted, /the run was stopped/);
  await assert.rejects(late, /no answer in time/);
  assert.equal((await outgoing.whole(rules("globex"), { url: `${base}/free` }, 100)).bytes.toString(), "free");
  const many = Array.from({ length: 999 }, () =>
    outgoing.whole(rules("acme"), { url: `${base}/free`, signal: stop.signal }, 100),
  );
  await assert.rejects(outgoing.whole(rules("acme"), { url: `${base}/free` }, 100), /too many requests wait/);
  stop.abort(new Error("all were stopped"));
  for (const one of many) await assert.rejects(one, /all were stopped/);
  assert.ok(!site.requests.some(({ url }, at) => url === "/free" && at < 32));
  held[0]?.();
  assert.equal((await waiting).bytes.toString(), "free");
  for (const end of held) end();
  await Promise.all(first);
});
