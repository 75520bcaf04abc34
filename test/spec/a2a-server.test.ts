// POST /a2a and the agent card: what the A2A protocol demands of a server, through the official client in both versions.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { Role, type Task, TaskState } from "@a2a-js/sdk";
import { Client, ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory } from "@a2a-js/sdk/client";
import { LegacyJsonRpcTransport, parseLegacyAgentCard } from "@a2a-js/sdk/compat/v0_3/client";
import { TaskNotCancelableError, TaskNotFoundError, UnsupportedOperationError } from "@a2a-js/sdk/errors";
import { calls, gate, inTurn, says, shown, startChat, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { png } from "../support/image-bytes.ts";
import { failure } from "../support/mock-model/behaviours.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const { env, keys } = apiKeys({
  alice: { scopes: ["chat:write"] },
  owner: { scopes: ["manifests:write", "manifests:read"] },
  judge: { scopes: ["approvals:write", "approvals:read"] },
  bert: { scopes: ["chat:write"] },
  caller: { scopes: ["chat:write", "agents:call"] },
  poor: { scopes: ["audit:read"] },
  stranger: { tenant_id: "globex", sub: "eve", scopes: ["*"] },
});
type Who = keyof typeof keys;
type Version = "1.0" | "0.3";
const durable = { mode: "durable" };
const sum = calls(["calculator", { expression: "6*7" }]);
const gated = [{ id: "sums", tools: ["calculator"], ttl_seconds: 600, one_shot: true }];

const helper = {
  metadata: { description: "Helps with sums.", version: "2.1.0", tags: ["sums"] },
  spec: {
    model: { id: "plain" },
    tools: ["calculator", "ask_user"],
    a2a: {
      capabilities: [
        { id: "add", description: "Adds numbers.", input_schema_ref: "https://agents.example.com/add.json" },
        { id: "explain" },
      ],
    },
  },
};

const atEnd = cleanup();
let server: TestServer;
let mock: MockModel;
before(async () => {
  ({ server, mock } = await startChat(atEnd, {
    models: ["plain", "tools", "held", "broken"],
    routes: { seeing: { provider: "openai", model: "plain", modalities: ["text", "image"] } },
    manifests: {
      helper,
      tools: { model: { id: "tools" }, tools: ["calculator", "ask_user"] },
      held: { model: { id: "held" } },
      lasting: { model: { id: "held" }, execution: durable },
      seeing: { model: { id: "seeing" } },
      gated: { model: { id: "tools" }, tools: ["calculator"], approvals: gated, execution: durable },
      transient: { model: { id: "tools" }, tools: ["calculator"], approvals: gated },
      withheld: { model: { id: "plain" }, a2a: { publish: false } },
      broken: { model: { id: "broken" } },
      keyed: { model: { id: "plain" }, auth: { inbound: { required_scopes: ["agents:call"] } } },
    },
    env: {
      ...env,
      SVC_DEFAULT_MANIFEST: "helper",
      SVC_GRACEFUL_SHUTDOWN_SECONDS: "0.3",
      SVC_CHAT_SCOPES: "strict",
      SVC_PUBLIC_URL: "https://agents.example.com/svc/",
    },
  }));
  mock.answer("plain", { text: ["The", " answer", "."] });
  mock.answer("tools", inTurn({ text: "Let me see.", ...sum }, { text: "It is 42." }));
});

/** Sends every request to the server of the test, regardless of the address on the card. */
const fetchAs =
  (who: Who): typeof fetch =>
  (input, init) => {
    const { pathname } = new URL(String(input));
    const headers = { ...(init?.headers as object), authorization: `Bearer ${keys[who]}` };
    return fetch(server.url + pathname.replace(/^\/svc/, ""), { ...init, headers });
  };

/** The official client of version 1.0, made from the card. */
function newer(who: Who = "alice"): Promise<Client> {
  const fetchImpl = fetchAs(who);
  const transports = [new JsonRpcTransportFactory({ fetchImpl })];
  return new ClientFactory({ transports, cardResolver: new DefaultAgentCardResolver({ fetchImpl }) }).createFromUrl(
    server.url,
  );
}

/** The official client of version 0.3, made from the card that a client of that version gets. */
async function older(who: Who = "alice"): Promise<Client> {
  const card = parseLegacyAgentCard((await server.get("/.well-known/agent-card.json")).json);
  const endpoint = card.supportedInterfaces[0]?.url ?? "";
  return new Client(new LegacyJsonRpcTransport({ endpoint, fetchImpl: fetchAs(who) }), card);
}
const clientOf = (version: Version, who: Who = "alice") => (version === "1.0" ? newer(who) : older(who));

