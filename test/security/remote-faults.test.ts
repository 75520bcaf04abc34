// Each kind of remote tool against each fault of its server: the turn ends, the model reads a tool error, the socket is closed, no
// redirect leads out, and the next call works. An abort of the turn reaches the server.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { modelTestCertificate } from "../support/certificate.ts";
import { calls, inTurn, shown, startChat, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { type FaultName, type FaultSite, faults, startFaultSite } from "../support/fault-site.ts";
import type { MockModel } from "../support/mock-model.ts";
import type { TestServer } from "../support/server.ts";
import { cleanup, tempDir } from "../support/temp.ts";

const at = (path: string) => `http://site.example${path}`;

/** A manifest for each kind. */
const kinds = (timeout_ms: number) => ({
  "http-tools": { http_tools: [{ name: "ask", timeout_ms, max_bytes: 100_000 }] },
  "search-tools": { search_tools: [{ name: "ask" }] },
  containers: {
    containers: [{ name: "ask", image: "i", gateway_url: at(""), container_tool_name: "ask", timeout_ms }],
  },
  shell: {
    shell_tools: [{ name: "ask", commands: ["go"], timeout_ms }],
    workspace: { scope: "tenant" },
  },
  peers: { peers: [{ name: "site", url: at("/a2a"), timeout_ms }] },
  "mcp-http": { mcp_servers: [{ name: "site", url: at("/mcp"), transport: "http", timeout_ms }] },
  "mcp-sse": { mcp_servers: [{ name: "site", url: at("/sse"), transport: "sse", timeout_ms }] },
});
type Kind = keyof ReturnType<typeof kinds>;
const brief = kinds(500);
const patient = kinds(60_000);
/** Kinds whose request has more time than a test: the limit of the run ends a silent one. */
const late: readonly Kind[] = ["search-tools", "containers", "shell"];
const limits = { max_wall_clock_seconds: 1 };
/** The call that the model makes. */
const wanted: Readonly<Record<Kind, readonly [string, object]>> = {
  "http-tools": ["ask", { url: at("/page") }],
  "search-tools": ["ask", { query: "x" }],
  containers: ["ask", {}],
  shell: ["ask", { argv: ["go"] }],
  peers: ["peer__site", { message: "go" }],
  "mcp-http": ["site__ask", {}],
  "mcp-sse": ["site__ask", {}],
};
/** The answers that are no failure to one kind. */
const expected: Partial<Record<`${Kind} ${FaultName}`, RegExp>> = {
  "http-tools answers 10 GB": /x{1000}\n\[cut: the answer is longer than 100000 bytes\]$/,
  "http-tools streams events for ever": /\n\[cut: the answer is longer than 100000 bytes\]$/,
  "http-tools answers another content type": /^HTTP 200 .*a page$/s,
  "http-tools answers a gzip bomb": /x{1000}\n\[cut: the answer is longer than 100000 bytes\]$/,
  "http-tools answers invalid UTF-8": /^HTTP 200 .*\{"\uFFFD\uFFFD"$/s,
  // No list of hosts forbids it.
  "http-tools redirects to another origin": /^HTTP 200 http:\/\/other\.example\/inner .*the inner page/s,
};
const failed = /^\[tool error\/(?:timeout|transport_unavailable|provider_error|permission_denied)\] /;

describe("remote tools", () => {
  const atEnd = cleanup();
  let far: FaultSite;
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    far = await startFaultSite(atEnd);
    const ca = join(tempDir(atEnd), "ca.pem");
    writeFileSync(ca, modelTestCertificate.cert);
    const plain = `127.0.0.1:${far.site.port}`;
    ({ server, mock } = await startChat(atEnd, {
      models: ["scripted"],
      manifests: {
        ...Object.fromEntries(
          Object.entries(brief).map(([kind, spec]) => [kind, late.includes(kind as Kind) ? { ...spec, limits } : spec]),
        ),
        ...Object.fromEntries(Object.entries(patient).map(([kind, spec]) => [`patient-${kind}`, spec])),
      },
      env: {
        SVC_SEARCH_BACKEND: "searxng",
        SVC_SEARCH_URL: "https://model.test/searx",
        SVC_SEARCH_TIMEOUT_SECONDS: "60",
        SVC_EGRESS_CA_FILE: ca,
        SVC_SHELL_RUNNER_URL: `http://${plain}`,
        SVC_SHELL_RUNNER_TOKEN: "token-of-the-runner-0123456789-abcdef",
        SVC_WORKSPACE_ROOT: tempDir(atEnd),
        SVC_TEST_RESOLVE: JSON.stringify({
          "site.example": plain,
          "other.example": plain,
          "model.test": `127.0.0.1:${far.site.tlsPort}`,
        }),
      },
    }));
    // The first call of a kind loads its packages, and the timeouts are short.
    for (const kind of Object.keys(brief) as Kind[])
      await eventually(`${kind} works`, async () => /fine/.test(await called(kind)));
  });

  /** Runs one turn whose model makes one call. Returns what the model got, or the answer if the run has ended first. */
  async function called(kind: Kind): Promise<string> {
    mock.answer("scripted", inTurn(calls(wanted[kind]), { text: "done" }));
    const from = mock.requests.length;
    const { text } = await server.post("/chat", turn(kind, "go"));
    const results = shown(mock.requests.slice(from).at(-1)).filter(({ role }) => role === "tool");
    return results[0]?.content ?? text;
  }
  const inner = (): number => far.site.requests.filter(({ url }) => url === "/inner").length;

  for (const kind of Object.keys(brief) as Kind[]) {
    for (const name of Object.keys(faults) as FaultName[])
      test(`a call of ${kind} whose server ${name} ends, and the next one works`, async () => {
        const before = inner();
        far.broken.length = 0;
        far.fault = faults[name];

        const result = await called(kind);
        far.fault = null;

        const silent = late.includes(kind) && name.startsWith("hangs");
        const admits = expected[`${kind} ${name}`];
        assert.match(result, silent ? /max_wall_clock_seconds/ : (admits ?? failed));
        assert.ok(far.broken.length >= 1);
        await eventually("each broken answer is closed", async () => far.broken.every(({ isClosed }) => isClosed));
        assert.equal(inner() - before, admits !== undefined && name.startsWith("redirects") ? 1 : 0);
        await eventually("the next call works", async () => /fine/.test(await called(kind)));
      });

    test(`an abort closes the call of ${kind} at its server`, async () => {
      const thread_id = `abort-${kind}`;
      far.broken.length = 0;
      far.methods.length = 0;
      far.fault = faults.hangs;
      mock.answer("scripted", inTurn(calls(wanted[kind]), { text: "done" }));
      const turning = server.post("/chat", turn(`patient-${kind}`, "go", { thread_id }));
      await eventually("the server is asked", async () => far.broken.length === 1);
      far.fault = null;

      await server.post("/chat/abort", { thread_id });
      await turning;

      await eventually("the call is closed", async () => far.broken.every(({ isClosed }) => isClosed));
      if (kind.startsWith("mcp"))
        await eventually("it is cancelled by name", async () => far.methods.includes("notifications/cancelled"));
    });
  }

  test("an abort ends a command at its runner", async () => {
    const thread_id = "abort-command";
    far.fault = (response) => {
      response.writeHead(200, { "content-type": "text/event-stream" }).write('data: {"id":"c1"}\n\n');
    };
    mock.answer("scripted", inTurn(calls(wanted.shell), { text: "done" }));
    const ends = () =>
      far.site.requests.filter(({ method, url }) => method === "DELETE" && url === "/commands/c1").length;
    const inputs = () => far.site.requests.filter(({ url }) => url === "/commands/c1/input").length;
    const before = [inputs(), ends()];
    const turning = server.post("/chat", turn("patient-shell", "go", { thread_id }));
    await eventually("the command runs", async () => inputs() > Number(before[0]));

    await server.post("/chat/abort", { thread_id });
    await turning;

    await eventually("the command is ended", async () => ends() === Number(before[1]) + 1);
    far.fault = null;
    for (const { response } of far.broken) response.destroy();
  });

  test("an abort cancels the task of a peer", async () => {
    const working = '{"jsonrpc":"2.0","id":1,"result":{"task":{"id":"t9","status":{"state":"TASK_STATE_WORKING"}}}}';
    far.methods.length = 0;
    far.fault = (response) => response.writeHead(200, { "content-type": "application/json" }).end(working);
    mock.answer("scripted", inTurn(calls(wanted.peers), { text: "done" }));
    const turning = server.post("/chat", turn("patient-peers", "go", { thread_id: "abort-task" }));
    await eventually("the task is read", async () => far.methods.includes("GetTask"));

    await server.post("/chat/abort", { thread_id: "abort-task" });
    await turning;

    await eventually("the task is cancelled", async () => far.methods.includes("CancelTask"));
    far.fault = null;
  });

  for (const [what, breaks] of [
    ["ends its stream", () => far.endStreams()],
    ["sends an event of 10 MB", () => far.writeStreams(`data: ${"x".repeat(10_000_000)}\n\n`)],
    [
      "sends 20,000 messages",
      () => far.writeStreams('data: {"jsonrpc":"2.0","method":"notifications/x"}\n\n'.repeat(20_000)),
    ],
  ] as const)
    test(`a call of mcp-sse whose server ${what} ends, and the next one works`, async () => {
      far.fault = (response) => {
        response.writeHead(202).end();
        breaks();
      };

      const result = await called("mcp-sse");
      far.fault = null;

      assert.match(result, failed);
      await eventually("the next call works", async () => /fine/.test(await called("mcp-sse")));
    });

  test("a stream that stays open after the result of its call is closed", async () => {
    const result = { jsonrpc: "2.0", result: { content: [{ type: "text", text: "fine" }] } };
    far.broken.length = 0;
    far.fault = (response, _request, _site, body) => {
      const { id } = JSON.parse(body) as { id: unknown };
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(`data: ${JSON.stringify({ ...result, id })}\n\n`);
    };

    assert.equal(await called("mcp-http"), "fine");
    far.fault = null;

    await eventually("the answer is closed", async () => far.broken.every(({ isClosed }) => isClosed));
  });
});
