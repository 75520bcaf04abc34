import assert from "node:assert/strict";
import { globSync } from "node:fs";
import { before, describe, test } from "node:test";
import packageFile from "../../package.json" with { type: "json" };
import { calls, inTurn, never, says, shown, startChat } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { gif, jpeg, png, webp } from "../support/image-bytes.ts";
import { connectMcp, generations, messageOf, sendRpc } from "../support/mcp.ts";
import { failure } from "../support/mock-model/behaviours.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const { version } = packageFile;
const echo = { name: "echo_screen", description: "Shows a text.", args_schema: { type: "object", properties: {} } };

const manifests = {
  agent: { tools: ["calculator", "draw", "forge", "wait", "test_tool_with_progress", "test_error_handling"] },
  // Tools that need a conversation or a person, beside one that needs neither.
  talker: {
    tools: [
      "calculator",
      "ask_user",
      "todo_write",
      "plan_create",
      "plan_get",
      "trigger_event",
      "read_file",
      "write_file",
    ],
    client_tools: [echo],
    delegation: { agents: [{ name: "agent" }] },
  },
  own_chat: { tools: ["chat"] },
  careful: {
    tools: ["calculator", "test_simple_text", "draw"],
    policies: [{ id: "painters", required_scopes: ["paint:use"], tools: ["draw"] }],
    approvals: [
      { id: "gate", tools: ["calculator"] },
      { id: "open", tools: ["test_simple_text"], allow_unattended: true },
    ],
  },
  hasty: { tools: ["wait"], limits: { max_wall_clock_seconds: 1 } },
  lasting: { tools: ["calculator"], execution: { mode: "durable" } },
  noted: { tools: ["add_note"] },
  archived: { extensions: { notes: { archive: true } } },
  inward: { auth: { inbound: { schemes: ["jwt"] } } },
};

const { env, keys } = apiKeys({ caller: { scopes: ["chat:write", "audit:read", "files:write"] } });
const { caller: key } = keys;

