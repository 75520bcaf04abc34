// One request of each client on docs/integrations.md, as that client sends it: svc answers each in the client's format.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { before, describe, test } from "node:test";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { HumanMessage } from "@langchain/core/messages";
import { ChatOpenAI } from "@langchain/openai";
import { jsonSchema, streamText, tool } from "ai";
import OpenAI from "openai";
import { parse } from "yaml";
import { calls, shown, startChat } from "../support/chat.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { root } from "../support/source.ts";
import { cleanup } from "../support/temp.ts";

interface Recorded {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Suffix of the thread that the request names; null for a stateless one. */
  readonly thread: string | null;
  readonly body: Body;
}

interface Body {
  readonly model: string;
  readonly messages: readonly { readonly role: string; readonly content: unknown }[];
  readonly tools?: readonly { readonly function: { readonly name: string; readonly parameters: Schema } }[];
  readonly [field: string]: unknown;
}

interface Schema {
  readonly properties: Readonly<Record<string, unknown>>;
}

const folder = `${root}test/clients/requests/`;
const page = readFileSync(`${root}docs/integrations.md`, "utf8");
const names = readdirSync(folder).map((file) => file.replace(/\.json$/, ""));
const recorded = new Map(
  names.map((name): [string, Recorded] => [name, JSON.parse(readFileSync(`${folder}${name}.json`, "utf8"))]),
);
const request = (name: string): Recorded => recorded.get(name) as Recorded;
const { env: keyed, keys } = apiKeys({ ann: { scopes: ["*"] } });

