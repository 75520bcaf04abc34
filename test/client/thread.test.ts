// Threads in views: useThread in React and in Preact, and the transport for useChat of the package `ai`.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { AbstractChat, type ChatState, type ChatStatus, type ChatTransport, type UIMessage } from "ai";
import { parseHTML } from "linkedom";
import { chatTransport } from "../../client/ai-transport.js";
import { createClient } from "../../client/client.js";
import { Thread } from "../../client/thread.js";
import type { ThreadView } from "../../client/types.ts";
import { threadHook } from "../../client/use-thread.js";
import { calls, gate, inTurn, says, startChat, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { type TcpProxy, tcpProxy } from "../support/tcp-proxy.ts";
import { cleanup } from "../support/temp.ts";

const { env, keys } = apiKeys({ ann: { scopes: ["*"] } });

describe("threads in views", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  let proxy: TcpProxy;
  let client: ReturnType<typeof createClient>;
  before(async () => {
    ({ server, mock } = await startChat(atEnd, {
      models: ["plain"],
      manifests: {
        plain: {},
        sums: { tools: ["calculator"], approvals: [{ id: "sums", tools: ["calculator"] }] },
        asks: { tools: ["ask_user"], client_tools: [{ name: "click" }] },
      },
      env,
    }));
    proxy = await tcpProxy(server.url, atEnd);
    client = createClient({ url: proxy.url(server.url), key: keys.ann });
  });

  const outline = ({ messages }: ThreadView) => messages.map(({ role, content }) => `${role}: ${content}`);

  test("a thread shows its history, live text, and turns of other clients", async () => {
    mock.answer("plain", { text: ["First."] });
    await client.call("POST /chat", turn("plain", "one", { thread_id: "shown" }));
    const thread = new Thread(client, { thread_id: "shown", manifest: "plain" });
    const leave = thread.subscribe(() => {});
    await eventually("history", async () => !thread.view.isLoading);
    assert.deepEqual(outline(thread.view), ["user: one", "assistant: First."]);

    const held = gate();
    mock.answer("plain", says("Sec", held.opened, "ond."));
    const sent = thread.send("two");
    await eventually("live text", async () => thread.view.text === "Sec" && thread.view.isRunning);
    proxy.cut();
    proxy.restore();
    held.open();
    await sent;
    await eventually("reply", async () => thread.view.messages.length === 4 && !thread.view.isRunning);
    leave();

    assert.deepEqual(outline(thread.view).slice(2), ["user: two", "assistant: Second."]);
    assert.equal(thread.view.text, "");
    assert.equal(thread.view.error, null);
  });

  test("a thread lists open approvals, questions and calls, and removes them when they are answered", async () => {
    const thread = new Thread(client, { thread_id: "asked", manifest: "sums" });
    const leave = thread.subscribe(() => {});
    mock.answer("plain", inTurn(calls(["calculator", { expression: "6 * 7" }]), { text: "42" }));
    const first = thread.send("sum");
    const approval = await eventually("approval", async () => thread.view.asks.find(({ kind }) => kind === "approval"));
    await thread.decide(approval.id, { status: "approved" });
    await first;
    const asking = new Thread(client, { thread_id: "asked", manifest: "asks" });
    const leaveToo = asking.subscribe(() => {});
    mock.answer("plain", inTurn(calls(["ask_user", { question: "Which?" }], ["click", {}]), { text: "Done." }));
    const second = asking.send("ask");
    const question = await eventually("question", async () => asking.view.asks.find(({ kind }) => kind === "question"));
    await asking.answer(question.id, { value: "red" });
    const call = await eventually("call", async () => asking.view.asks.find(({ kind }) => kind === "tool"));
    await asking.result(call.id, "clicked");
    await second;
    await eventually("no asks", async () => asking.view.asks.length === 0 && asking.view.messages.length === 6);

    const outputs = asking.view.messages.flatMap((message) => message.calls.map(({ output }) => output));
    assert.equal(outputs[0], "42");
    assert.match(outputs[1] ?? "", /red/);
    assert.equal(outputs[2], "clicked");
    const failed = new Thread(client, { thread_id: "failed", manifest: "nobody" });
    await failed.send("hi");
    assert.equal(failed.view.error?.code, "unknown_manifest");
    leave();
    leaveToo();
  });

  test("useThread shows a thread in React and in Preact", async () => {
    const { window } = parseHTML("<html><body><main></main></body></html>");
    Object.assign(globalThis, { document: window.document, window });
    atEnd.after(() => {
      for (const name of ["document", "window"]) Reflect.deleteProperty(globalThis, name);
    });
    const react = await import("react");
    const { createRoot } = await import("react-dom/client");
    // Imported without types, because those of Preact replace Node's types by those of browsers.
    const preact = await import("preact" as string);
    const preactHooks: typeof react = await import("preact/hooks" as string);
    mock.answer("plain", { text: ["Hello."] });

    for (const framework of ["react", "preact"]) {
      const place = window.document.createElement("div");
      const { createElement } = framework === "react" ? react : (preact as typeof react);
      const { useState, useEffect, useMemo } = framework === "react" ? react : preactHooks;
      const useThread = threadHook({ useState, useEffect, useMemo } as Parameters<typeof threadHook>[0]);
      const sent: Promise<void>[] = [];
      let renders = 0;
      const Chat = ({ id }: { id: string }) => {
        renders++;
        const { messages, text, isLoading, thread } = useThread(client, { thread_id: id, manifest: "plain" });
        useEffect(() => {
          sent.push(thread.send(`hi from ${id}`));
        }, [thread]);
        return createElement("p", null, isLoading ? "…" : messages.map(({ content }) => content).join("|") + text);
      };
      const root = framework === "react" ? createRoot(place) : null;
      const show = (id: string | null) => {
        const view = id === null ? null : createElement(Chat, { id });
        if (root !== null) root.render(view);
        else preact.render(view, place);
      };

      show(`${framework}-a`);
      await eventually("the first thread", async () => place.textContent === `hi from ${framework}-a|Hello.`);
      show(`${framework}-b`);
      await eventually("the second thread", async () => place.textContent === `hi from ${framework}-b|Hello.`);
      show(null);
      await Promise.all(sent);
      await eventually("an empty page", async () => place.textContent === "");

      assert.ok(renders < 60, `${renders} renders`);
    }
  });

  test("useChat of the package ai runs turns with tools, files and failures", async () => {
    mock.answer("plain", inTurn(calls(["calculator", { expression: "40 + 2" }]), { text: ["It is ", "42."] }));
    const waits = { approval: () => ({ status: "approved" as const }) };
    const transport: ChatTransport<UIMessage> = chatTransport(client, { manifest: "sums", waits });
    const chat = new TestChat("chat-1", transport);

    await chat.sendMessage({ text: "What is 40 + 2?" });
    await chat.sendMessage({ text: "And again?" });

    const [asked, answered, , again] = chat.messages;
    assert.deepEqual([asked?.role, answered?.role, chat.status], ["user", "assistant", "ready"]);
    const kinds = answered?.parts.map(({ type }) => type);
    assert.deepEqual(kinds, ["step-start", "dynamic-tool", "data-approval", "text"]);
    const tool = answered?.parts.find((part) => part.type === "dynamic-tool");
    assert.deepEqual([tool?.toolName, tool?.state, tool?.output], ["calculator", "output-available", "42"]);
    const said = answered?.parts.at(-1);
    assert.deepEqual(said?.type === "text" && [said.text, said.state], ["It is 42.", "done"]);
    assert.equal(again?.parts.at(-1)?.type, "text");
    const { messages } = await client.call("GET /chat/history/{thread_id}", { thread_id: "chat-1" });
    assert.equal(messages.filter(({ role }) => role === "user").length, 2);
    const broken = new TestChat("chat-2", chatTransport(client, { manifest: "nobody" }));
    await broken.sendMessage({ text: "Hi" });
    assert.equal(broken.status, "error");
    assert.match(broken.error?.message ?? "", /no manifest/);
  });
});

/** The chat of the package ai without a framework. */
class TestChat extends AbstractChat<UIMessage> {
  constructor(id: string, transport: ChatTransport<UIMessage>) {
    super({ id, transport, state: new PlainState() });
  }
}

class PlainState implements ChatState<UIMessage> {
  status: ChatStatus = "ready";
  error: Error | undefined;
  messages: UIMessage[] = [];
  pushMessage = (message: UIMessage): void => void this.messages.push(message);
  popMessage = (): void => void this.messages.pop();
  replaceMessage = (index: number, message: UIMessage): void => void this.messages.splice(index, 1, message);
  snapshot = <T>(thing: T): T => structuredClone(thing);
}
