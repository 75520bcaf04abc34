// svc threads, usage and approvals: an operator inspects a running server and decides requests.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { approvalsCommand } from "../../../host/cli/approvals.ts";
import type { Command } from "../../../host/cli/command.ts";
import { listTable } from "../../../host/cli/list-table.ts";
import { threadsCommand } from "../../../host/cli/threads.ts";
import { usageCommand } from "../../../host/cli/usage.ts";
import { calls, inTurn, says, startChat, turn } from "../../support/chat.ts";
import { eventually } from "../../support/eventually.ts";
import type { MockModel } from "../../support/mock-model.ts";
import { apiKeys, type TestServer } from "../../support/server.ts";
import { cleanup } from "../../support/temp.ts";
import { run, runJson } from "./support.ts";

const { env, keys } = apiKeys({
  alice: { scopes: ["chat:write", "usage:read", "approvals:write"] },
  nobody: { scopes: [] },
});
const manifests = { agent: {}, gated: { tools: ["calculator"], approvals: [{ id: "sums", tools: ["calculator"] }] } };
const esc = "\u001b";

describe("commands that look into a server", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    ({ server, mock } = await startChat(atEnd, { models: ["scripted"], manifests, env }));
    mock.answer("scripted", inTurn(calls(["calculator", { expression: "6*7" }]), says(`Hello ${esc}[2Jthere.`)));
    const asked = turn("agent", "A marigold.", { thread_id: "one" });
    assert.equal((await server.post("/chat", asked, { key: keys.alice })).status, 200);
  });

  const svc = (command: Command, argv: readonly string[], SVC_KEY: string = keys.alice) =>
    run(command, [...argv, "--url", server.url], { SVC_KEY });
  const svcJson = (command: Command, argv: readonly string[]) =>
    runJson(command, [...argv, "--url", server.url], { SVC_KEY: keys.alice });

  test("svc threads lists conversations, shows one and searches them", async () => {
    const list = await svc(threadsCommand, []);
    const listed = await svcJson(threadsCommand, ["list", "--limit", "1"]);
    const show = await svc(threadsCommand, ["show", "one"]);
    const full = await svc(threadsCommand, ["show", "acme:one", "--limit", "1"]);
    const found = await eventually("the hit", async () => {
      const search = await svc(threadsCommand, ["search", "marigold"]);
      return search.stdout.startsWith("one: ") ? search : undefined;
    });
    const none = await svc(threadsCommand, ["show", "none"]);

    assert.match(list.stdout, /^THREAD +AGE +MANIFEST +NAME\none +\d+[smh] +agent +A marigold\.\n$/);
    assert.deepEqual(
      (listed.answer.items as { id: string }[]).map(({ id }) => id),
      ["acme:one"],
    );
    assert.match(show.stdout, /^user: A marigold\.\nassistant calls calculator \{"expression":"6\*7"\}\ntool/);
    assert.match(show.stdout, /\nassistant: Hello ␛\[2Jthere\.\n$/);
    assert.match(full.stdout, /^\(Earlier messages are not shown; raise --limit\.\)\n\nassistant: Hello/);
    assert.equal(found.code, 0);
    assert.deepEqual(none, { code: 1, stdout: "", stderr: "The thread none does not exist or is empty.\n" });
  });

  test("svc usage sums up model calls by day and by thread", async () => {
    const summary = await svc(usageCommand, []);
    const threads = await svc(usageCommand, ["threads", "--since", "2020-01-01T00:00:00Z"]);
    const old = await svc(usageCommand, ["--until", "2020-01-01"]);
    const { answer } = await svcJson(usageCommand, ["summary", "--manifest", "agent"]);

    const [head, day, all] = summary.stdout.split("\n");
    assert.match(head ?? "", /^DAY +MANIFEST +MODEL +CALLS +INPUT +OUTPUT +CACHED +USD$/);
    assert.match(day ?? "", /^\d{4}-\d\d-\d\d +agent +scripted +2 +\d+ +\d+ +0 +0\.0/);
    assert.match(all ?? "", /^all +2 +\d+/);
    assert.match(threads.stdout, /^THREAD .*\none +2 /);
    assert.equal(old.stdout, "There were no model calls in that time.\n");
    assert.equal((answer.totals as { calls: number }).calls, 2);
  });

  test("the rows of svc usage add up to the last one, also when threads are omitted", async () => {
    for (const text of ["A tulip.", "A rose, which is longer."])
      await server.post("/chat", turn("agent", text, { thread_id: `sum-${text.length}` }), { key: keys.alice });

    const tables = [await svc(usageCommand, []), await svc(usageCommand, ["threads", "--limit", "1"])];

    for (const { stdout } of tables) {
      const numbers = stdout
        .split("\n\n")[0]
        ?.trimEnd()
        .split("\n")
        .slice(1)
        .map((line) => line.trim().split(/ +/).slice(-5).map(Number)) as number[][];
      const sum = numbers.at(-1) as number[];
      for (const [column, total] of sum.entries()) {
        const added = numbers.slice(0, -1).reduce((all, row) => all + (row[column] as number), 0);
        assert.equal(added.toFixed(8), total.toFixed(8), stdout);
      }
      assert.ok((sum.at(-1) ?? 0) > 0, stdout);
    }
    assert.match(tables[1]?.stdout ?? "", /\n\(others\) +\d+/);
  });

  test("svc approvals lists waiting calls, shows one, and decides it once", async () => {
    const pending = async (text: string, thread_id: string) => {
      void server.post("/chat", turn("gated", text, { thread_id }), { key: keys.alice });
      return eventually("a request", async () => {
        const { answer } = await svcJson(approvalsCommand, ["list", "--thread", thread_id]);
        return (answer.items as { approval_id: string }[])[0]?.approval_id;
      });
    };
    const first = await pending("one", "gate-1");
    const list = await svc(approvalsCommand, []);
    const show = await svc(approvalsCommand, ["show", first]);
    const denied = await svc(approvalsCommand, ["deny", first, "--note", "too dear"]);
    const again = await svc(approvalsCommand, ["approve", first]);
    const second = await pending("two", "gate-2");
    const bad = await svc(approvalsCommand, ["approve", second, "--args", '{"expression":1}']);
    const approved = await svc(approvalsCommand, ["approve", second, "--args", '{"expression":"2*3"}']);

    const history = await eventually("the result", async () => {
      const { stdout } = await svc(threadsCommand, ["show", "gate-2"]);
      return /tool calculator: [^\n]*\n\s*6|tool calculator: \[run with arguments/.test(stdout) ? stdout : undefined;
    });
    assert.match(list.stdout, /^APPROVAL +STATUS +AGE +TOOL +ASKED BY +THREAD +ARGUMENTS\n/);
    assert.match(
      list.stdout,
      new RegExp(`\n${first} +pending +\\d+[smh] +calculator +alice +gate-1 +\\{"expression":"6\\*7"\\}\n`),
    );
    assert.match(show.stdout, /^status +pending$/m);
    assert.match(show.stdout, /^ {2}"expression": "6\*7"$/m);
    assert.equal(denied.stdout, `${first}: denied, with the note\n`);
    assert.deepEqual(again, { code: 1, stdout: "", stderr: `${first} was already decided.\n` });
    assert.match(bad.stderr, /^The server answered 422: invalid_edited_args/);
    assert.equal(approved.stdout, `${second}: approved\n`);
    assert.ok(history);
  });

  test("an impossible request is one sentence and exit 1; bad arguments are exit 2", async () => {
    for (const command of [threadsCommand, usageCommand, approvalsCommand]) {
      assert.match((await svc(command, [], keys.nobody)).stderr, /^The key lacks permission: missing scopes: /);
      const stranger = await svc(command, [], "key-of-somebody-else-0123456789");
      assert.equal(stranger.stderr, "The server does not know the key in SVC_KEY.\n");
      const nobody = await run(command, ["--url", server.url]);
      assert.equal(nobody.stderr, "The server needs an API key or a token: set SVC_KEY, or run svc login.\n");
      const wrong = await svc(command, [...(command === usageCommand ? ["threads"] : []), "--limit", "none"]);
      assert.deepEqual(wrong, {
        code: 2,
        stdout: "",
        stderr: "The server refuses this: limit must be an integer\n",
      });
      const away = await run(command, ["--url", "http://127.0.0.1:1"]);
      assert.equal(away.code, 1);
      assert.match(away.stderr, /^no answer from /);
      for (const argv of [["stop"], ["constructor"], ["list", "x"], ["--limit"], ["summary", "x"]])
        assert.equal((await run(command, argv)).code, 2, argv.join(" "));
    }
    const wrong: [Command, string[], RegExp][] = [
      [threadsCommand, ["show"], /THREAD is missing/],
      [threadsCommand, ["search"], /WORDS are missing/],
      [usageCommand, ["--since", "yesterday"], /--since must be a time/],
      [usageCommand, ["threads", "--manifest", "a"], /--manifest is for/],
      [usageCommand, ["--limit", "5"], /--limit is for/],
      [approvalsCommand, ["approve"], /APPROVAL is missing/],
      [approvalsCommand, ["approve", "../x"], /APPROVAL is the id/],
      [approvalsCommand, ["approve", "a", "--args", "[]"], /--args must be a JSON object/],
      [approvalsCommand, ["deny", "a", "--args", "{}"], /--args is for/],
      [approvalsCommand, ["approve", "a", "--result", "x"], /--result is for/],
    ];
    for (const [command, argv, word] of wrong) {
      const { code, stderr } = await run(command, argv);
      assert.equal(code, 2, argv.join(" "));
      assert.match(stderr, word);
    }
    assert.match((await svc(approvalsCommand, ["show", "none"])).stderr, /^There is no approval request none\.$/m);
    assert.match((await svc(threadsCommand, ["--cursor", "x"])).stderr, /^--cursor must be the cursor/);
  });
});

