// svc task run: an operator runs a periodic task of a running server.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { taskCommand } from "../../../host/cli/task.ts";
import { taskNames } from "../../../host/periodic-tasks.ts";
import { apiKeys, startServer, type TestServer } from "../../support/server.ts";
import { cleanup } from "../../support/temp.ts";
import { run, runJson } from "./support.ts";

const { env, keys } = apiKeys({ operator: { scopes: ["tasks:run"] }, nobody: { scopes: ["chat:write"] } });

describe("svc task run", () => {
  const atEnd = cleanup();
  let server: TestServer;
  before(async () => {
    server = await startServer({ env, atEnd });
  });

  const task = (name: string, SVC_KEY: string, url = server.url) =>
    run(taskCommand, ["run", name, "--url", url], { SVC_KEY });

  test("TASK-003 every task of the server runs on request, and its end is reported", async () => {
    for (const name of taskNames)
      assert.deepEqual(await task(name, keys.operator), { code: 0, stdout: `${name}: done\n`, stderr: "" });
    const port = new URL(server.url).port;
    const environment = { SVC_KEY: keys.operator, SVC_PORT: port };
    assert.deepEqual(await runJson(taskCommand, ["run", "run_scheduled_jobs"], environment), {
      code: 0,
      answer: { ok: true, task: "run_scheduled_jobs" },
    });
  });

  test("a task that cannot run is reported with exit 1", async () => {
    const answers = [
      await task("nothing", keys.operator),
      await task("run_scheduled_jobs", keys.nobody),
      await task("run_scheduled_jobs", "key-of-somebody-else-0123456789"),
      await task("run_scheduled_jobs", keys.operator, "http://127.0.0.1:1"),
    ];

    assert.deepEqual(
      answers.map(({ code, stdout }) => [code, stdout]),
      answers.map(() => [1, ""]),
    );
    const words = [
      /has no task nothing/,
      /answered 403: .*missing scopes: tasks:run/,
      /answered 401/,
      /no answer from http:\/\/127\.0\.0\.1:1 /,
    ];
    for (const [at, word] of words.entries()) assert.match(answers[at]?.stderr ?? "", word);
    assert.ok(answers.every(({ stderr }) => !stderr.includes("0123456789")));
  });

  test("a wrong command line is exit 2", async () => {
    for (const argv of [
      ["stop", "x"],
      ["run"],
      ["run", "a b"],
      ["run", "../health"],
      ["run", "x", "--url", "no url"],
    ]) {
      const { code, stderr } = await run(taskCommand, argv, {});
      assert.equal(code, 2, argv.join(" "));
      assert.match(stderr, /svc help/);
    }
  });
});
