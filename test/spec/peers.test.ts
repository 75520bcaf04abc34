// spec.peers: an agent asks external agents over A2A: another server of svc, the server of the official SDK, and hostile ones.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { type AgentCard, TaskState } from "@a2a-js/sdk";
import { LegacyJsonRpcTransportHandler } from "@a2a-js/sdk/compat/v0_3/server";
import {
  AgentEvent,
  type AgentExecutor,
  DefaultRequestHandler,
  InMemoryTaskStore,
  JsonRpcTransportHandler,
  ServerCallContext,
} from "@a2a-js/sdk/server";
import { calls, gate, inTurn, says, startChat, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { png } from "../support/image-bytes.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";
import { startWebSite, type WebSite } from "../support/web-site.ts";

const { env, keys } = apiKeys({ alice: { scopes: ["*"] } });
const theirs = apiKeys({ caller: { tenant_id: "globex", sub: "acme-agent", scopes: ["chat:write"] } });
const auth = theirs.keys.caller;
const peer = (path: string, fields: object = {}) => ({
  peers: [{ name: "them", url: `http://peer.example${path}`, ...fields }],
});
const site = (path: string, fields: object = {}) => ({
  peers: [{ name: "them", url: `http://site.example${path}`, ...fields }],
});

describe("peers", () => {
  const atEnd = cleanup();
  let pages: WebSite;
  let server: TestServer;
  let mock: MockModel;
  let far: { server: TestServer; mock: MockModel };
  before(async () => {
    far = await startChat(atEnd, {
      models: ["plain", "slow"],
      manifests: {
        helper: { model: { id: "plain" } },
        slow: { model: { id: "slow" } },
        closed: { model: { id: "plain" }, limits: { max_peer_hops: 0 } },
        relay: {
          model: { id: "plain" },
          peers: [{ name: "on", url: "https://nobody.example/a2a" }],
          limits: { max_peer_hops: 1 },
        },
      },
      env: { ...theirs.env, SVC_DEFAULT_MANIFEST: "helper", SVC_CHAT_SCOPES: "strict" },
    });
    far.mock.answer("plain", { text: "Forty-two." });
    pages = await startWebSite(atEnd);
    const farAt = new URL(far.server.url);
    ({ server, mock } = await startChat(atEnd, {
      models: ["scripted"],
      manifests: {
        agent: peer("/a2a", { auth: "secret:PEER" }),
        listed: { ...peer("/a2a", { auth }), network: { allow_hosts: ["peer.example"] } },
        elsewhere: { ...peer("/a2a"), network: { allow_hosts: ["peer.example", "other.example"] } },
        slow: peer("/a2a", { auth, timeout_ms: 700 }),
        nobody: peer("/a2a"),
        unset: peer("/a2a", { auth: "secret:NOTHING" }),
        last: { ...peer("/a2a", { auth }), limits: { max_peer_hops: 0 } },
        newer: site("/newer"),
        older: site("/older"),
        hostile: site("/hostile", { timeout_ms: 1000 }),
        loopback: { peers: [{ name: "them", url: "http://127.0.0.1:1/a2a" }] },
      },
      env: {
        ...env,
        SVC_SECRET_PEER: auth,
        SVC_TEST_RESOLVE: JSON.stringify({ "peer.example": farAt.host, "site.example": `127.0.0.1:${pages.port}` }),
      },
    }));
    // The test server knows the name by which it is asked.
    await far.server.restart({ SVC_ALLOWED_HOSTS: "peer.example,127.0.0.1", SVC_PORT: farAt.port });
  });

  /** Runs a turn whose model asks the peer, and returns the result that the model reads. */
  async function asked(
    manifest: string,
    args: object = { message: "What is it?" },
    tool = "peer__them",
  ): Promise<string> {
    mock.answer("scripted", ({ body }) => {
      const hasAsked = (body.messages as { role: string }[]).some(({ role }) => role === "tool");
      return hasAsked ? { text: "Thank you." } : calls([tool, args]);
    });
    const { status, json } = await server.post("/chat", turn(manifest, "go"), { key: keys.alice });
    assert.equal(status, 200, JSON.stringify(json));
    const messages = mock.requests.at(-1)?.body.messages as { role: string; content: string }[];
    return messages.findLast(({ role }) => role === "tool")?.content ?? "";
  }
  const toolOf = () => {
    const tools = (mock.requests.at(-1)?.body.tools ?? []) as {
      function: { name: string; parameters: { properties: object } };
    }[];
    return tools.find((each) => each.function.name === "peer__them")?.function;
  };

  test("DEL-001 the tool peer__{name} sends a message to the peer with its credential, and returns the answer", async () => {
    assert.equal(await asked("agent"), "Forty-two.");
    const told = (far.mock.requests.at(-1)?.body.messages ?? []) as { content: string }[];
    assert.equal(told.at(-1)?.content, "What is it?");
    assert.match(await asked("nobody"), /permission_denied.*401/);
    assert.match(await asked("unset"), /permission_denied.*credential for them is not set/);
  });

  test("GOV-006 manifest names another agent of the peer; with allow_hosts the tool has no such argument", async () => {
    assert.match(await asked("agent", { message: "go", manifest: "nothing" }), /provider_error.*-32602/);
    assert.deepEqual(Object.keys(toolOf()?.parameters.properties ?? {}), ["message", "manifest"]);
    assert.equal(await asked("listed"), "Forty-two.");
    assert.deepEqual(Object.keys(toolOf()?.parameters.properties ?? {}), ["message"]);
    assert.match(await asked("listed", { message: "go", manifest: "helper" }), /invalid_arguments/);
  });

  test("DEL-001 a chain beyond max_peer_hops is denied: by the caller, by the peer, and by a peer of the peer", async () => {
    assert.match(await asked("last"), /permission_denied.*peer_hop_limit/);
    assert.match(await asked("agent", { message: "go", manifest: "closed" }), /permission_denied.*-32000/);

    far.mock.answer("plain", inTurn(calls(["peer__on", { message: "Go on." }]), { text: "No further." }));
    assert.equal(await asked("agent", { message: "go", manifest: "relay" }), "No further.");
    assert.match(JSON.stringify(far.mock.requests.at(-1)?.body.messages), /peer_hop_limit/);
    far.mock.answer("plain", { text: "Forty-two." });
  });

  test("DEL-001 X-Svc-Hops is counted on, and another text than a number is refused", async () => {
    const call = (hops: string) =>
      far.server.post(
        "/a2a",
        { jsonrpc: "2.0", id: 1, method: "message/send", params: { text: "go" } },
        { key: auth, headers: { "x-svc-hops": hops, host: "peer.example" } },
      );
    assert.equal((await call("5")).json.result.status.state, "completed");
    const beyond = await call("6");
    assert.deepEqual(
      [beyond.status, beyond.json.error.code, beyond.json.error.data[0].metadata.code],
      [403, -32000, "peer_hop_limit"],
    );
    for (const odd of ["-1", "1.5", "many", "9".repeat(20)])
      assert.equal((await call(odd)).json.error.code, -32602, odd);
  });

  test("DEL-001 a call that takes too long is given up, and the task of the peer is cancelled", async () => {
    const held = gate();
    far.mock.answer("slow", says("Working", held.opened));
    const call = asked("slow", { message: "go", manifest: "slow" });
    await eventually("the model of the peer works", async () =>
      far.mock.requests.find(({ body }) => body.model === "slow"),
    );
    // A host keeps idle connections to a model, and closes the connection of an aborted call.
    const { connections } = far.mock;
    assert.match(await call, /timeout.*700 ms/);
    await eventually("the peer has left its model", async () => far.mock.connections < connections || undefined);
    held.open();
  });

  test("DEL-001 an address in a private network is not reached", async () => {
    assert.match(await asked("loopback"), /permission_denied.*egress_blocked/);
  });

  describe("the server of the official SDK", () => {
    const card = {
      name: "sdk",
      capabilities: { streaming: false },
      supportedInterfaces: [],
      skills: [],
    } as unknown as AgentCard;
    const text = (value: string) => ({
      content: { $case: "text" as const, value },
      metadata: undefined,
      filename: "",
      mediaType: "",
    });
    const executor: AgentExecutor = {
      async execute({ taskId, contextId, userMessage }, bus) {
        const [part] = userMessage.parts;
        const said = part?.content?.$case === "text" ? part.content.value : "";
        const status = (state: TaskState) => ({ state, message: undefined, timestamp: undefined });
        const metadata = undefined;
        bus.publish(
          AgentEvent.task({
            id: taskId,
            contextId,
            status: status(TaskState.TASK_STATE_WORKING),
            artifacts: [],
            history: [userMessage],
            metadata,
          }),
        );
        await new Promise((resolve) => setTimeout(resolve, 50));
        const artifact = {
          ...{ artifactId: "a", name: "a", description: "", extensions: [], metadata },
          parts: [
            text(`You said ${said}`),
            { ...text(""), content: { $case: "raw" as const, value: png() }, mediaType: "image/png" },
          ],
        };
        bus.publish(
          AgentEvent.artifactUpdate({ taskId, contextId, artifact, append: false, lastChunk: true, metadata }),
        );
        bus.publish(
          AgentEvent.statusUpdate({ taskId, contextId, status: status(TaskState.TASK_STATE_COMPLETED), metadata }),
        );
        bus.finished();
      },
      cancelTask: () => Promise.resolve(),
    };
    before(() => {
      const handler = new DefaultRequestHandler(card, new InMemoryTaskStore(), executor);
      const newer = new JsonRpcTransportHandler(handler);
      const older = new LegacyJsonRpcTransportHandler(handler);
      for (const [path, handle] of [
        ["/newer", newer],
        ["/older", older],
      ] as const)
        pages.on(path, (_, response, body) => {
          response.setHeader("content-type", "application/json");
          void handle.handle(body, new ServerCallContext()).then((answer) => response.end(JSON.stringify(answer)));
        });
    });

    for (const [manifest, methods] of [
      ["newer", ["SendMessage", "GetTask"]],
      ["older", ["SendMessage", "message/send", "tasks/get"]],
    ] as const)
      test(`DEL-001 ${manifest}: a task is read until it has ended, and its image is passed on`, async () => {
        const before = pages.requests.length;
        const result = await asked(manifest, { message: "hello" });
        assert.match(result, /^You said hello/);
        const sent = pages.requests.slice(before).map(({ body }) => JSON.parse(body));
        assert.deepEqual([...new Set(sent.map(({ method }) => method))], [...methods]);
        assert.deepEqual([...new Set(pages.requests.slice(before).map(({ headers }) => headers["x-svc-hops"]))], ["1"]);
        const ids = sent.flatMap(({ params }) => params.message?.messageId ?? []);
        assert.equal(new Set(ids).size, 1);
      });
  });

  const huge = "x".repeat(5 * 1024 * 1024);
  const answers: readonly (readonly [what: string, status: number, body: string, shows: RegExp])[] = [
    ["no JSON", 200, "<html>", /provider_error.*not of the A2A protocol/],
    ["a list", 200, "[]", /provider_error/],
    ["null", 200, '{"jsonrpc":"2.0","id":1,"result":null}', /provider_error/],
    ["a task without an id", 200, '{"result":{"task":{"status":{"state":"working"}}}}', /provider_error/],
    [
      "a task of an unknown state",
      200,
      '{"result":{"task":{"id":"t","status":{"state":7}}}}',
      /provider_error.*failed/,
    ],
    [
      "parts that are none",
      200,
      '{"result":{"message":{"parts":[null,7,{"text":"so"},{"url":"http://x"}]}}}',
      /so\n\[a part/,
    ],
    [
      "a refusal",
      200,
      '{"result":{"task":{"id":"t","status":{"state":"rejected","message":{"parts":[{"text":"no"}]}}}}}',
      /permission_denied.*refused: no/,
    ],
    [
      "a question",
      200,
      '{"result":{"task":{"id":"t","status":{"state":"input-required"}}}}',
      /provider_error.*asks for more/,
    ],
    ["an error", 200, '{"error":{"code":-32603,"message":"boom"}}', /provider_error.*-32603: boom/],
    ["an error that is none", 200, '{"error":7}', /provider_error/],
    ["a limit", 429, "{}", /rate_limited/],
    ["a failure", 500, "broken", /provider_error.*500/],
    ["too much", 200, JSON.stringify({ result: { message: { parts: [{ text: huge }] } } }), /longer than/],
    [
      "a task that never ends",
      200,
      '{"result":{"task":{"id":"t","status":{"state":"TASK_STATE_WORKING"}}}}',
      /timeout/,
    ],
  ];
  for (const [what, status, body, shows] of answers)
    test(`DEL-001 a peer that answers ${what} is a tool error or a text, and nothing else`, async () => {
      pages.on("/hostile", (_, response) =>
        response.writeHead(status, { "content-type": "application/json" }).end(body),
      );
      assert.match(await asked("hostile"), shows);
    });

  test("DEL-001 a task that is given up is cancelled", async () => {
    const body = '{"result":{"task":{"id":"t7","status":{"state":"TASK_STATE_WORKING"}}}}';
    pages.on("/hostile", (_, response) => response.setHeader("content-type", "application/json").end(body));
    await asked("hostile");
    const last = JSON.parse(pages.requests.at(-1)?.body ?? "{}");
    assert.deepEqual([last.method, last.params], ["CancelTask", { id: "t7" }]);
  });

  test("DEL-001 a task that asks for more is cancelled, because its call has failed", async () => {
    const body = '{"result":{"task":{"id":"t8","status":{"state":"TASK_STATE_INPUT_REQUIRED"}}}}';
    pages.on("/hostile", (_, response) => response.setHeader("content-type", "application/json").end(body));
    assert.match(await asked("hostile"), /asks for more/);
    const last = JSON.parse(pages.requests.at(-1)?.body ?? "{}");
    assert.deepEqual([last.method, last.params], ["CancelTask", { id: "t8" }]);
  });

  test("DEL-001 a redirect of a peer is not followed", async () => {
    pages.on("/hostile", (_, response) => response.writeHead(307, { location: "http://peer.example/a2a" }).end());
    assert.match(await asked("hostile"), /permission_denied.*egress_blocked/);
  });
});
