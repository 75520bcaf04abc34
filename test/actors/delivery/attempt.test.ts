// One delivery attempt over real sockets, at endpoints that answer in every way.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Attempt } from "../../../actors/delivery/attempt.ts";
import { systemEnv } from "../../../bus/env.ts";
import type { EgressPolicy } from "../../../governance/egress/address.ts";
import { Egress } from "../../../governance/egress/egress.ts";
import { eventually } from "../../support/eventually.ts";
import { cleanup } from "../../support/temp.ts";
import { type ReceiverAnswer, webhookReceiver } from "../../support/webhook-receiver.ts";

const atEnd = cleanup();
const receiver = await webhookReceiver(atEnd);
const egresses: Record<EgressPolicy, Egress> = { public: new Egress("public"), operator: new Egress("operator") };
atEnd.after(async () => {
  await Promise.all(Object.values(egresses).map((egress) => egress.close()));
});

function attempt(
  answer: ReceiverAnswer,
  {
    policy = "operator",
    url = receiver.url,
    timeoutMs = 10_000,
  }: { policy?: EgressPolicy; url?: string; timeoutMs?: number } = {},
): Attempt {
  receiver.answer = () => answer;
  const sending = { url, headers: ["content-type", "application/json"], body: '{"a":"ä"}', timeoutMs };
  return new Attempt(systemEnv(), egresses[policy], sending);
}

const allClosed = () => eventually("no connection is open", async () => receiver.connections() === 0);

for (const [answer, failure] of [
  [200, null],
  [204, null],
  [299, null],
  [301, "status 301"],
  [302, "status 302"],
  [307, "status 307"],
  [400, "status 400"],
  [500, "status 500"],
  [503, "status 503"],
  ["reset", "lost"],
  ["junk", "malformed"],
  ["early", null],
] as const)
  test(`HOOK-010 HOOK-013 an endpoint that answers ${answer} ${failure === null ? "has taken it" : "has not"}`, async () => {
    const before = receiver.received.length;

    const made = attempt(answer);
    const outcome = await made.outcome;
    await made.over;

    assert.equal(outcome?.reason ?? null, failure);
    // A redirect is not followed, and the request is not repeated.
    assert.equal(receiver.received.length, before + 1);
    assert.deepEqual([receiver.received[before]?.path, receiver.received[before]?.body], ["/hook", '{"a":"ä"}']);
  });

test("HOOK-010 an endpoint without an answer fails the attempt and is disconnected", async () => {
  const made = attempt("hang", { timeoutMs: 50 });

  assert.equal((await made.outcome)?.reason, "timeout");
  await made.over;
  await allClosed();
});

test("an answer that switches to another protocol fails the attempt", async () => {
  const made = attempt("upgrade", { timeoutMs: 2_000 });

  assert.notEqual(await made.outcome, null);
  await made.over;
  await allClosed();
});

for (const answer of ["slow", "flood"] as const)
  test(`HOOK-013 an answer of 200 with a body that is ${answer} succeeds at once, unread`, async () => {
    const made = attempt(answer, { timeoutMs: answer === "slow" ? 1_000 : 60_000 });

    assert.equal(await made.outcome, null);
    await made.over;
    await allClosed();
  });

test("an address outside the internet is refused before a packet leaves unless private", async () => {
  const before = receiver.received.length;
  const urls = [
    receiver.url,
    receiver.url.replace("127.0.0.1", "localhost"),
    "http://[::1]/",
    "http://0x7f.1/",
    "http://10.0.0.1/",
  ];

  for (const url of urls) assert.equal((await attempt(200, { policy: "public", url }).outcome)?.reason, "blocked", url);

  assert.equal(receiver.received.length, before);
  const metadata = attempt(200, { policy: "operator", url: "http://169.254.169.254/latest" });
  assert.equal((await metadata.outcome)?.reason, "blocked");
});

test("an invalid or unresolvable address is a failure", async () => {
  assert.equal((await attempt(200, { url: "gopher://x/" }).outcome)?.reason, "blocked");
  assert.notEqual(await attempt(200, { url: "http://127.0.0.1:1/" }).outcome, null);
});
