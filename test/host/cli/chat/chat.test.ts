// svc chat: a conversation with an agent of a running server, as a process with pipes.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { before, describe, test } from "node:test";
import { calls, gate, inTurn, never, says, startChatProcess } from "../../../support/chat.ts";
import { eventually } from "../../../support/eventually.ts";
import { failure } from "../../../support/mock-model/behaviours.ts";
import type { MockModel } from "../../../support/mock-model.ts";
import { has } from "../../../support/needs.ts";
import { apiKeys, type ProcessServer } from "../../../support/server.ts";
import { cleanup } from "../../../support/temp.ts";
import { sameSignalMs } from "../started.ts";
import { said, talk } from "./talking.ts";

const { env, keys } = apiKeys({
  alice: { scopes: ["chat:write", "approvals:write"] },
  writer: { scopes: ["chat:write"] },
});
const args_schema = { type: "object", properties: { of: { type: "string" } } };
const manifests = {
  agent: {},
  gated: {
    tools: ["calculator"],
    approvals: [{ id: "sums", tools: ["calculator"], one_shot: true, description: "Sums are dear." }],
  },
  asking: { tools: ["ask_user"] },
  clipboard: { client_tools: [{ name: "clipboard", description: "What was copied.", args_schema }] },
};
const esc = "\u001b";

