// Successful and failing connections over real sockets. The resolver is an argument, so that each test sets the
// addresses of names.
import assert from "node:assert/strict";
import type { LookupAddress } from "node:dns";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo, Server } from "node:net";
import { after, before, beforeEach, test } from "node:test";
import { createServer as createTlsServer } from "node:tls";
import { allowsAddress, type EgressPolicy } from "../../../governance/egress/address.ts";
import { judgedLookup, type Resolver } from "../../../governance/egress/connector.ts";
import { Egress } from "../../../governance/egress/egress.ts";
import { EgressBlocked, egressFailure } from "../../../governance/egress/failure.ts";
import { readTarget } from "../../../governance/egress/target.ts";

/** The server's connections and requests since the test began. */
let connections = 0;
let requests: string[] = [];
const opened: Egress[] = [];

const server = createServer((request, response) => {
  requests.push(`${request.method} ${request.headers.host} ${request.url}`);
  // Closed after each answer, so that the next request resolves again.
  if (request.url === "/hop") response.writeHead(302, { location: "/landed", connection: "close" }).end();
  else if (request.url === "/kept") response.end("kept");
  else response.writeHead(200, { connection: "close" }).end("reached");
});
server.on("connection", () => connections++);
let port = 0;
before(async () => {
  port = await listen(server);
});
beforeEach(() => {
  connections = 0;
  requests = [];
});
after(async () => {
  await Promise.all(opened.map((egress) => egress.close()));
  server.close();
});

async function listen(of: Server): Promise<number> {
  of.listen(0, "127.0.0.1");
  await once(of, "listening");
  return (of.address() as AddressInfo).port;
}

/** An egress whose resolver gives these answers in turn, repeating the last one, and the names it was asked for. */
function open(policy: EgressPolicy, ...answers: readonly (readonly string[])[]) {
  const asked: string[] = [];
  const resolve: Resolver = (name, _options, done) => {
    const answer = answers[Math.min(asked.push(name), answers.length) - 1] ?? [];
    const addresses = answer.map((address): LookupAddress => ({ address, family: address.includes(":") ? 6 : 4 }));
    queueMicrotask(() => done(null, addresses));
  };
  const egress = new Egress(policy, resolve);
  opened.push(egress);
  return { egress, asked };
}

/** The status and the body of the answer. Rejects with the failure that the handler gets. */
function get(egress: Egress, url: string): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    let status = 0;
    let body = "";
    egress.dispatch(
      readTarget(url),
      { method: "GET", headers: [], body: null, silenceMs: 60_000 },
      {
        onRequestStart() {},
        onResponseStart(head) {
          status = head.status;
        },
        onResponseData(chunk) {
          body += chunk.toString();
        },
        onResponseEnd: () => resolve({ status, body }),
        onResponseError: reject,
      },
    );
  });
}

async function refused(egress: Egress, url: string): Promise<void> {
  await assert.rejects(
    get(egress, url),
    (error) => error instanceof EgressBlocked && egressFailure(error) === "blocked",
  );
}

for (const literal of ["127.0.0.1", "2130706433", "0x7f.1", "127.0.0.1.", "[::ffff:127.0.0.1]"]) {
  test(`the public policy refuses ${literal} before sending, and the operator's reaches it`, async () => {
    const inside = open("public");
    const own = open("operator");

    await refused(inside.egress, `http://${literal}:${port}/`);
    const before = connections;
    const answer = await get(own.egress, `http://${literal}:${port}/`);

    assert.deepEqual([before, inside.asked, own.asked], [0, [], []]);
    assert.deepEqual([answer.body, connections], ["reached", 1]);
  });
}

test("a literal IPv6 address is checked without its brackets", async () => {
  const { egress, asked } = open("public");

  await refused(egress, `http://[::1]:${port}/`);
  await refused(egress, "https://[fd00:ec2::254]/");

  assert.deepEqual(asked, []);
});

test("a name is connected to at the checked address, and keeps its name in Host", async () => {
  const { egress, asked } = open("operator", ["127.0.0.1"]);

  const answer = await get(egress, `http://model.test:${port}/v1?x=1`);

  assert.equal(answer.body, "reached");
  assert.deepEqual(asked, ["model.test"]);
  assert.deepEqual(requests, [`GET model.test:${port} /v1?x=1`]);
});

