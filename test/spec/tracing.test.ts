// Traces over OTLP/HTTP: a stand-in of a collector decodes them by the schema of the protocol.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { attributeNames } from "../../governance/tracing/conventions.ts";
import { calls, inTurn, startChat, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { type HookEndpoint, hookEndpoint } from "../support/hook-endpoint.ts";
import type { MockModel } from "../support/mock-model.ts";
import { type OtlpCollector, type ReceivedSpan, startCollector } from "../support/otlp-collector.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";
import { type WebhookReceiver, webhookReceiver } from "../support/webhook-receiver.ts";

const { env, keys } = apiKeys({ ann: { scopes: ["*"] } });
const secretWords = "a planted secret of the user";
const hexOf = (digit: string, length: number) => digit.repeat(length);

describe("traces", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  let collector: OtlpCollector;
  let receiver: WebhookReceiver;
  let hooks: HookEndpoint;
  before(async () => {
    collector = await startCollector(atEnd);
    receiver = await webhookReceiver(atEnd);
    hooks = await hookEndpoint(atEnd);
    ({ server, mock } = await startChat(atEnd, {
      models: ["plain"],
      manifests: {
        plain: { tools: ["calculator"] },
        sums: { tools: ["calculator"], approvals: [{ id: "sums", tools: ["calculator"] }] },
        lead: { delegation: { agents: [{ name: "plain" }] } },
        quiet: { observability: { trace: false } },
        hooked: {
          tools: ["calculator"],
          hooks: ["user_prompt_submit", "pre_tool_use"].map((event) => ({ id: event, event, endpoint: "hooks" })),
        },
        durable: { execution: { mode: "durable", webhooks: ["ops"] } },
      },
      env: {
        ...env,
        ...{ SVC_ENVIRONMENT: "development", SVC_ALLOW_INSECURE: "true" },
        SVC_WEBHOOK_ENDPOINTS: JSON.stringify({
          hooks: { url: hooks.url, secret: "hook-secret", tenants: "*", private: true, hooks: true },
          ops: {
            url: receiver.url,
            secret: `whsec_${Buffer.alloc(32, 7).toString("base64")}`,
            tenants: "*",
            private: true,
          },
        }),
        SVC_OTEL_ENDPOINT: collector.url,
        SVC_OTEL_TRUST_PARENT: "true",
        SVC_OTEL_HEADERS: "x-token=a%20collector%20token",
        SVC_OTEL_SERVICE_NAME: "svc-test",
      },
    }));
  });

  /** Runs a turn under a trace of its own, and returns the spans of the trace once `count` have arrived. */
  async function spansOf(trace: string, body: object, count: number): Promise<readonly ReceivedSpan[]> {
    const traceparent = `00-${trace}-${hexOf("b", 16)}-01`;
    const { status, text } = await server.post("/chat", body, { key: keys.ann, headers: { traceparent } });
    assert.ok(status < 300, text);
    return arrived(trace, count);
  }

  const arrived = (trace: string, count: number) =>
    eventually(`${count} spans of ${trace}: ${collector.spans.map(({ name }) => name)}`, async () => {
      const spans = collector.spans.filter(({ trace_id }) => trace_id === trace);
      return spans.length >= count && spans;
    });

  const named = (spans: readonly ReceivedSpan[], name: string) => {
    const span = spans.find((each) => each.name === name);
    assert.ok(span, `${name} is missing in ${spans.map((each) => each.name).join(", ")}`);
    return span;
  };

  test("a turn is a tree of spans under the caller's: request, run, model, tool and store", async () => {
    mock.answer("plain", inTurn(calls(["calculator", { expression: "6 * 7" }]), { text: [secretWords] }));
    const trace = hexOf("1", 32);

    const spans = await spansOf(trace, turn("plain", secretWords, { thread_id: "traced" }), 8);

    const request = named(spans, "POST /chat");
    const run = named(spans, "invoke_agent plain");
    const model = named(spans, "chat plain");
    const tool = named(spans, "execute_tool calculator");
    const store = named(spans, "store begin");
    assert.equal(request.parent_span_id, hexOf("b", 16));
    assert.equal(run.parent_span_id, request.span_id);
    for (const { parent_span_id } of [model, tool, store]) assert.equal(parent_span_id, run.span_id);
    assert.equal(request.attributes[attributeNames.status], 200);
    assert.equal(run.attributes[attributeNames.conversation], "acme:traced");
    assert.equal(run.attributes[attributeNames.tenant], "acme");
    assert.equal(model.attributes["gen_ai.operation.name"], "chat");
    assert.equal(typeof model.attributes["gen_ai.usage.input_tokens"], "number");
    assert.deepEqual(model.attributes["gen_ai.response.finish_reasons"], ["tool_use"]);
    assert.equal(tool.attributes["gen_ai.tool.name"], "calculator");
    assert.equal(run.resource["service.name"], "svc-test");
    for (const { startMs, endMs } of spans) assert.ok(startMs > 1.6e12 && endMs >= startMs);
    assert.equal(collector.requests[0]?.["x-token"], "a collector token");
    assert.doesNotMatch(JSON.stringify(spans), /planted secret/);
    const sent = mock.requests.at(-1)?.headers.traceparent;
    assert.equal(sent, `00-${trace}-${run.span_id}-01`);
  });

  test("a wait, a child run and a failed model have spans", async () => {
    mock.answer("plain", inTurn(calls(["calculator", { expression: "1 + 1" }]), { text: ["2"] }));
    const waiting = spansOf(hexOf("2", 32), turn("sums", "Go", { thread_id: "gated" }), 8);
    const approval = await eventually("approval", async () => {
      const { json } = await server.get("/approvals", { key: keys.ann });
      return json.items[0] as { approval_id: string } | undefined;
    });
    await server.post(`/approvals/${approval.approval_id}/decide`, { decision: "approved" }, { key: keys.ann });
    const wait = named(await waiting, "wait approval");
    assert.equal(wait.attributes[attributeNames.waitOutcome], "answered");

    mock.answer("plain", ({ body }) => {
      const messages = body.messages as { role: string; content: unknown }[];
      const isLead = JSON.stringify(body.tools ?? []).includes('"task"');
      if (!isLead) return { text: ["From the child."] };
      if (messages.some(({ role }) => role === "tool")) return { text: ["Done."] };
      return calls(["task", { agent: "plain", prompt: "Work" }]);
    });
    const family = await spansOf(hexOf("3", 32), turn("lead", "Go", { thread_id: "family" }), 9);
    const lead = named(family, "invoke_agent lead");
    assert.equal(named(family, "invoke_agent plain").parent_span_id, lead.span_id);
  });

  test("a durable run and its webhook belong to the trace of the request", async () => {
    mock.answer("plain", { text: ["Done."] });

    const spans = await spansOf(hexOf("4", 32), turn("durable", "Go"), 5);

    const request = named(spans, "POST /chat");
    assert.equal(named(spans, "invoke_agent durable").parent_span_id, request.span_id);
    const webhook = named(spans, "webhook ops");
    assert.equal((await receiver.nth(0)).headers.traceparent, `00-${hexOf("4", 32)}-${webhook.span_id}-01`);
  });

  test("hooks get the trace: of the request before the run, of the run in it", async () => {
    mock.answer("plain", inTurn(calls(["calculator", { expression: "6 * 7" }]), { text: ["42."] }));
    const trace = hexOf("a", 32);

    const spans = await spansOf(trace, turn("hooked", "Go", { thread_id: "hooked" }), 5);

    const parentOf = (name: string) => `00-${trace}-${named(spans, name).span_id}-01`;
    assert.deepEqual(
      hooks.calls.map(({ body, headers }) => [body.hook, headers.traceparent]),
      [
        ["user_prompt_submit", parentOf("POST /chat")],
        ["pre_tool_use", parentOf("invoke_agent hooked")],
      ],
    );
  });

  test("OPS-017 observability.trace false leaves the runs of a manifest out of the traces", async () => {
    mock.answer("plain", { text: ["Hush."] });
    const quiet = hexOf("6", 32);

    await spansOf(quiet, turn("quiet", "Hi"), 1);
    await spansOf(hexOf("7", 32), turn("plain", "Hi"), 3);

    const names = collector.spans.filter(({ trace_id }) => trace_id === quiet).map(({ name }) => name);
    assert.deepEqual(names, ["POST /chat"]);
  });

  test("a failing collector costs spans, which are counted, and no turn", async () => {
    collector.status = 503;
    mock.answer("plain", { text: ["Fine."] });
    const { status } = await server.post("/chat", turn("plain", "Hi"), { key: keys.ann });
    const metrics = () => server.get("/metrics", { key: keys.ann });
    await eventually("failed spans", async () =>
      /svc_trace_spans_total\{outcome="failed"\} [1-9]/.test((await metrics()).text),
    );
    collector.status = 200;

    assert.equal(status, 200);
    await spansOf(hexOf("5", 32), turn("plain", "Hi"), 3);
  });
});