describe("requests of clients", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    ({ server, mock } = await startChat(atEnd, {
      models: ["quick"],
      manifests: { quick: { model: { id: "quick" } } },
      env: { ...keyed, SVC_OPENAI_USER: "ignore" },
    }));
    // Calls the client's first tool until there is a result.
    mock.answer("quick", ({ body }) => {
      const { messages, tools = [] } = body as unknown as Body;
      const [first] = tools;
      return first === undefined || messages.at(-1)?.role === "tool"
        ? { reasoning: ["Hm."], text: ["It is ", "there."] }
        : calls([first.function.name, argumentsFor(first.function.parameters)]);
    });
  });

  const send = ({ method, path, headers, body }: Recorded, changed: { thread?: string | null; body?: Body } = {}) => {
    const { thread, body: other = body } = changed;
    const sent = {
      ...headers,
      authorization: `Bearer ${keys.ann}`,
      ...(typeof thread === "string" && { "x-svc-thread-id": thread }),
    };
    return server.stream(path, other, { method, headers: sent });
  };
  const history = async (thread: string): Promise<readonly { role: string }[]> =>
    (await server.get(`/chat/history/${thread}`, { key: keys.ann })).json.messages;
  const fresh = (name: string): string | null => (request(name).thread === null ? null : `${name}-fresh`);

  for (const name of names)
    test(`${name}: the recorded request is answered with the stream that the client reads`, async () => {
      const { thread, body } = request(name);
      const before = mock.requests.length;

      const stream = await send(request(name));
      const frames = await stream.rest();

      const { text, thought, finish, call, usage } = told(frames.map(({ data }) => data));
      assert.equal(stream.status, 200);
      assert.equal(stream.headers["content-type"], "text/event-stream");
      assert.equal(stream.headers["x-svc-thread-id"], thread === null ? undefined : `acme:${thread}`);
      const wantsUsage = "stream_options" in body;
      assert.deepEqual([usage.length, usage.every((each) => each > 0)], [wantsUsage ? 1 : 0, true]);
      const [own] = body.tools ?? [];
      if (own === undefined) assert.deepEqual([text, thought, finish], ["It is there.", "Hm.", "stop"]);
      else {
        const { name: called, parameters } = own.function;
        assert.deepEqual([text, finish, call?.name], ["", "tool_calls", called]);
        assert.deepEqual(JSON.parse(call?.arguments ?? ""), argumentsFor(parameters));
      }
      const [asked, ...more] = mock.requests.slice(before);
      assert.equal(more.length, 0);
      assert.deepEqual(
        ((asked?.body.tools ?? []) as Body["tools"])?.map((each) => each.function.name),
        (body.tools ?? []).map((each) => each.function.name),
      );
      assert.match(JSON.stringify(shown(asked).at(-1)?.content), /Riga|README\.md/);
    });

  for (const name of names.filter((each) => request(each).body.tools))
    test(`${name}: its tool's result brings the answer, and each message is logged once`, async () => {
      const { body } = request(name);
      const thread = fresh(name);
      const first = told((await (await send(request(name), { thread })).rest()).map(({ data }) => data));
      const { id = "", name: called = "", arguments: given = "" } = first.call ?? {};
      const messages = [
        ...body.messages,
        {
          role: "assistant",
          content: null,
          tool_calls: [{ id, type: "function", function: { name: called, arguments: given } }],
        },
        { role: "tool", tool_call_id: id, content: "18" },
      ];

      const stream = await send(request(name), { thread, body: { ...body, messages } });
      const answer = told((await stream.rest()).map(({ data }) => data));

      assert.deepEqual([stream.status, answer.text, answer.finish], [200, "It is there.", "stop"]);
      assert.deepEqual(
        shown(mock.requests.at(-1)).map(({ role }) => role),
        ["user", "assistant", "tool"],
      );
      assert.match(shown(mock.requests.at(-1)).at(-1)?.content ?? "", /18/);
      if (thread === null) return;
      const users = (await history(thread)).filter(({ role }) => role === "user");
      assert.equal(users.length, 1);
    });

  for (const name of ["open-webui", "librechat"])
    test(`${name}: each chat of a user is a thread of its own`, async () => {
      const { body } = request(name);
      const { tools: _, ...plain } = body;
      const say = async (thread: string, messages: Body["messages"]) =>
        (await send(request(name), { thread, body: { ...plain, messages } as Body })).rest();
      const again = [...body.messages, { role: "assistant", content: "It is there." }, ...body.messages];

      await say(`${name}-a`, body.messages);
      await say(`${name}-a`, again);
      await say(`${name}-b`, body.messages);

      assert.deepEqual([(await history(`${name}-a`)).length, (await history(`${name}-b`)).length], [4, 2]);
      const person = typeof body.user === "string" ? body.user : request(name).headers["x-openwebui-user-id"];
      assert.deepEqual(await history(person ?? ""), []);
    });

  test("open-webui: a temporary chat's id is refused as the page says", async () => {
    const { path, headers, body } = request("open-webui");

    const { status, json } = await server.post(path, body, {
      headers: { ...headers, authorization: `Bearer ${keys.ann}`, "x-svc-thread-id": "local:VQ3dDq0c1Z" },
    });

    assert.deepEqual([status, json.error.code.split(":")[0]], [400, "invalid_thread_id"]);
    assert.match(page, /temporary chat[^.]*400 `invalid_thread_id`/);
  });

  test("the libraries send the recorded requests when made as docs/integrations.md says", async () => {
    const sent = new Map<string, Recorded>();
    const fetched = globalThis.fetch;
    atEnd.after(() => {
      globalThis.fetch = fetched;
    });
    const listen = (name: string) => {
      globalThis.fetch = async (url, init) => {
        const asked = new Request(url, init);
        const headers = Object.fromEntries(asked.headers);
        const { pathname: path } = new URL(asked.url);
        sent.set(name, {
          method: asked.method,
          path,
          headers,
          thread: null,
          body: (await asked.clone().json()) as Body,
        });
        return fetched(asked);
      };
    };
    const [openai, ai, langchain] = [...page.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, code = ""]) => code);
    const weather = request("openai").body.tools?.[0] as unknown as OpenAI.ChatCompletionFunctionTool;
    const content = "How is Riga?";

    listen("openai");
    const plain: OpenAI = made(openai, { OpenAI }, server.url);
    const chunks = await plain.chat.completions.create({
      model: "quick",
      messages: [{ role: "user", content }],
      tools: [weather],
      stream: true,
      stream_options: { include_usage: true },
    });
    for await (const _ of chunks);
    listen("ai");
    const sdk: ReturnType<typeof createOpenAICompatible> = made(ai, { createOpenAICompatible }, server.url);
    const inputSchema = jsonSchema<{ city: string }>(weather.function.parameters as object);
    const execute = () => "18";
    const tools = { get_weather: tool({ description: weather.function.description ?? "", inputSchema, execute }) };
    await streamText({ model: sdk("quick"), prompt: content, tools }).finishReason;
    listen("langchain");
    const chain: ChatOpenAI = made(langchain, { ChatOpenAI }, server.url);
    for await (const _ of await chain.bindTools([weather]).stream([new HumanMessage(content)]));
    globalThis.fetch = fetched;

    for (const [name, { method, path, headers, body }] of sent) {
      const was = request(name);
      const kept = Object.keys(was.headers).filter((key) => !/^x-stainless|^user-agent$|^authorization$/.test(key));
      assert.deepEqual([method, path, body], [was.method, was.path, was.body], name);
      for (const key of kept) assert.equal(headers[key] ?? "*/*", was.headers[key], `${name}: ${key}`);
      assert.equal(headers.authorization, `Bearer ${keys.ann}`);
      assert.deepEqual(stainless(headers), stainless(was.headers), name);
    }
    assert.deepEqual([...sent.keys()], ["openai", "ai", "langchain"]);
  });
});

