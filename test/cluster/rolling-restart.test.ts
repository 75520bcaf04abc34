// A process of its own: its hosts are processes that a test stops and starts.
// Hosts of neighbouring protocol versions work together, so that a deployment is updated host by host.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { framesUntil, gate, says, startMock, turn } from "../support/chat.ts";
import { hasRedis, hostIdOf, seesHosts, type TestCluster, testCluster, threadsOn } from "../support/cluster.ts";
import { eventually } from "../support/eventually.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type ProcessServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const skip = (await hasRedis()) ? false : "needs a Redis";
/** The version of this release and those after it. */
const [present, next, afterNext] = ["1", "2", "3"];

describe("hosts of different protocol versions", { skip }, () => {
  const atEnd = cleanup();
  const { env: keyEnv, keys } = apiKeys({ one: { tenant_id: "one", scopes: ["*"] } });
  const as = { key: keys.one };
  let mock: MockModel;
  let cluster: TestCluster;
  let old: ProcessServer;
  let fresh: ProcessServer;
  before(async () => {
    const of = (model: string, more: object = {}) => ({ model: { id: model }, ...more });
    const made = await startMock(atEnd, {
      models: ["plain", "slow", "durable"],
      manifests: { plain: of("plain"), slow: of("slow"), durable: of("durable", { execution: { mode: "durable" } }) },
      env: keyEnv,
    });
    mock = made.mock;
    mock.answer("plain", { text: "Blue." });
    mock.answer("durable", { text: "Done." });
    cluster = await testCluster(atEnd, { env: made.env });
    [old, fresh] = await Promise.all([
      cluster.host({ SVC_TEST_PROTOCOL_VERSION: present, SVC_REPLICA_ID: "old" }),
      cluster.host({ SVC_TEST_PROTOCOL_VERSION: next, SVC_REPLICA_ID: "fresh" }),
    ]);
    await Promise.all([seesHosts(old, 2), seesHosts(fresh, 2)]);
  });

  test("turns and streams cross between neighbouring versions in both directions", async () => {
    const ids = await Promise.all([old, fresh].map((each) => hostIdOf(each, keys.one)));
    for (const [asked, other] of [
      [old, ids[1]],
      [fresh, ids[0]],
    ] as const) {
      const thread_id = threadsOn(other ?? "", ids, "one", "mixed").next().value as string;
      const held = gate();
      mock.answer("slow", says("Let me see.", held.opened, " Blue."));
      const stream = await asked.stream("/chat/stream", turn("slow", "go", { thread_id }), as);
      await framesUntil(stream, ({ name }) => name === "text_delta");
      held.open();
      const frames = await stream.rest();

      assert.equal(frames.filter(({ name }) => name === "done").length, 1);
      assert.match(JSON.stringify(frames), /Blue/);
    }
  });

  test("a host two versions ahead is refused with the versions, and disturbs nothing", async () => {
    await assert.rejects(
      cluster.host({ SVC_TEST_PROTOCOL_VERSION: afterNext, SVC_REPLICA_ID: "far" }),
      /the host old runs svc .* speaks version 1 of the protocol between hosts, and this one speaks 3: update/,
    );

    const { items } = (await old.get("/hosts", as)).json as { items: { name: string }[] };
    assert.deepEqual(items.map(({ name }) => name).toSorted(), ["fresh", "old"]);
  });

  test("a rolling restart to the next version under load loses and repeats nothing", async () => {
    // Both begin at the present version, and end at the next one.
    await fresh.restart({ SVC_TEST_PROTOCOL_VERSION: present });
    await Promise.all([seesHosts(old, 2), seesHosts(fresh, 2)]);
    const hosts = [old, fresh];
    let isOver = false;
    let asked = 0;
    /** Sends a request to one host after the other until it is accepted. */
    const send = async (body: object, key: string) => {
      for (let at = asked++; ; at++) {
        const server = hosts[at % hosts.length] as ProcessServer;
        const answer = await server
          .post("/chat", body, { ...as, headers: { "idempotency-key": key } })
          // A host that has closed its port, or has no port yet.
          .catch(() => null);
        if (answer !== null && answer.status < 300) return answer;
        // A request that was repeated while its first execution lasted, or that met the end of a host.
        if (answer !== null) assert.ok([409, 503].includes(answer.status), `${answer.status} ${answer.text}`);
        await pause(50);
      }
    };
    const counts = new Map<string, number>();
    const talk = async (thread_id: string): Promise<void> => {
      for (let n = 0; !isOver; n++) {
        await send(turn("plain", `message ${n}`, { thread_id }), `${thread_id}-${n}`);
        counts.set(thread_id, n + 1);
      }
    };
    const tokens: string[] = [];
    const submit = async (): Promise<void> => {
      for (let n = 0; !isOver; n++) {
        const { json } = await send(turn("durable", "go", { thread_id: `durable-${n}` }), `durable-${n}`);
        tokens.push(json.resume_token);
        await pause(100);
      }
    };
    const load = Promise.all([...Array.from({ length: 4 }, (_, at) => talk(`rolled-${at}`)), submit()]);
    for (const host of hosts) {
      await pause(500);
      await host.restart({ SVC_TEST_PROTOCOL_VERSION: next });
      await Promise.all(hosts.map((each) => seesHosts(each, 2)));
    }
    await pause(500);
    isOver = true;
    await load;

    for (const [thread_id, count] of counts) {
      const { transcript } = (await old.get(`/chat/sessions/${thread_id}`, as)).json as {
        transcript: { kind: string; content: string }[];
      };
      assert.deepEqual(
        transcript.filter(({ kind }) => kind === "message").map(({ content }) => content),
        Array.from({ length: count }, (_, n) => [`message ${n}`, "Blue."]).flat(),
      );
    }
    assert.ok(tokens.length > 3, `${tokens.length} durable runs`);
    for (const token of tokens)
      await eventually("the end of a durable run", async () => {
        const { json } = await fresh.get(`/chat/runs/${token}`, as);
        return json.status === "completed";
      });
  });
});
