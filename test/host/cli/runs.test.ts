// svc runs: an operator inspects and changes durable runs of a running server.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { runTable, type ShownRun } from "../../../host/cli/run-table.ts";
import { runsCommand } from "../../../host/cli/runs.ts";
import { never, says, startChat, turn } from "../../support/chat.ts";
import { eventually } from "../../support/eventually.ts";
import { failure } from "../../support/mock-model/behaviours.ts";
import type { MockModel } from "../../support/mock-model.ts";
import { apiKeys, type TestServer } from "../../support/server.ts";
import { cleanup } from "../../support/temp.ts";
import { run, runJson } from "./support.ts";

const { env, keys } = apiKeys({
  alice: { scopes: ["chat:write"] },
  operator: { scopes: ["runs:write"] },
  watcher: { scopes: ["runs:read"] },
});
const execution = { mode: "durable" };

describe("svc runs", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    ({ server, mock } = await startChat(atEnd, {
      models: ["scripted"],
      manifests: { agent: { execution } },
      env: { ...env, SVC_FIBER_MAX_ATTEMPTS: "2" },
    }));
  });

  const svc = (argv: readonly string[], SVC_KEY: string = keys.operator) =>
    run(runsCommand, [...argv, "--url", server.url], { SVC_KEY });
  const svcJson = (argv: readonly string[]) =>
    runJson(runsCommand, [...argv, "--url", server.url], { SVC_KEY: keys.operator });
  async function accept(): Promise<string> {
    return (await server.post("/chat", turn("agent", "hi"), { key: keys.alice })).json.resume_token;
  }
  const until = (token: string, status: string) =>
    eventually(`${token} as ${status}`, async () => {
      const { json } = await server.get(`/runs/${token}`, { key: keys.watcher });
      return json.status === status || undefined;
    });

  test("DUR-006 svc runs lists runs, shows one with its timeline, and cancels it", async () => {
    mock.answer("scripted", says("Hello", never));
    const token = await accept();
    await until(token, "running");

    const list = await svc(["list", "--status", "running"], keys.watcher);
    const json = await svcJson(["list", "--limit", "1"]);
    const show = await svc(["show", token]);
    const shown = await svcJson(["show", token]);
    const cancelled = await svc(["cancel", token]);
    const twice = await svc(["cancel", token]);

    const [head, row] = list.stdout.split("\n");
    assert.match(head ?? "", /^RUN +STATUS +AGE +TRIES +MANIFEST +THREAD +ERROR$/);
    assert.match(row ?? "", new RegExp(`^${token}  running +\\d+s +0 +agent +-$`));
    const { items, ok } = json.answer as { ok: boolean; items: { run_id: string }[] };
    assert.deepEqual([json.code, ok, items.map(({ run_id }) => run_id)], [0, true, [token]]);
    assert.equal(show.code, 0);
    assert.match(show.stdout, /^status +running$/m);
    assert.match(show.stdout, /^accepted_at +\d{4}-\d\d-\d\dT/m);
    assert.match(show.stdout, /Z {2}accepted +surface=chat principal_subj=alice$/m);
    assert.deepEqual(Object.keys(shown.answer), ["ok", "run", "timeline"]);
    assert.deepEqual(cancelled, { code: 0, stdout: `${token}: failed (aborted)\n`, stderr: "" });
    assert.deepEqual(twice, { code: 1, stdout: "", stderr: `${token} is over.\n` });
  });

  test("DUR-012 svc runs ends a back-off, and requeues dead runs one by one or all", async () => {
    mock.answer("scripted", failure(400));
    const [one, two] = [await accept(), await accept()];
    await Promise.all([one, two].map((token) => until(token, "waiting")));

    const retried = [await svc(["retry", one]), await svc(["retry", two])];
    await Promise.all([one, two].map((token) => until(token, "dead")));
    const dead = await svc(["list", "--status", "dead"]);
    mock.answer("scripted", says("Hello."));
    const requeued = await svc(["requeue", one]);
    const again = await svc(["requeue", one]);
    const none = await svc(["requeue", "--all", "--manifest", "another"]);
    const old = await svc(["requeue", "--all", "--until", "2020-01-01T00:00:00Z"]);
    const all = await svcJson(["requeue", "--all", "--manifest", "agent"]);

    assert.deepEqual(
      retried.map(({ stdout }) => stdout),
      [one, two].map((token) => `${token}: retried\n`),
    );
    assert.deepEqual(
      dead.stdout.match(/^[0-9a-f]{32} {2}dead/gm)?.toSorted(),
      [one, two].map((id) => `${id}  dead`).toSorted(),
    );
    const [, by = ""] = /continues as (\w{32})/.exec(requeued.stdout) ?? [];
    await until(by, "completed");
    assert.deepEqual(again, { code: 1, stdout: "", stderr: `${one} was already requeued: ${by} continues it.\n` });
    assert.equal(none.stdout, "0 requeued, 0 skipped.\n");
    assert.equal(old.stdout, "0 requeued, 0 skipped.\n");
    const { requeued: others, skipped } = all.answer as { requeued: { run_id: string }[]; skipped: unknown[] };
    assert.deepEqual([others.map(({ run_id }) => run_id), skipped], [[two], []]);
  });

  test("DUR-005 an impossible request is one sentence without the key, and exit 1", async () => {
    const answers = [
      await svc(["show", "unknown"]),
      await svc(["cancel", "unknown"], keys.watcher),
      await svc(["list"], "key-of-somebody-else-0123456789"),
      await svc(["list", "--cursor", "x"]),
      await run(runsCommand, ["list", "--url", "http://127.0.0.1:1"], { SVC_KEY: keys.operator }),
    ];

    const words = [
      /^There is no run unknown\.$/,
      /^The key lacks permission: missing scopes: runs:write\.$/,
      /^The server does not know the key in SVC_KEY\.$/,
      /^--cursor must be the cursor/,
      /^no answer from http:\/\/127\.0\.0\.1:1 \(connect ECONNREFUSED 127\.0\.0\.1:1\): is svc running/,
    ];
    for (const [at, word] of words.entries()) {
      const { code, stdout, stderr } = answers[at] as (typeof answers)[number];
      assert.deepEqual([code, stdout], [1, ""]);
      assert.match(stderr.trimEnd(), word);
      assert.ok(!stderr.includes("0123456789"));
    }
  });

  test("a wrong command line is exit 2", async () => {
    for (const argv of [
      [],
      ["stop"],
      ["constructor", "x"],
      ["show"],
      ["show", "../health"],
      ["list", "x"],
      ["requeue", "--all", "x"],
      ["requeue", "--all", "--until", "tomorrow"],
      ["list", "--url", "no url"],
    ]) {
      const { code, stderr } = await run(runsCommand, argv, {});
      assert.equal(code, 2, argv.join(" "));
      assert.match(stderr, /svc help/);
    }
  });
});