describe("the MCP server", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    const plugins = ["mcp", "images", "notes"].map((name) => `./test/support/${name}-plugin.ts`);
    ({ server, mock } = await startChat(atEnd, {
      models: ["gpt", "fails", "waits"],
      manifests,
      env: { ...env, SVC_PLUGINS: plugins.join(","), SVC_DEFAULT_MANIFEST: "agent" },
    }));
  });
  const rpc = (method: string, params: object = {}, path = "/mcp") => sendRpc(server, method, params, { key, path });
  const audited = async (type: string) => (await server.get(`/audit?event_type=${type}&limit=500`, { key })).json.items;

  test("MCP-001 GET /mcp says what the server is", async () => {
    const { status, json } = await server.get("/mcp", { key });

    assert.deepEqual(
      [status, json],
      [
        200,
        { status: "ok", message: `svc ${version} is an MCP server (Streamable HTTP): send JSON-RPC messages by POST.` },
      ],
    );
  });

  test("MCP-001 GET /mcp is 405 for a client that wants a stream", async () => {
    const { status, headers, json } = await server.get("/mcp", { key, headers: { accept: "text/event-stream" } });

    assert.deepEqual([status, headers.allow, json.error.code, json.id], [405, "POST", -32000, null]);
  });

  test("MCP-002 a client of the older generation exchanges messages without a session", async () => {
    const initialized = await rpc("initialize", {
      protocolVersion: "2025-06-18",
      capabilities: {},
      clientInfo: { name: "hand", version: "1" },
    });
    const notified = await server.post("/mcp", { jsonrpc: "2.0", method: "notifications/initialized" }, { key });
    const pinged = await rpc("ping");
    const listed = await rpc("tools/list");
    const called = await rpc("tools/call", { name: "calculator", arguments: { expression: "6 * 7" } });

    assert.deepEqual(messageOf(initialized).result, {
      protocolVersion: "2025-06-18",
      capabilities: { tools: { listChanged: false } },
      serverInfo: { name: "svc", version },
    });
    assert.deepEqual([notified.status, notified.text], [202, ""]);
    assert.deepEqual(messageOf(pinged), { jsonrpc: "2.0", id: 1, result: {} });
    assert.deepEqual(Object.keys(messageOf(listed).result.tools[0]), ["name", "description", "inputSchema"]);
    assert.deepEqual(messageOf(called).result, { content: [{ type: "text", text: "42" }], isError: false });
    for (const { headers } of [initialized, notified, listed, called])
      assert.equal(headers["mcp-session-id"], undefined);
  });

  for (const generation of generations)
    describe(`for a client of ${generation}`, () => {
      const connect = (path?: string) => connectMcp(atEnd, server, { key, generation, ...(path && { path }) });

      test("MCP-002 it agrees on the version, lists tools and calls one", async () => {
        const client = await connect();

        const { tools } = await client.listTools();
        const result = await client.callTool({ name: "calculator", arguments: { expression: "2 ** 10" } });

        assert.equal(client.getNegotiatedProtocolVersion(), generation);
        assert.deepEqual(client.getServerVersion(), { name: "svc", version });
        assert.deepEqual(
          tools.map(({ name }) => name),
          [...manifests.agent.tools, "chat"],
        );
        assert.deepEqual(result.content, [{ type: "text", text: "1024" }]);
        assert.equal(result.isError, false);
      });

      test("MCP-002 chat runs a turn with the tools of the agent", async () => {
        mock.answer("gpt", inTurn(calls(["calculator", { expression: "6 * 7" }]), { text: "It is 42." }));
        const client = await connect();

        const result = await client.callTool({ name: "chat", arguments: { message: "What is 6 * 7?" } });

        assert.deepEqual(result.content, [{ type: "text", text: "It is 42." }]);
        assert.equal(result.isError, false);
      });

      test("MCP-002 a failed tool is a result with isError, and the run does not end badly", async () => {
        const client = await connect();

        const failed = await client.callTool({ name: "test_error_handling", arguments: {} });
        const misfit = await client.callTool({ name: "calculator", arguments: { expression: 7 } });

        const text = "[tool error/provider_error] This tool intentionally returns an error for testing";
        assert.deepEqual([failed.isError, failed.content], [true, [{ type: "text", text }]]);
        assert.equal(misfit.isError, true);
        assert.match(JSON.stringify(misfit.content), /tool error\/invalid_arguments/);
      });

      test("MCP-002 an unknown tool is -32602, and names the tools that there are", async () => {
        const client = await connect();

        await assert.rejects(client.callTool({ name: "calculatr", arguments: {} }), {
          code: -32602,
          message: /unknown_tool:calculatr: .*calculator/,
        });
      });

      test("MCP-002 the progress of a tool reaches the client", async () => {
        const client = await connect();
        const seen: unknown[] = [];

        await client.callTool(
          { name: "test_tool_with_progress", arguments: {} },
          { onprogress: (progress) => void seen.push(progress) },
        );

        const told = [0, 50, 100].map((progress) => ({ progress, total: 100, message: `${progress} of 100` }));
        assert.deepEqual(seen, told);
      });

      test("MCP-002 a client that stops waiting stops the tool", async () => {
        const client = await connect();
        const interrupted = async () => {
          const rows = await audited("tool_call");
          return rows.filter(
            ({ payload }: { payload: { tool: string; error_code?: string } }) =>
              payload.tool === "wait" && payload.error_code === "interrupted",
          ).length;
        };
        const earlier = await interrupted();
        const stop = new AbortController();

        const waiting = client.callTool(
          { name: "wait", arguments: {} },
          { signal: stop.signal, onprogress: () => stop.abort() },
        );

        await assert.rejects(waiting);
        if (generation === "2025-11-25") await client.close();
        await eventually("the tool is stopped", async () => (await interrupted()) > earlier);
      });

      test("MCP-003 of five images four are sent, each as one block of base64", async () => {
        const client = await connect();

        const { content } = await client.callTool({
          name: "draw",
          arguments: { kinds: ["png", "gif", "jpeg", "webp", "png"] },
        });

        const block = (bytes: Buffer, mimeType: string) => ({
          type: "image",
          data: bytes.toString("base64"),
          mimeType,
        });
        assert.deepEqual(content, [
          { type: "text", text: "drawn (seen)\n[1 image omitted: at most 4 of a call are kept]" },
          block(png(), "image/png"),
          block(gif, "image/gif"),
          block(jpeg, "image/jpeg"),
          block(webp, "image/webp"),
        ]);
      });

      test("MCP-004 what is no image by its bytes is not sent", async () => {
        const client = await connect();

        const { content } = await client.callTool({ name: "draw", arguments: { kinds: ["svg", "gif", "nothing"] } });

        assert.deepEqual(content, [
          { type: "text", text: "drawn (seen)\n[2 images omitted: no image by its bytes]" },
          { type: "image", data: gif.toString("base64"), mimeType: "image/gif" },
        ]);
      });

      test("MCP-005 neither a URL nor another file is sent as an image", async () => {
        const file = await server.post("/files", { data: gif.toString("base64"), media_type: "image/gif" }, { key });
        const client = await connect();

        const { content } = await client.callTool({ name: "forge", arguments: {} });

        assert.equal(file.status, 200);
        assert.deepEqual(
          content.map(({ type }) => type),
          ["text"],
        );
        assert.match(JSON.stringify(content), /2 images omitted: no image by its bytes/);
      });
    });

  test("MCP-005 images of a call are deleted once they are sent", async () => {
    const stored = () => globSync("**/files/*/*", { cwd: server.dataDir });
    const file = await server.post("/files", { data: gif.toString("base64"), media_type: "image/gif" }, { key });
    const before = stored();

    const { content } = messageOf(await rpc("tools/call", { name: "draw", arguments: { kinds: ["png"] } })).result;

    assert.equal(content.length, 2);
    assert.ok(before.some((path) => path.endsWith(file.json.file_id)));
    assert.deepEqual(stored(), before);
  });

  test("MCP-002 tools that need a conversation or a person are neither listed nor called", async () => {
    const client = await connectMcp(atEnd, server, { key, path: "/mcp?manifest=talker" });

    const { tools } = await client.listTools();

    assert.deepEqual(
      tools.map(({ name }) => name),
      ["calculator", "chat"],
    );
    for (const name of [...manifests.talker.tools.slice(1), "echo_screen", "task"])
      await assert.rejects(client.callTool({ name, arguments: {} }), { code: -32602 }, name);
  });

  test("MCP-002 a tool of the manifest called chat hides ours", async () => {
    const client = await connectMcp(atEnd, server, { key, path: "/mcp?manifest=own_chat" });

    const { tools } = await client.listTools();
    const { content } = await client.callTool({ name: "chat", arguments: {} });

    assert.deepEqual(
      tools.map(({ description }) => description),
      ["A tool that has the name of ours."],
    );
    assert.deepEqual(content, [{ type: "text", text: "the manifest's own chat" }]);
  });

  test("MCP-002 the manifest comes from the query, then from the params, then from the settings", async () => {
    const names = async (path: string, params: object) =>
      messageOf(await rpc("tools/list", params, path)).result.tools.map(({ name }: { name: string }) => name);

    assert.deepEqual(await names("/mcp?manifest=noted", { manifest: "own_chat" }), ["add_note", "chat"]);
    assert.deepEqual(await names("/mcp", { manifest: "own_chat" }), ["chat"]);
    assert.deepEqual(await names("/mcp", {}), [...manifests.agent.tools, "chat"]);
  });

  test("MCP-002 a gated call is denied unless its rule allows unattended calls", async () => {
    const client = await connectMcp(atEnd, server, { key, path: "/mcp?manifest=careful" });

    const gated = await client.callTool({ name: "calculator", arguments: { expression: "1" } });
    const open = await client.callTool({ name: "test_simple_text", arguments: {} });
    const forbidden = await client.callTool({ name: "draw", arguments: { kinds: [] } });

    assert.deepEqual(
      [gated.isError, gated.content],
      [true, [{ type: "text", text: "[approval unattended] tool=calculator rule=gate" }]],
    );
    assert.equal(open.isError, false);
    assert.equal(forbidden.isError, true);
    assert.match(JSON.stringify(forbidden.content), /denied by policy/);
    const waived = await eventually("the waiver is audited", async () => {
      const rows = await audited("approval_waived");
      return rows.find(({ status }: { status: string }) => status === "unattended");
    });
    assert.equal(waived.payload.tool, "test_simple_text");
  });

  test("MCP-002 tools that a source finds when it is opened are listed and called", async () => {
    const client = await connectMcp(atEnd, server, { key, path: "/mcp?manifest=archived" });

    const { tools } = await client.listTools();
    const found = await client.callTool({ name: "search_archive", arguments: { word: "rain" } });

    assert.deepEqual(
      tools.map(({ name }) => name),
      ["search_archive", "chat"],
    );
    assert.match(JSON.stringify(found.content), /nothing about rain/);
  });

  test("MCP-002 a call ends at the time limit of the manifest, which its result names", async () => {
    const { result } = messageOf(await rpc("tools/call", { name: "wait" }, "/mcp?manifest=hasty"));

    assert.deepEqual(result, {
      content: [{ type: "text", text: "run limit reached: max_wall_clock_seconds" }],
      isError: true,
    });
  });

  test("MCP-002 chat waits for the durable run of its manifest, and a single call is never durable", async () => {
    mock.answer("gpt", { text: "At last." });
    const client = await connectMcp(atEnd, server, { key, path: "/mcp?manifest=lasting" });

    const chat = await client.callTool({ name: "chat", arguments: { message: "hi" } });
    const call = await client.callTool({ name: "calculator", arguments: { expression: "1" } });

    assert.deepEqual([chat.isError, chat.content], [false, [{ type: "text", text: "At last." }]]);
    assert.deepEqual([call.isError, call.content], [false, [{ type: "text", text: "1" }]]);
  });

  test("MCP-002 a call is audited and counted like every other, and has no final response", async () => {
    const counted = async () => {
      const { text } = await server.get("/metrics", { key });
      return Number(/^svc_runs_total\{.*outcome="ok".*\} (\d+)$/m.exec(text)?.[1] ?? 0);
    };
    const before = await counted();

    await rpc("tools/call", { name: "calculator", arguments: { expression: "101 + 1" } });

    const row = await eventually("the call is audited", async () =>
      (await audited("tool_call")).find(
        ({ payload }: { payload: { args: { expression?: string } } }) => payload.args.expression === "101 + 1",
      ),
    );
    assert.deepEqual([row.status, row.manifest_id, row.payload.tool], ["ok", "agent", "calculator"]);
    assert.equal(await counted(), before + 1);
    assert.equal(
      (await audited("final_response")).some(
        ({ payload }: { payload: { request_id: string } }) => payload.request_id === row.payload.request_id,
      ),
      false,
    );
  });

  test("MCP-002 what a control of input refuses is -32602", async () => {
    const client = await connectMcp(atEnd, server, { key, path: "/mcp?manifest=noted" });

    const call = { name: "add_note", arguments: { body: "a forbidden word" } };
    const chat = { name: "chat", arguments: { message: "a forbidden word" } };

    for (const asked of [call, chat])
      await assert.rejects(client.callTool(asked), { code: -32602, data: { code: "content_screening_denied" } });
    const softened = await client.callTool({ name: "add_note", arguments: { body: "a softened one" } });
    assert.match(JSON.stringify(softened.content), /noted: a soft one/);
  });

  test("MCP-002 a manifest that does not take the credential is -32001", async () => {
    const { error } = messageOf(await rpc("tools/list", {}, "/mcp?manifest=inward"));

    assert.deepEqual([error.code, error.data], [-32001, { code: "auth_scheme_not_allowed" }]);
  });

  test("MCP-002 chat keeps the conversation that thread_id names", async () => {
    mock.answer("gpt", { text: "Noted." });
    const client = await connectMcp(atEnd, server, { key });
    const ask = (message: string) => client.callTool({ name: "chat", arguments: { message, thread_id: "mcp-talk" } });

    await ask("I am Ann.");
    await ask("Who am I?");

    assert.deepEqual(
      shown(mock.requests.at(-1)).map(({ content }) => content),
      ["I am Ann.", "Noted.", "Who am I?"],
    );
  });

  test("MCP-002 chat says what is wrong with its arguments", async () => {
    const client = await connectMcp(atEnd, server, { key });

    const blank = await client.callTool({ name: "chat", arguments: { message: " " } });
    const other = await client.callTool({ name: "chat", arguments: { message: "hi", model: "gpt" } });

    assert.deepEqual([blank.isError, other.isError], [true, true]);
    await assert.rejects(client.callTool({ name: "chat", arguments: { message: "hi", thread_id: "a/b" } }), {
      code: -32602,
      data: { code: "invalid_thread_id" },
    });
  });

  test("MCP-002 chat sends images of its agent's calls, and counts what the agent does", async () => {
    const draws = calls(["draw", { kinds: ["png"] }], ["draw", { kinds: ["gif"] }]);
    // The model is shown the images as a message of the user, so the turn is known by its results.
    const isDrawn = (messages: unknown) => (messages as { role: string }[]).some(({ role }) => role === "tool");
    mock.answer("gpt", ({ body }) => (isDrawn(body.messages) ? { text: "Drawn." } : draws));
    const client = await connectMcp(atEnd, server, { key });
    const seen: unknown[] = [];

    const { content } = await client.callTool(
      { name: "chat", arguments: { message: "Draw." } },
      { onprogress: (progress) => void seen.push(progress) },
    );

    assert.deepEqual(
      content.map(({ type }) => type),
      ["text", "image", "image"],
    );
    assert.deepEqual(seen, [
      { progress: 1, message: "calls draw" },
      { progress: 2, message: "calls draw" },
    ]);
  });

  test("MCP-005 images of a chat whose client leaves are deleted", async () => {
    const stored = () => globSync("**/files/*/*", { cwd: server.dataDir }).length;
    const before = stored();
    mock.answer("gpt", inTurn(calls(["draw", { kinds: ["png"] }]), says("Hel", never)));
    const stop = new AbortController();
    const client = await connectMcp(atEnd, server, { key });

    const waiting = client.callTool({ name: "chat", arguments: { message: "Draw." } }, { signal: stop.signal });
    await eventually("the image is stored", async () => stored() > before);
    stop.abort();

    await assert.rejects(waiting);
    await eventually("the image is deleted", async () => stored() === before);
  });

  test("MCP-002 a failing model is a result with isError", async () => {
    const client = await connectMcp(atEnd, server, { key });
    mock.answer("gpt", failure(400));

    const { content, isError } = await client.callTool({ name: "chat", arguments: { message: "hi" } });

    assert.equal(isError, true);
    assert.match(JSON.stringify(content), /model provider failed/);
  });

  test("MCP-002 a client that leaves a chat stops its turn", async () => {
    mock.answer("gpt", says("Hel", never));
    const stop = new AbortController();
    const client = await connectMcp(atEnd, server, { key });
    const from = mock.requests.length;

    const waiting = client.callTool({ name: "chat", arguments: { message: "hi" } }, { signal: stop.signal });
    const asked = await eventually("the model is asked", async () => mock.requests[from]);
    stop.abort();

    await assert.rejects(waiting);
    assert.equal(await asked.ended, "gone");
  });
});