test("a name keeps its name in SNI", async () => {
  const named: string[] = [];
  const secure = createTlsServer({
    SNICallback(name, done) {
      named.push(name);
      done(new Error("that is all"));
    },
  });
  const securePort = await listen(secure);
  const { egress } = open("operator", ["127.0.0.1"]);

  await assert.rejects(get(egress, `https://model.test:${securePort}/`));

  assert.deepEqual(named, ["model.test"]);
  secure.close();
});

for (const address of [
  "127.0.0.1",
  "10.0.0.1",
  "169.254.169.254",
  "::1",
  "::ffff:127.0.0.1",
  "fe80::1%lo",
  "fd00::1",
]) {
  test(`a name that resolves to ${address} is refused by the public policy`, async () => {
    const { egress, asked } = open("public", [address]);

    await refused(egress, `http://inside.test:${port}/`);

    assert.deepEqual([asked, connections], [["inside.test"], 0]);
  });
}

for (const answer of [
  ["127.0.0.1", "8.8.8.8"],
  ["8.8.8.8", "127.0.0.1"],
  ["2606:4700:4700::1111", "8.8.8.8", "10.0.0.1"],
  [],
]) {
  test(`a name that resolves to [${answer}] is refused as a whole`, async () => {
    const { egress } = open("public", answer);

    await refused(egress, `http://mixed.test:${port}/`);

    assert.equal(connections, 0);
  });
}

test("the operator's policy refuses metadata by name too", async () => {
  const { egress } = open("operator", ["127.0.0.1", "169.254.169.254"]);

  await refused(egress, `http://model.test:${port}/`);

  assert.equal(connections, 0);
});

test("a name that turns private after a public answer is checked again and refused", async () => {
  // Under the operator's policy the loopback address is allowed, so that the first connection is really made.
  const { egress, asked } = open("operator", ["127.0.0.1"], ["169.254.169.254"]);

  const first = await get(egress, `http://rebinding.test:${port}/`);
  await refused(egress, `http://rebinding.test:${port}/`);

  assert.equal(first.body, "reached");
  assert.deepEqual([asked.length, connections, requests.length], [2, 1, 1]);
});

test("one connection resolves its name once: nothing resolves between check and socket", async () => {
  const { egress, asked } = open("operator", ["127.0.0.1"], ["169.254.169.254"]);

  await get(egress, `http://kept.test:${port}/kept`);
  // By then the connection is free again.
  await new Promise((resolve) => setImmediate(resolve));
  await get(egress, `http://kept.test:${port}/kept`);

  assert.deepEqual([asked.length, connections, requests.length], [1, 1, 2]);
});

test("the public policy refuses a name with a private answer, in both forms of node", () => {
  // The lookup alone: no test connects to the internet.
  const answers: LookupAddress[][] = [
    [
      { address: "2606:4700:4700::1111", family: 6 },
      { address: "1.1.1.1", family: 4 },
    ],
    [{ address: "127.0.0.1", family: 4 }],
  ];
  for (const all of [true, false]) {
    const turns = structuredClone(answers);
    const lookup = judgedLookup(
      (address) => allowsAddress("public", address),
      (_name, _options, done) => done(null, turns.shift() ?? []),
    );
    const given: unknown[] = [];

    for (const _ of answers)
      lookup("rebinding.test", { all }, (error, address, family) => given.push(error ?? [address, family]));

    assert.deepEqual(given[0], all ? [answers[0], undefined] : ["2606:4700:4700::1111", 6]);
    assert.ok(given[1] instanceof EgressBlocked);
  }
});

test("a failure of the resolver is reported with its own text", async () => {
  const missing = Object.assign(new Error("getaddrinfo ENOTFOUND nowhere.test"), { code: "ENOTFOUND" });
  const egress = new Egress("public", (_name, _options, done) => queueMicrotask(() => done(missing, [])));
  opened.push(egress);

  await assert.rejects(get(egress, `http://nowhere.test:${port}/`), missing);
});

test("a redirect is an answer, and is not followed", async () => {
  const { egress } = open("operator");

  const answer = await get(egress, `http://127.0.0.1:${port}/hop`);

  assert.equal(answer.status, 302);
  assert.deepEqual(requests, [`GET 127.0.0.1:${port} /hop`]);
});

test("a connection of one policy is not reused by another", async () => {
  const own = open("operator", ["127.0.0.1"]);
  const foreign = open("public", ["127.0.0.1"]);

  await get(own.egress, `http://shared.test:${port}/kept`);
  await refused(foreign.egress, `http://shared.test:${port}/kept`);

  assert.deepEqual([connections, requests.length], [1, 1]);
});
