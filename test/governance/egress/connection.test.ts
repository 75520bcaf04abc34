// Connections to servers with scripted writes: each caller's answer, and the failures.
import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { after, describe, test } from "node:test";
import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import { createServer as createTlsServer, setDefaultCACertificates } from "node:tls";
import { type Env, systemEnv } from "../../../bus/env.ts";
import type { ResponseControl } from "../../../governance/egress/connection.ts";
import { Egress } from "../../../governance/egress/egress.ts";
import { egressFailure } from "../../../governance/egress/failure.ts";
import type { EgressRequest } from "../../../governance/egress/request-text.ts";
import { readTarget } from "../../../governance/egress/target.ts";
import { modelTestCertificate } from "../../support/certificate.ts";
import { eventually } from "../../support/eventually.ts";

const opened: { close(): unknown }[] = [];
after(async () => {
  for (const each of opened) await each.close();
});

/** The requests on each connection of a server, in the order of the connections. */
interface Raw {
  readonly url: string;
  readonly sockets: Socket[];
  readonly received: string[];
}

/** Answers each complete request with the result of `answer`. */
async function serve(answer: (socket: Socket, request: string, connection: number) => void): Promise<Raw> {
  return listening(createServer(), answer);
}

async function listening(
  server: Server,
  answer: (socket: Socket, request: string, connection: number) => void,
  reads = true,
): Promise<Raw> {
  const sockets: Socket[] = [];
  const received: string[] = [];
  server.on(
    server.listenerCount("secureConnection") >= 0 && "setSecureContext" in server ? "secureConnection" : "connection",
    (socket: Socket) => {
      const connection = sockets.push(socket) - 1;
      received.push("");
      let unread = "";
      socket.on("error", () => {});
      if (!reads) return;
      socket.on("data", (bytes) => {
        const text = bytes.toString("latin1");
        received[connection] += text;
        unread += text;
        for (let request = firstRequest(unread); request !== null; request = firstRequest(unread)) {
          unread = unread.slice(request.length);
          answer(socket, request, connection);
        }
      });
    },
  );
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  opened.push({
    close() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, sockets, received };
}

/** The first complete request of a text, in Latin-1; null when there is none. */
function firstRequest(text: string): string | null {
  const end = text.indexOf("\r\n\r\n") + 4;
  if (end < 4) return null;
  const length = Number(/content-length: (\d+)/.exec(text.slice(0, end))?.[1] ?? 0);
  return text.length < end + length ? null : text.slice(0, end + length);
}

function open(env: Env = systemEnv()): Egress {
  const egress = new Egress(
    "operator",
    (_name, _options, done) => done(null, [{ address: "127.0.0.1", family: 4 }]),
    env,
  );
  opened.push(egress);
  return egress;
}

interface Sent extends Partial<EgressRequest> {
  readonly onStart?: (control: ResponseControl) => void;
  readonly onHead?: (control: ResponseControl) => void;
  readonly onData?: (bytes: Buffer, control: ResponseControl) => void;
}

interface Got {
  readonly status: number;
  readonly body: string;
}

/** Sends a request, and asserts the order of its handler's events. Rejects with the reported failure. */
function send(egress: Egress, url: string, { onStart, onHead, onData, ...request }: Sent = {}): Promise<Got> {
  return new Promise((resolve, reject) => {
    let at: "begun" | "started" | "answered" | "over" = "begun";
    let control: ResponseControl | null = null;
    let status = 0;
    let body = "";
    const isAt = (...places: (typeof at)[]): void => {
      if (!places.includes(at)) reject(new Error(`a handler that is ${at} was told more`));
    };
    egress.dispatch(
      readTarget(url),
      { method: "POST", headers: [], body: "", silenceMs: 20_000, ...request },
      {
        onRequestStart(given) {
          isAt("begun");
          at = "started";
          control = given;
          onStart?.(given);
        },
        onResponseStart(head) {
          isAt("started");
          at = "answered";
          status = head.status;
          onHead?.(control as ResponseControl);
        },
        onResponseData(bytes) {
          isAt("answered");
          body += bytes.toString("latin1");
          onData?.(bytes, control as ResponseControl);
        },
        onResponseEnd() {
          isAt("answered");
          at = "over";
          resolve({ status, body });
        },
        onResponseError(error) {
          isAt("begun", "started", "answered");
          at = "over";
          reject(error);
        },
      },
    );
  });
}

const answerWith = (body: string, head = "") =>
  `HTTP/1.1 200 OK\r\n${head}content-length: ${body.length}\r\n\r\n${body}`;
const gone = (socket: Socket | undefined) => eventually("the end", async () => socket?.closed || undefined);
const isLost = (error: unknown) => egressFailure(error) === "lost";

describe("a connection", () => {
  test("serves one request after another, and several at once have one each", async () => {
    const server = await serve((socket, request) => socket.write(answerWith(request.split("\r\n\r\n")[1] ?? "")));
    const egress = open();

    const alone = [await send(egress, server.url, { body: "one" }), await send(egress, server.url, { body: "two" })];
    const together = await Promise.all(["three", "four", "five"].map((body) => send(egress, server.url, { body })));

    assert.deepEqual(
      [...alone, ...together].map(({ body }) => body),
      ["one", "two", "three", "four", "five"],
    );
    assert.equal(server.sockets.length, 3);
  });

  test("carries the request unchanged, the body in UTF-8 and the head in Latin-1", async () => {
    const server = await serve((socket) => socket.write(answerWith("")));
    const egress = open();

    await send(egress, `${server.url}/a%20b?c=d`, {
      headers: ["X-Name", "\xe4", "authorization", "Bearer x"],
      body: "grüße €",
    });
    await send(egress, `${server.url}/`, { headers: ["host", "other.test"], body: "€" });
    await send(egress, `${server.url}/`, { method: "GET", body: null });

    const host = new URL(server.url).host;
    const body = Buffer.from("grüße €").toString("latin1");
    assert.equal(
      server.received.join(""),
      `POST /a%20b?c=d HTTP/1.1\r\nhost: ${host}\r\nconnection: keep-alive\r\nX-Name: \xe4\r\nauthorization: Bearer x\r\ncontent-length: ${body.length}\r\n\r\n${body}` +
        "POST / HTTP/1.1\r\nhost: other.test\r\nconnection: keep-alive\r\ncontent-length: 3\r\n\r\n\xe2\x82\xac" +
        `GET / HTTP/1.1\r\nhost: ${host}\r\nconnection: keep-alive\r\n\r\n`,
    );
  });

  for (const headers of [
    ["a\r\nb", "c"],
    ["a", "b\r\nc: d"],
    ["a", "b\nc"],
    ["a", "\0"],
    ["a", "€"],
    ["", "a"],
    ["a b", "c"],
    ["a:", "c"],
    ["Content-Length", "0"],
    ["transfer-encoding", "chunked"],
    ["upgrade", "h2c"],
    ["expect", "100-continue"],
  ])
    test(`a request with the header ${JSON.stringify(headers)} is not sent`, async () => {
      const server = await serve(() => {});

      await assert.rejects(
        send(open(), server.url, { headers }),
        (error) => egressFailure(error) === "unsendable" && !(error as Error).message.includes("b\r\nc"),
      );

      assert.equal(server.sockets.length, 0);
    });

  test("is not reused when bytes follow the answer: no caller gets another's", async () => {
    const server = await serve((socket, _request, connection) =>
      socket.write(answerWith(`of ${connection}`) + (connection === 0 ? answerWith("forged") : "")),
    );
    const egress = open();

    const answers = [await send(egress, server.url), await send(egress, server.url), await send(egress, server.url)];

    assert.deepEqual(
      answers.map(({ body }) => body),
      ["of 0", "of 1", "of 1"],
    );
  });

  test("is closed when it sends bytes without a request", async () => {
    const server = await serve((socket, _request, connection) => socket.write(answerWith(`of ${connection}`)));
    const egress = open();
    await send(egress, server.url);

    server.sockets[0]?.write(answerWith("forged"));
    await gone(server.sockets[0]);
    const next = await send(egress, server.url);

    assert.equal(next.body, "of 1");
  });

  for (const [why, head, headers] of [
    ["the other side closes", "connection: close\r\n", []],
    ["it is to be closed", "", ["connection", "close"]],
    ["the other side waits no longer", "keep-alive: timeout=2\r\n", []],
  ] as const)
    test(`serves one request when ${why}`, async () => {
      const server = await serve((socket) => socket.write(answerWith("", head)));
      const egress = open();

      await send(egress, server.url, { headers });
      await send(egress, server.url, { headers });

      assert.equal(server.sockets.length, 2);
    });

  test("that was idle for too long is closed and not reused", async () => {
    const server = await serve((socket) => socket.write(answerWith("", "keep-alive: timeout=10, max=5\r\n")));
    let later = 0;
    const due: { at: number; work: () => void }[] = [];
    const real = systemEnv();
    const egress = open({
      ...real,
      monotonic: () => real.monotonic() + later,
      timer(delayMs, work) {
        due.push({ at: real.monotonic() + later + delayMs, work });
        return { cancel() {} };
      },
    });
    await send(egress, server.url);
    await send(egress, server.url);

    later = 7_900;
    await send(egress, server.url);
    later += 8_100;
    await send(egress, server.url);
    const made = server.sockets.length;
    later += 8_100;
    for (const { at, work } of due.splice(0)) if (at <= real.monotonic() + later) work();
    await gone(server.sockets[1]);

    assert.equal(made, 2);
  });

  test("that the server has closed while idle is not reused", async () => {
    const server = await serve((socket) => socket.write(answerWith("")));
    const egress = open();
    await send(egress, server.url);

    server.sockets[0]?.end();
    await gone(server.sockets[0]);
    await send(egress, server.url);

    assert.equal(server.sockets.length, 2);
  });

  test("with an answer before the whole request was sent is not reused", async () => {
    const server = await listening(createServer(), () => {}, false);
    const egress = open();

    const early = send(egress, server.url, { body: "x".repeat(32 * 1024 * 1024) });
    await eventually("a connection", async () => server.sockets[0]);
    server.sockets[0]?.write(answerWith("no"));
    const answer = await early;
    server.sockets[0]?.resume();
    await gone(server.sockets[0]);

    assert.equal(answer.body, "no");
  });

  for (const [when, text] of [
    ["before the answer", ""],
    ["in its head", "HTTP/1.1 200 OK\r\ncont"],
    ["in its body", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf"],
    ["in its chunks", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n"],
  ] as const)
    for (const how of ["end", "resetAndDestroy"] as const)
      test(`that is ${how === "end" ? "ended" : "reset"} ${when} is lost`, async () => {
        const server = await serve((socket) => socket.write(text, () => setImmediate(() => socket[how]())));

        await assert.rejects(send(open(), server.url), isLost);
      });

  test("that ends is the end of an answer without another end", async () => {
    const server = await serve((socket) => socket.end("HTTP/1.1 200 OK\r\n\r\nall of it"));

    assert.deepEqual(await send(open(), server.url), { status: 200, body: "all of it" });
  });

  test("that sends an invalid answer is closed, with its own failure", async () => {
    const server = await serve((socket) => socket.write("HTTP/1.1 200 OK\r\na b: c\r\n\r\n"));

    await assert.rejects(send(open(), server.url), (error) => egressFailure(error) === "malformed");

    await gone(server.sockets[0]);
  });

  for (const [failure, text] of [
    ["silent_head", ""],
    ["silent_head", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200"],
    ["silent_body", "HTTP/1.1 200 OK\r\n\r\nhal"],
  ] as const)
    test(`that falls silent after ${JSON.stringify(text)} is given up as ${failure}`, async () => {
      const server = await serve((socket) => socket.write(text));

      await assert.rejects(send(open(), server.url, { silenceMs: 50 }), (error) => egressFailure(error) === failure);

      await gone(server.sockets[0]);
    });

  for (const [name, piece] of [
    ["sends interim answers without end", "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"],
    ["drips its head", "x"],
  ] as const)
    test(`that ${name} is given up as silent_head`, async () => {
      let sent = 0;
      const drip = async (socket: Socket): Promise<void> => {
        if (piece === "x") socket.write("HTTP/1.1 200 OK\r\nx-drops: ");
        for (; !socket.destroyed && sent < 1_000; sent++) {
          socket.write(piece);
          await sleep(5);
        }
      };
      const server = await serve((socket) => void drip(socket));

      await assert.rejects(send(open(), server.url, { silenceMs: 60 }), { failure: "silent_head" });

      await gone(server.sockets[0]);
      assert.ok(sent < 1_000, "the server had not done");
    });

  test("is not silent while data comes, and each request has its own silence", async () => {
    const answer = async (socket: Socket, request: string): Promise<void> => {
      if (request.includes("/slow")) await sleep(150);
      socket.write("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n");
      for (let i = 0; i < 10; i++) {
        socket.write(String(i));
        if (request.includes("/drops")) await sleep(20);
      }
    };
    const server = await serve((socket, request) => void answer(socket, request));
    const egress = open();

    const drops = await send(egress, `${server.url}/drops`, { silenceMs: 120 });
    const slow = await send(egress, `${server.url}/slow`, { silenceMs: 5_000 });
    await assert.rejects(send(egress, `${server.url}/slow`, { silenceMs: 40 }), { failure: "silent_head" });

    assert.deepEqual([drops.body, slow.body, server.sockets.length], ["0123456789", "0123456789", 1]);
  });

  test("has received the data that came while this process was blocked, for any time", async () => {
    const server = await serve((socket) => {
      socket.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
      // On one thread neither the timer nor the answer is handled during this loop.
      const until = performance.now() + 150;
      while (performance.now() < until);
    });

    const answer = await send(open(), server.url, { silenceMs: 50 });

    assert.equal(answer.body, "ok");
  });

  test("is not silent when it is paused or reused between check and verdict", async () => {
    const server = await serve((socket) => socket.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\no"));
    const verdicts: (() => void)[] = [];
    const egress = open({ ...systemEnv(), defer: (work) => void verdicts.push(work) });
    const verdict = () => eventually("a verdict that is due", async () => verdicts.pop());
    let control: ResponseControl | null = null;

    const paused = send(egress, server.url, { silenceMs: 30, onHead: (given) => (control = given) });
    const ofPaused = await verdict();
    (control as ResponseControl | null)?.pause();
    ofPaused();
    await sleep(60);
    (control as ResponseControl | null)?.resume();
    const ofFirst = await verdict();
    server.sockets[0]?.write("k");
    assert.equal((await paused).body, "ok");
    const second = send(egress, `${server.url}/second`, { silenceMs: 5_000 });
    ofFirst();
    await sleep(30);
    server.sockets[0]?.write("k");

    assert.equal((await second).body, "ok");
    assert.equal(server.sockets.length, 1);
  });

  test("is not read while it is paused, which is no silence, and continues after that", async () => {
    const size = 32 * 1024 * 1024;
    const server = await serve((socket) => {
      socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${size}\r\n\r\n`);
      socket.write(Buffer.alloc(size, "x"));
    });
    let read = 0;
    let paused = 0;

    const answer = await send(open(), server.url, {
      silenceMs: 60,
      onHead(control) {
        control.pause();
        void sleep(200).then(() => {
          paused = read;
          control.resume();
        });
      },
      onData(bytes) {
        read += bytes.length;
      },
    });

    assert.ok(paused <= 64 * 1024, `${paused} bytes`);
    assert.equal(answer.body.length, size);
  });

  test("that was paused to the end of an answer serves the next", async () => {
    const server = await serve((socket) => socket.write(answerWith("x")));
    const egress = open();

    for (let i = 0; i < 3; i++) await send(egress, server.url, { onHead: (control) => control.pause() });

    assert.equal(server.sockets.length, 1);
  });

  test("ends with an aborted request, which gets no more events", async () => {
    const server = await serve((socket) =>
      socket.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n"),
    );
    const egress = open();
    let told = "";

    for (const at of ["onStart", "onHead"] as const)
      void send(egress, server.url, { [at]: (control: ResponseControl) => control.abort() });
    void send(egress, server.url, {
      onData(bytes, control) {
        told += bytes.toString();
        control.abort();
      },
    });
    await eventually("three connections", async () => server.sockets[2]);
    await Promise.all(server.sockets.map(gone));

    assert.equal(told, "a");
    assert.equal(server.received.filter((request) => request === "").length, 1);
  });

  test("ends with a request that is aborted after its whole answer has arrived", async () => {
    const server = await serve((socket) => socket.write(answerWith("all of it")));
    const egress = open();
    let isOver = false;

    void send(egress, server.url, { onData: (_bytes, control) => control.abort() }).finally(() => {
      isOver = true;
    });
    await eventually("a connection", async () => server.sockets[0]);
    await gone(server.sockets[0]);

    assert.equal(isOver, false);
  });

  test("does not end by an abort after the end: its next request keeps it", async () => {
    const server = await serve((socket, request) => {
      if (!request.includes("/held")) socket.write(answerWith("first"));
      else setTimeout(() => socket.write(answerWith("second")), 50);
    });
    const egress = open();
    let old: ResponseControl | null = null;
    await send(egress, server.url, {
      onStart(control) {
        old = control;
      },
    });

    const held = send(egress, `${server.url}/held`);
    await nextTurn();
    const control = old as unknown as ResponseControl;
    control.pause();
    control.abort();

    assert.equal((await held).body, "second");
    assert.equal(server.sockets.length, 1);
  });

  test("that cannot be made fails with the system's own error", async () => {
    const server = createServer();
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    await new Promise((resolve) => server.close(resolve));

    await assert.rejects(send(open(), `http://127.0.0.1:${port}/`), { code: "ECONNREFUSED" });
  });

  test("that is not made in time is given up", async () => {
    const real = systemEnv();
    let giveUp = (): void => {};
    const egress = new Egress("operator", () => {}, {
      ...real,
      timer(_delayMs, work) {
        giveUp = work;
        return { cancel() {} };
      },
    });
    opened.push(egress);
    const asked = send(egress, "http://never.test/");

    giveUp();

    await assert.rejects(asked, { failure: "no_connection" });
  });

  test("is lost when the egress closes, and none is made then", async () => {
    const server = await serve((socket, request) => void (request.includes("/free") && socket.write(answerWith(""))));
    const egress = open();
    await send(egress, `${server.url}/free`);
    const under = [send(egress, server.url), send(egress, server.url)].map((answer) => assert.rejects(answer, isLost));
    await eventually("two connections", async () => server.sockets[1]);

    await egress.close();
    await Promise.all(under);
    await assert.rejects(send(egress, server.url), isLost);

    await Promise.all(server.sockets.map(gone));
  });

  test("of a thousand requests of many callers has each caller's own answer", async () => {
    const server = await serve((socket, request) => {
      const name = request.split("\r\n\r\n")[1] ?? "";
      const answer = answerWith(name.repeat(1 + (name.length % 3)));
      const at = 1 + (Number(name) % (answer.length - 1));
      socket.write(answer.slice(0, at));
      setImmediate(() => socket.write(answer.slice(at)));
    });
    const egress = open();
    let next = 0;

    const callers = Array.from({ length: 20 }, async () => {
      while (next < 1_000) {
        const name = String(next++);
        const { body } = await send(egress, server.url, { body: name });
        assert.equal(body, name.repeat(1 + (name.length % 3)));
      }
    });
    await Promise.all(callers);

    assert.ok(server.sockets.length <= 20, `${server.sockets.length} connections`);
  });
});

describe("a connection with TLS", () => {
  test("goes only to a host that has the certificate of the name", async () => {
    const secure = createTlsServer(modelTestCertificate);
    const server = await listening(secure, (socket) => socket.write(answerWith("secret".repeat(10_000))));
    const { port } = new URL(server.url);
    const egress = open();

    await assert.rejects(send(egress, `https://model.test:${port}/`), { code: "DEPTH_ZERO_SELF_SIGNED_CERT" });
    setDefaultCACertificates([modelTestCertificate.cert]);
    await assert.rejects(send(egress, `https://other.test:${port}/`), { code: "ERR_TLS_CERT_ALTNAME_INVALID" });
    await assert.rejects(send(egress, `https://127.0.0.1:${port}/`), { code: "ERR_TLS_CERT_ALTNAME_INVALID" });
    const answers = [
      await send(egress, `https://model.test:${port}/`),
      await send(egress, `https://model.test:${port}/`),
    ];

    assert.deepEqual(
      answers.map(({ body }) => body.length),
      [60_000, 60_000],
    );
    assert.equal(server.received.join("").split("POST / HTTP/1.1").length, 3, "nothing was sent to the others");
  });
});
