// A repeated /v1 request after a failed turn: equal messages continue the logged turn, and all others start a new turn.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { databaseOf, skipPostgres } from "../faults/support.ts";
import { calls, chunk, gate, says, shown, startChat, turn } from "../support/chat.ts";
import { failure, type Reply } from "../support/mock-model/behaviours.ts";
import type { Script } from "../support/mock-model/script.ts";
import type { MockModel } from "../support/mock-model.ts";
import type { TestServer } from "../support/server.ts";
import { gateDialects } from "../support/stores.ts";
import { cleanup } from "../support/temp.ts";

const weather = { type: "function", function: { name: "weather", parameters: { type: "object", properties: {} } } };

for (const dialect of gateDialects)
  describe(`a failed turn that is asked for again, on ${dialect}`, {
    skip: dialect === "postgres" && skipPostgres,
  }, () => {
    const atEnd = cleanup();
    let server: TestServer;
    let mock: MockModel;
    before(async () => {
      const database = await databaseOf(dialect, atEnd);
      const acts = { tools: ["calculator"], tool_effects: { calculator: "once" } };
      ({ server, mock } = await startChat(atEnd, {
        models: ["m"],
        manifests: {
          agent: { ...acts, prompts: [{ name: "sum", body: "What is $1?" }] },
          narrow: { ...acts, session: { strategy: "windowed:1" } },
          durable: { ...acts, execution: { mode: "durable" } },
        },
        env: { ...database.env, SVC_FIBER_MAX_ATTEMPTS: "1" },
      }));
    });

    /** Lets the model give these replies in order, and then the last one again. */
    const play = (...replies: readonly Reply[]): void => {
      let at = 0;
      mock.answer("m", () => replies[Math.min(at++, replies.length - 1)] as Reply);
    };
    const call = calls(["calculator", { expression: "6*7" }]);
    const done = { text: "It is 42." };
    const user = (content: unknown) => ({ role: "user", content });
    const ask = (thread: string, messages: readonly object[], fields: object = {}) =>
      server.post("/v1/chat/completions", { model: "agent", user: thread, messages, ...fields });
    /** The roles of the log in order. */
    const rolesOf = async (thread: string): Promise<string[]> => {
      const { json } = await server.get(`/chat/sessions/${thread}`);
      return json.transcript.flatMap(({ kind, role }: { kind: string; role: string }) =>
        kind === "message" || kind === "tool_result" ? [role] : [],
      );
    };
    const lastShown = () => shown(mock.requests.at(-1)).map(({ role, content }) => [role, content]);

    for (const [name, messages, fields] of [
      ["one message", [user("go")], {}],
      ["two messages of the user", [user("go"), user("now")], {}],
      ["a system text and a message", [{ role: "system", content: "Be kind." }, user("go")], {}],
      ["parts", [user([{ type: "text", text: "go" }])], {}],
      ["a command", [user("/sum 6*7")], {}],
      ["a stream", [user("go")], { stream: true }],
      ["a window of one message", [user("go")], { model: "narrow" }],
      ["a durable run", [user("go")], { model: "durable" }],
    ] as const)
      test(`${name}: a retry continues after the tool's result, any number of times`, async () => {
        const thread = `same-${name.replaceAll(" ", "-")}`;
        play({ text: "Hello." }, call, failure(400), failure(400), done);
        await ask(thread, [user("hi")], fields);
        const history = [user("hi"), { role: "assistant", content: "Hello." }, ...messages];

        const first = await ask(thread, history, fields);
        const second = await ask(thread, history, fields);
        const third = await ask(thread, history, fields);

        assert.match(first.text + second.text, /model_unavailable.*model_unavailable/s);
        assert.match(third.text, /It is 42\./);
        const said = messages.map(({ role }) => role);
        assert.deepEqual(await rolesOf(thread), ["user", "assistant", ...said, "assistant", "tool", "assistant"]);
        assert.equal(mock.requests.at(-1)?.text.split('"42"').length, 2);
      });

    test("a retry continues a turn on a new thread, also after a restart", async () => {
      play(call, failure(400), done);
      const messages = [user("earlier"), { role: "assistant", content: "said" }, user("go")];

      await ask("fresh", messages);
      await server.restart();
      const second = await ask("fresh", messages);

      assert.equal(second.json.choices[0].message.content, "It is 42.");
      assert.deepEqual(await rolesOf("fresh"), ["user", "assistant", "user", "assistant", "tool", "assistant"]);
    });

    test("a retry continues after a result of the client without quoting it", async () => {
      play(calls(["weather", {}]), failure(400), done);
      const first = await ask("brought", [user("go")], { tools: [weather] });
      const { message } = first.json.choices[0];
      const brought = [user("go"), message, { role: "tool", tool_call_id: message.tool_calls[0].id, content: "18" }];

      const second = await ask("brought", brought, { tools: [weather] });
      const third = await ask("brought", brought, { tools: [weather] });

      assert.deepEqual([second.status, third.json.choices[0].message.content], [502, "It is 42."]);
      assert.deepEqual(await rolesOf("brought"), ["user", "assistant", "tool", "assistant"]);
    });

    test("an answer that was cut off is made again, without its beginning in the prompt", async () => {
      const cut: Script = { steps: [{ send: chunk({ content: "It is" }, null) }, { cut: "reset" }] };
      play(call, cut, done);
      await ask("cut", [user("go")], { stream: true });

      const second = await ask("cut", [user("go")]);

      assert.equal(second.json.choices[0].message.content, "It is 42.");
      assert.deepEqual(lastShown().slice(0, 3), [
        ["user", "go"],
        ["assistant", ""],
        ["tool", "42"],
      ]);
      assert.equal(JSON.stringify(lastShown()).includes("It is"), false);
    });

    for (const [name, again] of [
      ["another message", [user("else")]],
      ["one message more", [user("go"), user("now")]],
      ["another system text", [{ role: "system", content: "Be kind." }, user("go")]],
    ] as const)
      test(`${name} after a failed turn is a new turn`, async () => {
        const thread = `other-${name.replaceAll(" ", "-")}`;
        play(call, failure(400), done);
        await ask(thread, [user("go")]);

        await ask(thread, again);

        const said = again.map(({ role }) => role);
        assert.deepEqual(await rolesOf(thread), ["user", "assistant", "tool", ...said, "assistant"]);
      });

    test("the same message after an answer, or after an abort, is a new turn", async () => {
      play(done);
      await ask("twice", [user("go")]);
      await ask("twice", [user("go")]);
      const more = gate();
      play(says("It", more.opened), done);
      const live = server.stream("/v1/chat/completions", {
        model: "agent",
        user: "halted",
        messages: [user("go")],
        stream: true,
      });
      const stream = await live;
      for (let frame = await stream.next(); !frame?.data.includes('"It"'); ) frame = await stream.next();
      await server.post("/chat/abort", { thread_id: "halted" });
      more.open();
      await stream.rest();
      await ask("halted", [user("go")]);

      assert.deepEqual(await rolesOf("twice"), ["user", "assistant", "user", "assistant"]);
      assert.deepEqual(await rolesOf("halted"), ["user", "assistant", "user", "assistant"]);
    });

    test("POST /chat processes exactly the messages that it is sent", async () => {
      play(call, failure(400), done);
      await server.post("/chat", turn("agent", "go", { thread_id: "chat" }));
      await server.post("/chat", turn("agent", "go", { thread_id: "chat" }));

      assert.deepEqual(await rolesOf("chat"), ["user", "assistant", "tool", "user", "assistant"]);
    });

    test("a response retries the failed one; another question follows the one before it", async () => {
      play({ text: "Hello." }, call, failure(400), failure(400), done, { text: "Else." });
      const respond = (input: string, previous_response_id?: string) =>
        server.post("/v1/responses", { model: "agent", input, previous_response_id });
      const first = await respond("hi");

      const failed = [await respond("go", first.json.id), await respond("go", first.json.id)];
      const third = await respond("go", first.json.id);
      const other = await respond("else", first.json.id);

      assert.deepEqual(
        failed.map(({ status }) => status),
        [502, 502],
      );
      const textOf = ({ json }: { json: { output: { content: { text: string }[] }[] } }) =>
        json.output.at(-1)?.content[0]?.text;
      assert.deepEqual([textOf(third), textOf(other)], ["It is 42.", "Else."]);
      const thread = `resp-${first.json.id.slice(5, 37)}`;
      assert.deepEqual(await rolesOf(thread), ["user", "assistant", "user", "assistant", "tool", "assistant"]);
      assert.deepEqual(lastShown(), [
        ["user", "hi"],
        ["assistant", "Hello."],
        ["user", "else"],
      ]);
    });
  });