describe("svc chat", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  let mock: MockModel;
  before(async () => {
    ({ server, mock } = await startChatProcess(atEnd, { models: ["scripted"], manifests, env }));
  });

  const as = (SVC_KEY: string = keys.alice) => ({ atEnd, env: { SVC_KEY } });
  const words = (...more: string[]) => ["chat", ...more, "--url", server.url];

  test("a pipe is one message, only its answer is output, and it can be continued", async () => {
    mock.answer("scripted", says("Hello ", "there."));

    const first = await said(words("agent", "--thread", "pipe"), { ...as(), input: "one\ntwo\n" });
    const second = await said(words("--thread", "pipe"), { ...as(), input: "three" });

    assert.deepEqual(first, { code: 0, stdout: "Hello there.\n", stderr: "" });
    assert.equal(second.code, 0);
    const asked = (mock.requests.at(-1)?.body.messages ?? []) as { content: string }[];
    assert.deepEqual(
      asked.map(({ content }) => content),
      ["one\ntwo", "Hello there.", "three"],
    );
  });

  test("--json prints the frames as lines, with the result as the last", async () => {
    mock.answer("scripted", says(`a${esc}[2J\u009b\u202e`));

    const { code, stdout, stderr } = await said(words("agent", "--json", "--thread", "json"), { ...as(), input: "hi" });

    const lines = stdout.trimEnd().split("\n");
    const frames = lines.map((line) => JSON.parse(line) as { event?: string; data?: { delta?: string } });
    assert.deepEqual([code, stderr, frames.at(-1)], [0, "", { ok: true, thread_id: "json" }]);
    assert.equal(frames.find(({ event }) => event === "text_delta")?.data?.delta, `a${esc}[2J\u009b\u202e`);
    assert.equal(frames.at(-2)?.event, "done");
    for (const bad of [esc, "\u009b", "\u202e"]) assert.ok(!stdout.includes(bad));
  });

  test("text of a model or a tool cannot control the terminal", async () => {
    const bad = `${esc}]0;x\u0007${esc}[31m\u009b2J\u202e\b\r`;
    mock.answer("scripted", inTurn(calls(["calculator", { expression: `1${bad}` }]), says(`good ${bad}end`)));

    const run = talk(words("gated", "--lines"), as());
    run.write("hi\n");
    await run.printed(/Left open|waits for approval/);
    run.write("y\n");
    run.endInput();
    const code = await run.exited;

    assert.equal(code, 0);
    assert.match(run.stdout(), /^good .*end$/m);
    for (const one of [esc, "\u009b", "\u202e", "\b", "\r", "\u0007"])
      assert.ok(!(run.stdout() + run.stderr()).includes(one), JSON.stringify(one));
  });

  test("approvals are asked with their details, and a denial includes its reason", async () => {
    mock.answer("scripted", inTurn(calls(["calculator", { expression: "6*7" }]), says("Done.")));

    const input = "sum\ny\nsum again\nwhat\nn too dear\n";
    const { code, stdout, stderr } = await said(words("gated", "--lines", "--thread", "gated"), { ...as(), input });

    assert.deepEqual([code, stdout], [0, "Done.\nDone.\n"]);
    assert.match(stderr, /^calculator waits for approval: Sums are dear\.$/m);
    assert.match(stderr, /^ {2}│ {3}"expression": "6\*7"$/m);
    assert.match(stderr, /^← calculator: 42$/m);
    assert.match(stderr, /^← calculator: .*too dear/m);
  });

  test("a caller without permission to decide waits until another person decides", async () => {
    mock.answer("scripted", inTurn(calls(["calculator", { expression: "6*7" }]), says("Done.")));

    const run = talk(words("gated", "--thread", "other"), { ...as(keys.writer), input: "sum" });
    await run.printed(/There is no terminal to ask on: decide with svc approvals approve \w+, or deny\./);
    const [, id = ""] = /approve (\w+)/.exec(run.stderr()) ?? [];
    const listed = await server.post(`/approvals/${id}/decide`, { decision: "approved" }, { key: keys.alice });
    const code = await run.exited;

    assert.equal(listed.status, 200);
    assert.deepEqual([code, run.stdout()], [0, "Done.\n"]);
  });

  test("the lines after the message answer questions and client calls", async () => {
    const select = { kind: "select", question: `Which${esc}[31m?`, options: ["red", "blue"] };
    mock.answer("scripted", inTurn(calls(["ask_user", select]), says("Blue.")));
    const question = await said(words("asking", "--lines"), { ...as(), input: "ask\nwhat\n2\n" });
    const read = (mock.requests.at(-1)?.body.messages ?? []) as { role: string; content: string }[];
    mock.answer("scripted", inTurn(calls(["clipboard", { of: "me" }]), says("Eggs.")));
    const call = await said(words("clipboard", "--lines"), { ...as(), input: "paste\n2 eggs\n" });
    const unasked = await said(words("clipboard"), { ...as(), input: "paste" });

    assert.deepEqual([question.code, question.stdout], [0, "Blue.\n"]);
    assert.match(question.stderr, /^Which␛\[31m\?\n {2}1 {2}red\n {2}2 {2}blue$/m);
    assert.deepEqual(JSON.parse(read.at(-1)?.content ?? ""), { answered: true, value: "blue" });
    assert.deepEqual([call.code, call.stdout], [0, "Eggs.\n"]);
    assert.match(call.stderr, /^clipboard is a call for you to carry out:\n {2}│ \{\n {2}│ {3}"of": "me"/m);
    assert.match(call.stderr, /^← clipboard: 2 eggs$/m);
    assert.match(unasked.stderr, /← clipboard: .*nobody is there to do it/);
  });

  test("a thread with a running turn is followed to the end of that turn", async () => {
    const more = gate();
    mock.answer("scripted", says("Half ", more.opened, "and half."));
    const first = server.post(
      "/chat",
      { manifest: "agent", thread_id: "live", messages: [{ role: "user", content: "hi" }] },
      { key: keys.alice },
    );
    await eventually("the first half", async () => mock.requests.at(-1)?.body.stream === true || undefined);

    const run = talk(words("--thread", "live"), { ...as(), input: "" });
    await run.printed(/Half/);
    more.open();

    assert.equal(await run.exited, 0);
    assert.equal(run.stdout(), "Half and half.\n");
    assert.equal((await first).status, 200);
  });

  test("Ctrl-C stops the turn, and a second one ends the command at once", async () => {
    mock.answer("scripted", says("Half", never));
    const once = talk(words("agent", "--thread", "once"), { ...as(), input: "hi" });
    await once.printed(/Half/);
    once.signal("SIGINT");
    const code = await once.exited;
    const { json } = await server.get("/chat/sessions/once", { key: keys.alice });

    const lines = talk(words("agent", "--lines", "--json", "--thread", "twice", "--url", server.url), as());
    lines.write("hi\n");
    await lines.printed(/Half/);
    process.kill(server.pid, "SIGSTOP");
    lines.signal("SIGINT");
    await lines.printed(/Stopping the turn/);
    await new Promise((resolve) => setTimeout(resolve, sameSignalMs + 50));
    lines.signal("SIGINT");
    const second = await lines.exited;
    process.kill(server.pid, "SIGCONT");

    assert.equal(code, 130);
    assert.match(once.stderr(), /Continue with: node svc\.js chat agent --thread once --url/);
    assert.equal(json.phase, "aborted");
    assert.equal(second, 130);
  });

  test("a closed output ends the command silently", async () => {
    const closed = gate();
    mock.answer("scripted", says("Hello ", closed.opened, "there.", never));

    const run = talk(words("agent", "--thread", "closed"), { ...as(), input: "hi" });
    await run.printed(/Hello/);
    run.closeOutput();
    closed.open();

    assert.equal(await run.exited, 141);
    assert.equal(run.stderr(), "");
  });

  test("a lost server is reported with the way to continue", async (context) => {
    const other = await startChatProcess(cleanup(context), { models: ["scripted"], manifests, env });
    other.mock.answer("scripted", says("Half", never));

    const run = talk(["chat", "agent", "--thread", "gone", "--url", other.server.url], { ...as(), input: "hi" });
    await run.printed(/Half/);
    await other.server.kill();

    assert.equal(await run.exited, 1);
    assert.equal(run.stdout(), "Half\n");
    assert.match(run.stderr(), /^The connection to the server was lost during the turn;/);
    assert.match(run.stderr(), /^Continue with: node svc\.js chat agent --thread gone --url http/m);
  });

  test("on 40 columns notes are cut, colours are optional, and Ctrl-D ends the command", async (context) => {
    if (!has(context, existsSync("/usr/bin/script"), "needs script, which makes a terminal")) return;
    mock.answer("scripted", inTurn(calls(["calculator", { expression: "1+1".padEnd(200) }]), says("Two.")));
    const onTerminal = async (more: Readonly<Record<string, string>>) => {
      const thread = `tty-${"NO_COLOR" in more}`;
      const env = { SVC_KEY: keys.alice, ...more };
      const run = talk(words("gated", "--thread", thread), { atEnd, columns: 40, env });
      await run.printed(/> /);
      run.write("sum\r");
      await run.printed(/Approve\?/);
      run.write("y\r");
      await run.printed(/Two\./);
      run.write("\u0004");
      return { code: await run.exited, text: run.stdout() };
    };

    const coloured = await onTerminal({});
    const plain = await onTerminal({ NO_COLOR: "1" });

    assert.deepEqual([coloured.code, plain.code], [0, 0]);
    assert.ok(coloured.text.includes(`${esc}[2m`));
    assert.ok(!plain.text.includes(`${esc}[2m`));
    const notes = plain.text.split(/\r?\n/).filter((line) => /^[→←]/.test(line));
    assert.equal(notes.length, 2);
    assert.ok(notes.every((line) => line.length <= 40));
    assert.match(plain.text, /Continue with: node svc\.js chat gated --thread tty-true/);
  });

  test("an impossible request is one sentence and exit 1 or 2", async () => {
    mock.answer("scripted", failure(400));
    type Case = [string[], string, string, number, RegExp];
    const noUrl = /^--url must .*, such as http:\/\/127\.0\.0\.1:8080\.$/m;
    const cases: Case[] = [
      [words("nothing"), keys.alice, "hi", 1, /^There is no manifest of this name\./],
      [words("agent"), "key-of-somebody-else-0123456789", "hi", 1, /^The server does not know the key in SVC_KEY\.$/m],
      [
        ["chat", "agent", "--url", "http://127.0.0.1:1"],
        keys.alice,
        "hi",
        1,
        /^no answer from http:\/\/127\.0\.0\.1:1 /,
      ],
      [words("agent"), keys.alice, " \n", 2, /^The input is empty: there is no message to send\.$/m],
      [words("agent", "--thread", "a/b"), keys.alice, "hi", 2, /^--thread is a thread id/],
      [words("agent", "--thread", ""), keys.alice, "hi", 2, /^--thread is a thread id/],
      ...["no url", "localhost:8080", "ftp://localhost", "http://a:b@localhost", "http://localhost/?a=1"].map(
        (url): Case => [["chat", "--url", url], keys.alice, "hi", 2, noUrl],
      ),
      [words("agent"), keys.alice, "hi", 1, /^The turn failed: /m],
    ];
    const results = await Promise.all(
      cases.map(([argv, SVC_KEY, input]) => said(argv, { atEnd, env: { SVC_KEY }, input })),
    );

    for (const [at, [argv, , , code, word]] of cases.entries()) {
      const result = results[at] as (typeof results)[number];
      assert.deepEqual([result.code, result.stdout], [code, ""], argv.join(" "));
      assert.match(result.stderr, word);
      assert.ok(!result.stderr.includes("0123456789"));
    }
  });
});