interface Fields {
  readonly contextId?: string;
  readonly taskId?: string;
  readonly manifest?: string;
  readonly returnImmediately?: boolean;
  readonly historyLength?: number;
}
let messages = 0;
/** The request that sends a text, as the client takes it. */
function said(
  text: string,
  { contextId = "", taskId = "", manifest, returnImmediately = false, historyLength }: Fields = {},
) {
  return {
    tenant: "",
    message: {
      messageId: `m${++messages}`,
      contextId,
      taskId,
      role: Role.ROLE_USER,
      parts: [{ content: { $case: "text" as const, value: text }, metadata: undefined, filename: "", mediaType: "" }],
      metadata: undefined,
      extensions: [],
      referenceTaskIds: [],
    },
    configuration: {
      acceptedOutputModes: [],
      taskPushNotificationConfig: undefined,
      returnImmediately,
      ...(historyLength !== undefined && { historyLength }),
    },
    metadata: manifest === undefined ? undefined : { manifest },
  };
}
async function sent(client: Client, text: string, fields?: Fields): Promise<Task> {
  const result = await client.sendMessage(said(text, fields));
  if (!("status" in result)) throw new Error("the answer is no task");
  return result;
}
const named = (id: string) => ({ tenant: "", id });
const textOf = (task: Task) =>
  task.artifacts
    .flatMap(({ parts }) => parts.map(({ content }) => (content?.$case === "text" ? content.value : "?")))
    .join("|");

/** Sends a call by hand. */
async function rpc(
  method: string,
  params: unknown,
  who: Who = "alice",
  headers: Record<string, string> = {},
  // biome-ignore lint/suspicious/noExplicitAny: looked into field by field
): Promise<any> {
  const { json, status } = await server.post(
    "/a2a",
    { jsonrpc: "2.0", id: 7, method, params },
    { key: keys[who], headers },
  );
  return { status, ...json };
}
const byHand = (text: string, more: object = {}) => ({
  message: { messageId: "m", role: "ROLE_USER", parts: [{ text }], ...more },
});
/** A task that runs until the gate opens. */
async function heldTask(manifest = "held", fields: Fields = {}) {
  const held = gate();
  mock.answer("held", says("Working", held.opened, " and done."));
  const client = await newer();
  const task = await sent(client, "hold", { manifest, returnImmediately: true, ...fields });
  return { client, task, open: held.open };
}
const until = (client: Client, id: string, state: TaskState) =>
  eventually(`${id} as ${TaskState[state]}`, async () => {
    const task = await client.getTask(named(id));
    return task.status?.state === state ? task : undefined;
  });

/** The events of a stream, each as its kind, with the state or the text. */
async function eventsOf(
  stream: AsyncGenerator<import("@a2a-js/sdk").StreamResponse>,
  onFirst: () => void = () => {},
): Promise<string[]> {
  const events: string[] = [];
  for await (const { payload } of stream) {
    onFirst();
    if (payload?.$case === "task") events.push(`task ${TaskState[payload.value.status?.state ?? 0]}`);
    if (payload?.$case === "statusUpdate") events.push(`status ${TaskState[payload.value.status?.state ?? 0]}`);
    if (payload?.$case === "artifactUpdate") {
      const { artifact, append, lastChunk } = payload.value;
      const [part] = artifact?.parts ?? [];
      const text = part?.content?.$case === "text" ? part.content.value : "?";
      events.push(`${append ? "+" : "="}${text}${lastChunk ? "!" : ""}`);
    }
  }
  return events;
}