test("each recorded request has a block on docs/integrations.md, and settings for it", () => {
  const linked = [...page.matchAll(/requests\/([\w-]+)\.json/g)].map(([, name]) => name);
  const [librechat, keepGoing] = [...page.matchAll(/```yaml\n([\s\S]*?)```/g)].map(([, code = ""]) => parse(code));
  const [endpoint] = librechat.endpoints.custom;
  const [model] = keepGoing.models;

  assert.deepEqual(linked.toSorted(), names.toSorted());
  for (const [name, base, id] of [
    ["librechat", endpoint.baseURL, endpoint.models.default[0]],
    ["continue", model.apiBase, model.model],
  ]) {
    const { path, body } = request(name);
    assert.deepEqual([`${new URL(base).pathname}/chat/completions`, id], [path, body.model]);
  }
  for (const header of [...Object.keys(endpoint.headers), /HEADER_CHAT_ID=(\S+)/.exec(page)?.[1] ?? ""])
    assert.equal(header.toLowerCase(), "x-svc-thread-id");
  assert.equal("x-svc-thread-id" in request("continue").headers, false);
});

/** The value of `svc` in a block of the page that makes a client; the imports are given. */
function made<T>(code = "", imports: Readonly<Record<string, unknown>>, url: string): T {
  const body = code
    .replace(/^import .*$/gm, "")
    .replace("http://127.0.0.1:8080", url)
    .replace('"KEY"', JSON.stringify(keys.ann));
  return new Function(...Object.keys(imports), `${body}\nreturn svc;`)(...Object.values(imports));
}

/** Arguments for the one text that a tool of the recorded requests takes. */
function argumentsFor({ properties }: Schema): Record<string, string> {
  return Object.fromEntries(Object.keys(properties).map((name) => [name, "README.md"]));
}

/** Names of the headers with which the packages of OpenAI describe themselves. */
function stainless(headers: Readonly<Record<string, string>>): string[] {
  return Object.keys(headers)
    .filter((name) => name.startsWith("x-stainless"))
    .toSorted();
}

interface Delta {
  readonly role?: string;
  readonly content?: string | null;
  readonly reasoning_content?: string;
  readonly tool_calls?: readonly {
    readonly index: number;
    readonly id?: string;
    readonly type?: string;
    readonly function?: { readonly name?: string; readonly arguments?: string };
  }[];
}

/** The content of a stream's chunks, read as clients read them. */
function told(data: readonly string[]) {
  assert.equal(data.at(-1), "[DONE]");
  const chunks = data.slice(0, -1).map((text) => JSON.parse(text));
  const finishes: string[] = [];
  const usage: number[] = [];
  let text = "";
  let thought = "";
  let call: { id: string; name: string; arguments: string } | undefined;
  for (const [at, chunk] of chunks.entries()) {
    assert.deepEqual([chunk.object, chunk.model, chunk.id], ["chat.completion.chunk", "quick", chunks[0].id]);
    if (chunk.usage) {
      assert.deepEqual([chunk.choices, at], [[], chunks.length - 1]);
      usage.push(chunk.usage.total_tokens);
      continue;
    }
    const [{ delta, finish_reason, index }] = chunk.choices as [
      { delta: Delta; finish_reason: string | null; index: number },
    ];
    assert.equal(index, 0);
    if (at === 0) assert.equal(delta.role, "assistant");
    text += delta.content ?? "";
    thought += delta.reasoning_content ?? "";
    for (const part of delta.tool_calls ?? []) {
      // A single call: each part has its index, and the first one its id and name.
      assert.equal(part.index, 0);
      if (call === undefined) assert.deepEqual([part.type, typeof part.id], ["function", "string"]);
      call ??= { id: part.id ?? "", name: part.function?.name ?? "", arguments: "" };
      call.arguments += part.function?.arguments ?? "";
    }
    if (finish_reason !== null) finishes.push(finish_reason);
  }
  assert.equal(finishes.length, 1);
  return { text, thought, finish: finishes[0], call, usage };
}