test("a table is no wider than its terminal, and coloured only on request", () => {
  const rows = [["an-id-that-is-long", `denied`, `${"x".repeat(80)}${esc}[31m\u202e`]];
  const of = { heads: ["ID", "STATUS", "WHY"], rows, statusAt: 1 };

  const narrow = listTable(of, { columns: 40, colours: false });
  const coloured = listTable(of, { columns: 40, colours: true });

  assert.ok(narrow.split("\n").every((line) => line.length <= 40));
  assert.ok(!narrow.includes(esc) && !listTable(of, null).includes(esc));
  assert.equal(coloured.split(esc).length, 3, "one colour, and its end");
  assert.equal(listTable({ ...of, statusAt: -1 }, { columns: 20, colours: true }), "ID\nan-id-that-is-long");
});

test("a wide character counts as two columns, and no character is cut in half", () => {
  const rows = [
    ["one", "今日の天気はどうですか、教えてください"],
    ["two", "🎉🎉🎉🎉🎉🎉🎉🎉🎉🎉🎉🎉"],
    ["three", "plain"],
  ];
  const of = { heads: ["ID", "NAME", "END"], rows: rows.map((row) => [...row, "."]), statusAt: -1 };

  const narrow = listTable(of, { columns: 25, colours: false });
  const whole = listTable(of, null).split("\n");

  assert.deepEqual(narrow.split("\n"), [
    "ID     NAME",
    "one    今日の天気はどう…",
    "two    🎉🎉🎉🎉🎉🎉🎉🎉…",
    "three  plain",
  ]);
  assert.equal(whole[1], `one    ${rows[0]?.[1]}  .`);
  assert.equal(whole[3], `three  plain${" ".repeat(33)}  .`);
});