describe("requirements of both protocol versions", () => {
  const both = ["1.0", "0.3"] as const;
  for (const version of both) {
    test(`A2A-002 ${version} 3.1.1 a sent message is answered with its ended task and text`, async () => {
      const client = await clientOf(version);
      const task = await sent(client, "What is it?");

      assert.match(task.id, /^[0-9a-f]{32}$/);
      assert.match(task.contextId, /^[0-9a-f]{32}$/);
      assert.equal(task.status?.state, TaskState.TASK_STATE_COMPLETED);
      assert.match(String(task.status?.timestamp), /^\d{4}-\d\d-\d\dT[\d:]{8}\.\d{3}Z$/);
      assert.equal(textOf(task), "The answer.");
      assert.deepEqual(
        task.history.map(({ role, contextId, taskId }) => [role, contextId, taskId]),
        [[Role.ROLE_USER, task.contextId, task.id]],
      );
    });

    test(`A2A-002 ${version} 3.1.2 a stream begins with the task, and ends with its last state`, async () => {
      const client = await clientOf(version);
      const [first, ...events] = await eventsOf(client.sendMessageStream(said("go")));
      const last = events.pop();
      assert.deepEqual([first, last], ["task TASK_STATE_WORKING", "status TASK_STATE_COMPLETED"]);
      assert.deepEqual([events[0]?.[0], events[1]?.[0]], ["=", "+"]);
      assert.equal(events.map((each) => each.slice(1)).join(""), "The answer.!");
    });

    test(`A2A-002 ${version} 3.1.2 the text of a later step replaces that of an earlier one`, async () => {
      const client = await clientOf(version);
      const events = await eventsOf(client.sendMessageStream(said("go", { manifest: "tools" })));
      assert.deepEqual(events.slice(1), ["=Let me see.", "=It is 42.", "+!", "status TASK_STATE_COMPLETED"]);
      assert.equal(textOf(await sent(client, "go", { manifest: "tools" })), "It is 42.");
    });

    test(`A2A-002 ${version} 3.1.3 a task can be read, and an unknown one is not found`, async () => {
      const client = await clientOf(version);
      const task = await sent(client, "go");
      assert.deepEqual(await client.getTask(named(task.id)), task);
      for (const id of ["0".repeat(32), "x", `${task.id} `, "../etc", ""])
        await assert.rejects(client.getTask(named(id)), version === "1.0" && id === "" ? Error : TaskNotFoundError);
    });

    test(`A2A-002 ${version} 3.1.5 a cancelled task is canceled, and an ended one cannot be cancelled`, async () => {
      const { task, open } = await heldTask();
      const client = await clientOf(version);
      const cancelled = await client.cancelTask({ ...named(task.id), metadata: undefined });
      open();

      assert.equal(cancelled.status?.state, TaskState.TASK_STATE_CANCELED);
      await assert.rejects(client.cancelTask({ ...named(task.id), metadata: undefined }), TaskNotCancelableError);
      await assert.rejects(client.cancelTask({ ...named("0".repeat(32)), metadata: undefined }), TaskNotFoundError);
    });

    test(`A2A-002 ${version} 3.1.6 a second stream begins with the task's current state`, async () => {
      const { task, open } = await heldTask();
      const client = await clientOf(version);
      const events: string[] = [];
      for await (const { payload } of client.resubscribeTask(named(task.id))) {
        events.push(payload?.$case ?? "");
        if (events.length === 1) open();
      }
      assert.deepEqual([events[0], events.at(-1)], ["task", "statusUpdate"]);
      assert.equal((await client.getTask(named(task.id))).status?.state, TaskState.TASK_STATE_COMPLETED);
    });

    test(`A2A-002 ${version} 3.2.2 a caller that does not wait gets a task in progress`, async () => {
      const { client, task, open } = await heldTask();
      assert.equal(task.status?.state, TaskState.TASK_STATE_WORKING);
      open();
      const ended = await until(client, task.id, TaskState.TASK_STATE_COMPLETED);
      assert.equal(textOf(ended), "Working and done.");
    });

    test(`A2A-002 ${version} 3.2.4 historyLength bounds the messages, and 0 omits them`, async () => {
      const client = await clientOf(version);
      const task = await sent(client, "go", { historyLength: 0 });
      assert.deepEqual(task.history, []);
      assert.equal((await client.getTask({ ...named(task.id), historyLength: 1 })).history.length, 1);
    });

    test(`A2A-002 ${version} 3.4.1 tasks of one context share a thread and keep its contextId`, async () => {
      const client = await clientOf(version);
      const contextId = `talk.${version}`;
      const first = await sent(client, "one", { contextId });
      const second = await sent(client, "two", { contextId });

      assert.deepEqual([first.contextId, second.contextId], [contextId, contextId]);
      assert.notEqual(first.id, second.id);
      const words = shown(mock.requests.at(-1)).map(({ content }) => content);
      assert.deepEqual(words, ["one", "The answer.", "two"]);
      const history = await server.get(`/chat/history/a2a:${contextId}`, { key: keys.alice });
      assert.equal(history.status, 200);
    });

    test(`A2A-002 ${version} 3.4.2 a message to an ended or unknown task is refused`, async () => {
      const client = await clientOf(version);
      const { id } = await sent(client, "go");
      await assert.rejects(sent(client, "more", { taskId: id }), UnsupportedOperationError);
      await assert.rejects(sent(client, "more", { taskId: "0".repeat(32) }), TaskNotFoundError);
    });
  }
});