describe("a table of runs", () => {
  const shown: ShownRun = {
    run_id: "a".repeat(32),
    status: "dead",
    manifest_id: "agent",
    thread_id: "acme:a-conversation-with-a-name",
    accepted_at: 0,
    attempts: 5,
    error: `model_failed: ${"x".repeat(80)}`,
    requeued_as: null,
  };
  const esc = "\u001b";

  test("is no wider than its terminal, complete elsewhere, and never cuts the id", () => {
    for (const columns of [20, 40, 60, 80, 100, 132]) {
      const lines = runTable([shown], 90_000, { columns, colours: false }).split("\n");
      assert.ok(
        lines.every((line) => line.length <= Math.max(columns, 32 + 2 + 6)),
        lines.join("\n"),
      );
      assert.ok(lines[1]?.startsWith(shown.run_id));
    }
    const whole = runTable([shown], 90_000, null);
    assert.ok(whole.includes(shown.error as string));
    assert.match(whole, / 1m /);
  });

  test("is coloured only on request, and foreign text cannot control the terminal", () => {
    const hostile = { ...shown, manifest_id: `${esc}[2Jagent\u202e\n\u009b` };

    const coloured = runTable([hostile], 0, { columns: 200, colours: true });
    const plain = runTable([hostile], 0, { columns: 200, colours: false });

    assert.equal(coloured.split(esc).length, 3, "one colour, and its end");
    for (const bad of [esc, "\u202e", "\u009b"]) assert.ok(!plain.includes(bad));
    assert.equal(plain.split("\n").length, 2);
  });
});