describe("raw calls", () => {
  /** What the protocol demands of single calls: the method, its params, and the code of the error. */
  const refused: readonly (readonly [must: string, method: string, params: unknown, code: number])[] = [
    ["3.3.4 push configuration is refused, as the card says", "CreateTaskPushNotificationConfig", {}, -32003],
    ["3.3.4 push configuration is refused in 0.3", "tasks/pushNotificationConfig/set", {}, -32003],
    [
      "3.3.4 push configuration in a message is refused",
      "SendMessage",
      { ...byHand("go"), configuration: { taskPushNotificationConfig: { url: "https://x.example" } } },
      -32003,
    ],
    ["9.5 an unknown method is not found", "DoMagic", {}, -32601],
    ["9.5 a method is not found by a name of Object", "constructor", {}, -32601],
    ["9.5 params are an object", "SendMessage", [byHand("go")], -32602],
    ["9.5 a message is required", "SendMessage", {}, -32602],
    ["5.7 parts are required", "SendMessage", byHand("go", { parts: [] }), -32602],
    ["5.7 a messageId is required in 1.0", "SendMessage", byHand("go", { messageId: "" }), -32602],
    ["4.1.4 a caller is a user", "SendMessage", byHand("go", { role: "ROLE_AGENT" }), -32602],
    [
      "4.1.6 a part has one content",
      "SendMessage",
      byHand("", { parts: [{ text: "a", url: "https://x.example" }] }),
      -32602,
    ],
    ["4.1.6 a part has a content", "SendMessage", byHand("", { parts: [{}] }), -32602],
    [
      "3.3.2 files at a URL are not read",
      "SendMessage",
      byHand("", { parts: [{ url: "http://169.254.169.254/" }] }),
      -32602,
    ],
    [
      "3.3.2 files at a URL are not read in 0.3",
      "message/send",
      { message: { role: "user", parts: [{ kind: "file", file: { uri: "file:///etc/passwd" } }] } },
      -32602,
    ],
    [
      "3.3.2 other media types are not supported",
      "SendMessage",
      byHand("", { parts: [{ raw: "JVBERg==", mediaType: "application/pdf" }] }),
      -32005,
    ],
    ["3.3.2 structured data is not supported", "SendMessage", byHand("", { parts: [{ data: { a: 1 } }] }), -32005],
    [
      "3.2.2 an answer of another type cannot be had",
      "SendMessage",
      { ...byHand("go"), configuration: { acceptedOutputModes: ["image/png"] } },
      -32005,
    ],
    ["3.2.4 historyLength is not negative", "GetTask", { id: "0".repeat(32), historyLength: -1 }, -32602],
    ["3.1.3 an id is required", "GetTask", {}, -32602],
    ["3.1.3 a task is not found by an id of another kind", "tasks/get", { id: "../../etc/passwd" }, -32001],
    ["3.4.1 a contextId that cannot be kept is refused", "SendMessage", byHand("go", { contextId: "a:b" }), -32602],
    ["3.4.1 a contextId is no path", "SendMessage", byHand("go", { contextId: "../x" }), -32602],
    ["3.4.1 a long contextId is refused", "SendMessage", byHand("go", { contextId: "c".repeat(129) }), -32602],
    ["3.1.1 a message has a text", "SendMessage", byHand(""), -32602],
    [
      "3.2.5 an unknown manifest is an invalid param in 1.0",
      "SendMessage",
      { ...byHand("go"), metadata: { manifest: "no" } },
      -32602,
    ],
    ["3.2.5 an unknown manifest is -32004 in 0.3", "message/send", { text: "go", manifest: "no" }, -32004],
  ];
  for (const [must, method, params, code] of refused)
    test(`A2A-002 ${must}`, async () => {
      const { status, jsonrpc, id, error, result } = await rpc(method, params);

      assert.deepEqual([status, jsonrpc, id, result], [200, "2.0", 7, undefined]);
      assert.equal(error.code, code, JSON.stringify(error));
      assert.ok(error.message.length > 0);
      for (const detail of error.data ?? []) assert.match(detail["@type"], /^type\.googleapis\.com\/google\.rpc\.\w+$/);
    });

  test("A2A-002 9.5 a malformed call is answered as JSON-RPC, with its id", async () => {
    const post = async (body: unknown) => (await server.post("/a2a", body, { key: keys.alice })).json;
    const call = { jsonrpc: "2.0", id: "x", method: "GetTask", params: { id: "y" } };

    assert.deepEqual([(await post("{")).error.code, (await post("{")).id], [-32700, null]);
    assert.equal((await post('{"a":1,"a":2}')).error.code, -32700);
    for (const body of [[call], 7, null])
      assert.deepEqual([(await post(body)).error.code, (await post(body)).id], [-32600, null]);
    for (const wrong of [{ jsonrpc: "1.0" }, { jsonrpc: undefined }, { method: 7 }, { method: undefined }])
      assert.deepEqual(
        [(await post({ ...call, ...wrong })).error.code, (await post({ ...call, ...wrong })).id],
        [-32600, "x"],
      );
    for (const id of [{}, [], true, "i".repeat(257), undefined])
      assert.deepEqual([(await post({ ...call, id })).error.code, (await post({ ...call, id })).id], [-32600, null]);
    for (const id of [0, -1.5, "", null])
      assert.deepEqual([(await post({ ...call, id })).error.code, (await post({ ...call, id })).id], [-32001, id]);
  });

  test("A2A-002 3.6.2 other versions are refused with -32009, by header and by parameter", async () => {
    const get = (version: string) => rpc("GetTask", { id: "y" }, "alice", { "a2a-version": version });
    for (const version of ["0.2", "1.1", "2.0", "one", "1"])
      assert.equal((await get(version)).error.code, -32009, version);
    for (const version of ["1.0", "1.0.3", "0.3", ""]) assert.equal((await get(version)).error.code, -32001, version);
    const asked = await server.post(
      "/a2a?A2A-Version=9.9",
      { jsonrpc: "2.0", id: 1, method: "GetTask", params: {} },
      { key: keys.alice },
    );
    assert.equal(asked.json.error.code, -32009);
  });

  test("A2A-002 3.4.3 a contextId of another task is refused", async () => {
    const { client, task, open } = await heldTask();
    const { error } = await rpc("SendMessage", byHand("more", { taskId: task.id, contextId: "another" }));
    assert.equal(error.code, -32602);
    open();
    await until(client, task.id, TaskState.TASK_STATE_COMPLETED);
  });

  test("A2A-002 5.7 unknown fields are ignored, and an image reaches the model", async () => {
    const parts = [
      { text: "What is it?", later: true },
      { raw: png().toString("base64"), mediaType: "image/png" },
    ];
    const { result } = await rpc("SendMessage", {
      ...byHand("", { parts, extensions: [] }),
      tenant: "x",
      metadata: { manifest: "seeing", other: 1 },
    });
    assert.equal(result.task.status.state, "TASK_STATE_COMPLETED");
    assert.match(JSON.stringify(mock.requests.at(-1)?.body.messages), /data:image\/png;base64/);
  });

  test("A2A-002 0.3 accepts a bare text and older names of parts, taskId and manifest", async () => {
    const bare = await rpc("message/send", { text: "go", manifest: "tools" });
    assert.deepEqual(
      [bare.result.kind, bare.result.status.state, bare.result.metadata],
      ["task", "completed", { manifest: "tools" }],
    );
    assert.deepEqual(bare.result.artifacts[0].parts, [{ kind: "text", text: "It is 42." }]);
    const named = await rpc("message/send", { message: { parts: [{ content: "go" }] } });
    assert.equal(named.result.status.state, "completed");
    assert.equal((await rpc("tasks/get", { taskId: named.result.id })).result.id, named.result.id);
  });
});

describe("authorization", () => {
  test("A2A-002 3.3.2 credentials are required (401 with challenge), and the scope (403)", async () => {
    const call = { jsonrpc: "2.0", id: 1, method: "GetTask", params: { id: "x" } };
    const nobody = await server.post("/a2a", call);
    assert.deepEqual([nobody.status, nobody.json.error], [401, "unauthorized"]);
    assert.match(String(nobody.headers["www-authenticate"]), /^Bearer/);
    assert.equal((await server.post("/a2a", call, { key: keys.poor })).status, 403);
  });

  test("A2A-002 a manifest that requires a scope refuses in the form of the call", async () => {
    const newer = await rpc("SendMessage", { ...byHand("go"), metadata: { manifest: "keyed" } });
    assert.deepEqual([newer.status, newer.error.code], [403, -32000]);
    const older = await rpc("message/send", { text: "go", manifest: "keyed" });
    assert.deepEqual([older.status, older.error.code], [200, -32001]);
  });

  test("A2A-002 3.1.4 a caller lists its own tasks, the last changed first, in pages", async () => {
    const params = (more: object = {}) => ({ contextId: "listed", ...more });
    const list = async (more?: object, who: Who = "alice") => (await rpc("ListTasks", params(more), who)).result;
    const client = await newer();
    const ids: string[] = [];
    for (let at = 0; at < 3; at++) ids.unshift((await sent(client, `task ${at}`, { contextId: "listed" })).id);

    const first = await list({ pageSize: 2 });
    const second = await list({
      pageSize: 2,
      pageToken: first.nextPageToken,
      includeArtifacts: true,
      historyLength: 1,
    });

    const named = ({ tasks }: { tasks: { id: string }[] }) => tasks.map(({ id }) => id);
    assert.deepEqual([named(first), named(second)], [ids.slice(0, 2), ids.slice(2)]);
    assert.deepEqual([first.totalSize, first.pageSize, second.nextPageToken], [3, 2, ""]);
    assert.deepEqual(
      [first.tasks[0].artifacts, first.tasks[0].history, first.tasks[0].status.state],
      [undefined, undefined, "TASK_STATE_COMPLETED"],
    );
    assert.deepEqual(
      [second.tasks[0].artifacts[0].parts, second.tasks[0].history[0].parts],
      [[{ text: "The answer." }], [{ text: "task 0" }]],
    );
    for (const who of ["bert", "stranger"] as const) assert.deepEqual((await list({}, who)).tasks, []);
    assert.equal((await list({ status: "TASK_STATE_FAILED" })).totalSize, 0);
    assert.equal((await list({ status: "TASK_STATE_COMPLETED" })).totalSize, 3);
    assert.deepEqual((await list({ statusTimestampAfter: "2100-01-01T00:00:00Z" })).tasks, []);
  });

  test("A2A-002 3.1.4 a list names tasks that work and that wait, and refuses wrong params", async () => {
    const { open, task } = await heldTask("held", { contextId: "busy" });
    const ofState = async (status: string) =>
      (await rpc("ListTasks", { contextId: "busy", status })).result.tasks.map(({ id }: { id: string }) => id);

    assert.deepEqual([await ofState("TASK_STATE_WORKING"), await ofState("TASK_STATE_COMPLETED")], [[task.id], []]);
    open();
    for (const params of [{ pageSize: 101 }, { pageSize: 0 }, { pageToken: "x" }, { statusTimestampAfter: "soon" }])
      assert.equal((await rpc("ListTasks", params)).error.code, -32602, JSON.stringify(params));
  });

  test("A2A-002 a caller that the manifest refuses reads, streams and cancels no task of it", async () => {
    const task = await sent(await newer("caller"), "hi", { manifest: "keyed" });

    for (const method of ["GetTask", "CancelTask", "SubscribeToTask"] as const) {
      const { status, error } = await rpc(method, { id: task.id });
      assert.deepEqual([status, error.code], [403, -32000], method);
    }
    assert.equal((await rpc("GetTask", { id: task.id }, "caller")).result.id, task.id);
  });

  test("A2A-002 13.1 another tenant's task and context are answered as unknown", async () => {
    const { client, task, open } = await heldTask("held", { contextId: "shared" });
    const theirs = await newer("stranger");

    await assert.rejects(theirs.getTask(named(task.id)), TaskNotFoundError);
    await assert.rejects(theirs.cancelTask({ ...named(task.id), metadata: undefined }), TaskNotFoundError);
    await assert.rejects(eventsOf(theirs.resubscribeTask(named(task.id))), TaskNotFoundError);
    await assert.rejects(sent(theirs, "more", { taskId: task.id }), TaskNotFoundError);
    const own = await sent(theirs, "mine", { contextId: "shared" });
    assert.deepEqual(
      shown(mock.requests.at(-1)).map(({ content }) => content),
      ["mine"],
    );
    await assert.rejects(client.getTask(named(own.id)), TaskNotFoundError);
    open();
    await until(client, task.id, TaskState.TASK_STATE_COMPLETED);
  });

  test("A2A-002 a run of another protocol is no task, and its thread no context", async () => {
    const { json } = await server.post("/chat", turn("lasting", "go", { thread_id: "own" }), { key: keys.alice });
    await assert.rejects((await newer()).getTask(named(json.resume_token)), TaskNotFoundError);
    const contexts = await sent(await newer(), "go", { contextId: "own" });
    assert.equal(contexts.history.length, 1);
    const steered = await server.post("/chat/steer", { thread_id: "a2a:own", text: "hi" }, { key: keys.alice });
    assert.deepEqual([steered.status, steered.json.error], [400, "invalid_thread_id"]);
    const spoken = await server.post("/chat", turn("helper", "go", { thread_id: "a2a:own" }), { key: keys.alice });
    assert.equal(spoken.status, 400);
  });
});

describe("tasks that wait, fail and survive", () => {
  test("A2A-002 a message to a running task is a follow-up, which the same task answers", async () => {
    const { client, task, open } = await heldTask();
    const more = sent(client, "And then?", { taskId: task.id });
    await eventually("the follow-up is queued", async () => {
      const { json } = await server.get(`/chat/sessions/a2a:${task.contextId}`, { key: keys.alice });
      return json.queuedFollowUpCount === 1 ? json : undefined;
    });
    mock.answer("held", { text: "Then nothing." });
    open();
    const ended = await more;

    assert.deepEqual([ended.id, ended.status?.state], [task.id, TaskState.TASK_STATE_COMPLETED]);
    assert.equal(textOf(ended), "Then nothing.");
    assert.equal(ended.history.length, 2);
  });

  test("A2A-002 a follow-up through too many agents is refused as a new task is", async () => {
    const { client, task, open } = await heldTask();
    const message = { ...byHand("more", { taskId: task.id }), configuration: { returnImmediately: true } };
    const body = { jsonrpc: "2.0", id: 1, method: "SendMessage", params: message };
    const { json } = await server.post("/a2a", body, {
      key: keys.alice,
      headers: { "a2a-version": "1.0", "x-svc-hops": "100" },
    });

    assert.equal(json.error.data[0].metadata.code, "peer_hop_limit");
    await client.cancelTask({ ...named(task.id), metadata: undefined });
    open();
  });

  test("A2A-002 a full queue is refused with a retryable code", async () => {
    const { client, task, open } = await heldTask();
    const more = (text: string) =>
      rpc("SendMessage", { ...byHand(text, { taskId: task.id }), configuration: { returnImmediately: true } });
    for (let n = 0; n < 64; n++) assert.equal((await more(`m${n}`)).result.task.id, task.id);
    const full = await more("one too many");

    assert.deepEqual([full.status, full.error.code, full.error.data[0].metadata.code], [409, -32603, "queue_full"]);
    await client.cancelTask({ ...named(task.id), metadata: undefined });
    open();
  });

  test("A2A-002 7.6.1 a durable task that needs an approval is auth-required, with reason", async () => {
    for (const version of ["1.0", "0.3"] as const) {
      const client = await clientOf(version);
      const task = await sent(client, "go", { manifest: "gated" });

      assert.equal(task.status?.state, TaskState.TASK_STATE_AUTH_REQUIRED);
      assert.match(JSON.stringify(task.status?.message), /calculator/);
      await assert.rejects(sent(client, "yes", { taskId: task.id }), UnsupportedOperationError);
      const waiting = await server.get(`/approvals?thread_id=a2a:${task.contextId}`, { key: keys.judge });
      const subscribed = Promise.withResolvers<void>();
      const events = eventsOf(client.resubscribeTask(named(task.id)), subscribed.resolve);
      await subscribed.promise;
      const [{ approval_id }] = waiting.json.items;
      const decided = await server.post(
        `/approvals/${approval_id}/decide`,
        { decision: "approved" },
        { key: keys.judge },
      );
      assert.equal(decided.status, 200);
      const told = await events;
      assert.deepEqual([told[0], told.at(-1)], ["task TASK_STATE_AUTH_REQUIRED", "status TASK_STATE_COMPLETED"]);
      assert.equal(textOf(await client.getTask(named(task.id))), "It is 42.");
    }
  });

  test("A2A-002 a durable task streams from its start, and is cancellable when suspended", async () => {
    const client = await newer();
    const stream = client.sendMessageStream(said("go", { manifest: "gated" }));
    let id = "";
    for await (const { payload } of stream) {
      if (payload?.$case === "task") id = payload.value.id;
      if (payload?.$case === "statusUpdate" && payload.value.status?.state === TaskState.TASK_STATE_AUTH_REQUIRED)
        break;
    }
    const cancelled = await client.cancelTask({ ...named(id), metadata: undefined });
    assert.equal(cancelled.status?.state, TaskState.TASK_STATE_CANCELED);
  });

  test("A2A-002 a transient task is denied gated calls, and its ask_user is cancelled", async () => {
    await sent(await newer(), "go", { manifest: "transient" });
    assert.match(JSON.stringify(mock.requests.at(-1)?.body.messages), /unattended|approval/);
    mock.answer("tools", inTurn(calls(["ask_user", { question: "Which?" }]), { text: "Nobody." }));
    await sent(await newer(), "go", { manifest: "tools" });
    assert.match(JSON.stringify(mock.requests.at(-1)?.body.messages), /no_one_watching/);
    mock.answer("tools", inTurn({ text: "Let me see.", ...sum }, { text: "It is 42." }));
  });

  test("A2A-002 a failed model fails the task, with a message", async () => {
    mock.answer("broken", failure(400));
    const task = await sent(await newer(), "go", { manifest: "broken" });
    assert.equal(task.status?.state, TaskState.TASK_STATE_FAILED);
    assert.ok(task.status?.message);
    const events = await eventsOf((await newer()).sendMessageStream(said("go", { manifest: "broken" })));
    assert.equal(events.at(-1), "status TASK_STATE_FAILED");
  });

  test("A2A-002 a task that is cancelled mid-stream ends the stream with canceled", async () => {
    const held = gate();
    mock.answer("held", says("Working", held.opened));
    const client = await newer();
    const events: string[] = [];
    for await (const { payload } of client.sendMessageStream(said("go", { manifest: "held" }))) {
      events.push(payload?.$case ?? "");
      if (payload?.$case === "task") events.push(payload.value.id);
      if (payload?.$case === "artifactUpdate" && events.length === 3)
        await client.cancelTask({ ...named(events[1] ?? ""), metadata: undefined });
      if (payload?.$case === "statusUpdate") events.push(String(TaskState[payload.value.status?.state ?? 0]));
    }
    held.open();
    assert.equal(events.at(-1), "TASK_STATE_CANCELED");
  });

  test("A2A-002 3.5.2 a caller that leaves its stream does not end the task", async () => {
    const held = gate();
    mock.answer("held", says("Working", held.opened, " and done."));
    const client = await newer();
    let id = "";
    for await (const { payload } of client.sendMessageStream(said("go", { manifest: "held" }))) {
      if (payload?.$case === "task") id = payload.value.id;
      if (payload?.$case === "artifactUpdate") break;
    }
    held.open();
    assert.equal(textOf(await until(client, id, TaskState.TASK_STATE_COMPLETED)), "Working and done.");
  });

  test("A2A-002 a restart before a read fails a transient task; a durable one continues", async () => {
    const held = gate();
    mock.answer("held", says("Working", held.opened, " and done."));
    const client = await newer();
    const lost = await sent(client, "hold", { manifest: "held", returnImmediately: true });
    const kept = await sent(client, "hold", { manifest: "lasting", returnImmediately: true });
    await server.restart();
    held.open();

    const again = await newer();
    assert.equal(textOf(await until(again, kept.id, TaskState.TASK_STATE_COMPLETED)), "Working and done.");
    const gone = await again.getTask(named(lost.id));
    assert.deepEqual(
      [gone.id, gone.contextId, gone.status?.state],
      [lost.id, lost.contextId, TaskState.TASK_STATE_FAILED],
    );
  });
});

test("A2A-002 an ended task cannot be subscribed to in 1.0, and is a whole stream in 0.3", async () => {
  const client = await newer();
  const { id } = await sent(client, "go");
  await assert.rejects(eventsOf(client.resubscribeTask(named(id))), UnsupportedOperationError);
  assert.deepEqual(await eventsOf((await older()).resubscribeTask(named(id))), [
    "task TASK_STATE_COMPLETED",
    "status TASK_STATE_COMPLETED",
  ]);
});

test("A2A-002 a second task in a context with a running one is refused with -32004", async () => {
  const { client, task, open } = await heldTask();
  await assert.rejects(sent(client, "more", { contextId: task.contextId }), UnsupportedOperationError);
  open();
  await until(client, task.id, TaskState.TASK_STATE_COMPLETED);
  await sent(client, "more", { contextId: task.contextId });
});

describe("the agent card", () => {
  const card = async (headers: Record<string, string> = {}) => server.get("/.well-known/agent-card.json", { headers });

  test("A2A-001 it describes SVC_DEFAULT_MANIFEST without credentials, as version 0.3", async () => {
    const { status, json, headers } = await card();

    assert.equal(status, 200);
    assert.deepEqual(
      [json.name, json.description, json.version, json.url, json.protocolVersion, json.preferredTransport],
      ["helper", "Helps with sums.", "2.1.0", "https://agents.example.com/svc/a2a", "0.3.0", "JSONRPC"],
    );
    assert.deepEqual([json.capabilities.streaming, json.capabilities.pushNotifications], [true, false]);
    assert.deepEqual(json.security, [{ bearer: [] }, { key: [] }]);
    assert.match(String(headers["cache-control"]), /^max-age=\d+$/);
    assert.equal((await card({ "if-none-match": String(headers.etag) })).status, 304);
  });

  test("A2A-001 a client of version 1.0 gets its fields, with both interfaces", async () => {
    const { json } = await card({ "a2a-version": "1.0" });

    assert.deepEqual(json.supportedInterfaces, [
      { url: "https://agents.example.com/svc/a2a", protocolBinding: "JSONRPC", protocolVersion: "1.0" },
      { url: "https://agents.example.com/svc/a2a", protocolBinding: "JSONRPC", protocolVersion: "0.3" },
    ]);
    assert.deepEqual(json.capabilities, { streaming: true, pushNotifications: false, extendedAgentCard: true });
    assert.deepEqual(json.securitySchemes.bearer, { httpAuthSecurityScheme: { scheme: "bearer" } });
    for (const name of ["name", "description", "version", "defaultInputModes", "defaultOutputModes", "skills"])
      assert.ok(json[name].length > 0, name);
    assert.equal("url" in json, false);
  });

  test("A2A-004 spec.a2a.capabilities are its skills, by default the manifest", async () => {
    const { skills } = (await card()).json;
    assert.deepEqual(skills, [
      {
        id: "add",
        name: "add",
        description: "Adds numbers.",
        tags: ["sums"],
        inputSchemaRef: "https://agents.example.com/add.json",
      },
      { id: "explain", name: "explain", description: "explain", tags: ["sums"] },
    ]);
    const { result } = await rpc("GetExtendedAgentCard", { manifest: "held" });
    assert.deepEqual(result.skills, [{ id: "held", name: "held", description: "held", tags: ["held"] }]);
  });

  test("A2A-003 publish false withholds the card, and the agent is still callable", async () => {
    const hidden = { ...helper, spec: { ...helper.spec, a2a: { publish: false } } };
    const { status } = await server.request("PUT", "/manifests/hidden", {
      key: keys.owner,
      body: { manifest: { metadata: { name: "hidden" }, spec: hidden.spec } },
    });
    assert.equal(status, 200);

    const { error } = await rpc("GetExtendedAgentCard", { manifest: "hidden" });
    assert.equal(error.code, -32007);
    assert.equal(textOf(await sent(await newer(), "go", { manifest: "hidden" })), "The answer.");
    await server.restart({ SVC_DEFAULT_MANIFEST: "withheld" });
    assert.deepEqual([(await card()).status, (await card()).json.error], [404, "not_found"]);
    await server.restart({ SVC_DEFAULT_MANIFEST: "nothing" });
    assert.equal((await card()).status, 404);
    await server.restart({ SVC_DEFAULT_MANIFEST: "helper" });
  });

  test("A2A-001 a manifest that a tenant stored is on no card without credentials", async () => {
    const own = { metadata: { name: "helper", description: "Secret of acme." }, spec: helper.spec };
    assert.equal(
      (await server.request("PUT", "/manifests/helper", { key: keys.owner, body: { manifest: own } })).status,
      200,
    );

    assert.equal((await card()).json.description, "Helps with sums.");
    const { result } = await rpc("agent/getAuthenticatedExtendedCard", {});
    assert.equal(result.description, "Secret of acme.");
    assert.equal((await rpc("GetExtendedAgentCard", {}, "stranger")).result.description, "Helps with sums.");
  });
});
