import { before, type TestContext } from "node:test";
import type { Page } from "playwright-core";
import { calls, gate, inTurn, says, startMock } from "../support/chat.ts";
import { findChromium } from "../support/chromium.ts";
import { openConsole, startConsoleBrowser } from "../support/console-browser.ts";
import { freePort } from "../support/free-port.ts";
import { startGithub } from "../support/github-server.ts";
import { has } from "../support/needs.ts";
import { apiKeys, startServer } from "../support/server.ts";
import { type Cleanup, cleanup, tempDir } from "../support/temp.ts";

// One server and one browser for all tests of the console. Their start takes seconds.

/** What the tests of the console share. */
export type SharedConsole = ReturnType<typeof sharedConsole>;

type Options = Parameters<typeof openConsole>[2];

/** A text that runs a script wherever a page takes it as markup. */
export const evil =
  '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script><iframe srcdoc="<script>parent.pwned=1</script>"></iframe>' +
  "[click](javascript:window.pwned=1) ![x](https://evil.example/p.png) <style>body{display:none}</style>";

const desktop = 1280;

const { env: keyEnv, keys } = apiKeys({
  admin: { sub: "ada", scopes: ["*"] },
  reader: { sub: "vic", scopes: ["chat:read", "workflows:read"] },
});

/** Starts the server and the browser before the tests of the suite that calls it. */
export function sharedConsole() {
  const atEnd = cleanup();
  const executable = findChromium();
  let started: Awaited<ReturnType<typeof start>>;
  before(async () => {
    if (executable !== null) started = await start(executable, atEnd);
  });
  let idle: Page | null = null;
  const open = (options: Options = {}, at = started.server.url) => openConsole(started.browser, { url: at }, options);
  const send = (method: string) => (path: string, body: object) =>
    started.server.request(method, path, { key: keys.admin, body });
  return {
    atEnd,
    keys,
    get server() {
      return started.server;
    },
    get github() {
      return started.github;
    },
    /** Lets the model "slow" write the second half of its answer. */
    finishSlow: () => started.half.open(),
    ready: (t: TestContext) => has(t, executable !== null, "needs Chromium: apt-get install chromium"),
    /** Opens the console in a tab of its own, by default at the server's own address. */
    open,
    /** Shows a screen to the admin, in the tab that the last test left if there is one: a load of the page costs a second. */
    async visit(at: string, width = desktop): Promise<Page> {
      const page = idle;
      idle = null;
      if (page === null) return open({ key: keys.admin, at, width });
      await page.setViewportSize({ width, height: 800 });
      const isSame = screenOf(page.url()) === screenOf(at);
      await page.goto(`${started.server.url}/console${at}`);
      // The parts of a screen keep what a person chose in them, so another test loads it again.
      if (isSame) await page.reload();
      return page;
    },
    /** Leaves the tab to the next test. A test that fails keeps its tab. */
    leave(page: Page): void {
      idle = page;
    },
    post: send("POST"),
    put: send("PUT"),
  };
}

function screenOf(url: string): string {
  return /#\/(\w+)/.exec(url)?.[1] ?? "";
}

async function start(executable: string, atEnd: Cleanup) {
  const github = await startGithub(atEnd);
  const port = await freePort();
  const tools = ["calculator"];
  const approvals = [{ id: "first", tools }];
  const { mock, env } = await startMock(atEnd, {
    models: ["talk", "plain", "slow", "sums", "reads", "evil"],
    manifests: {
      talk: { spec: { model: { id: "talk" }, tools: ["calculator", "todo_write"] } },
      plain: { spec: { model: { id: "plain" } } },
      slow: { spec: { model: { id: "slow" } } },
      sums: { spec: { model: { id: "sums" }, tools, approvals } },
      batch: { spec: { model: { id: "sums" }, tools, execution: { mode: "durable" } } },
      // An approval covers equal calls of its manifest, so each test that decides one has a manifest of its own.
      gated: { spec: { model: { id: "sums" }, tools, execution: { mode: "durable" }, approvals } },
      contested: { spec: { model: { id: "sums" }, tools, execution: { mode: "durable" }, approvals } },
      tainted: {
        spec: {
          model: { id: "reads" },
          tools: [...tools, "write_file", "read_file"],
          execution: { mode: "durable" },
          approvals: [{ id: "outside", tools, when_tainted: ["*"] }],
        },
      },
      evil: { metadata: { description: evil }, spec: { model: { id: "evil" }, tools } },
    },
    env: {
      ...keyEnv,
      ...github.settings,
      SVC_COMMERCE_ENABLED: "true",
      SVC_RUNTIME_KEYS: "true",
      SVC_PORT: String(port),
      SVC_WORKSPACE_ROOT: tempDir(atEnd),
      SVC_PUBLIC_URL: `http://127.0.0.1:${port}`,
      SVC_GITHUB_ORGS: JSON.stringify({
        acme: { id: 100, tenant: "acme", scopes: ["chat:read"] },
        globex: { id: 200, tenant: "globex", scopes: ["chat:read"] },
      }),
      SVC_GOOGLE_ACCOUNTS: JSON.stringify({ "ann@example.com": { tenant: "acme", scopes: ["chat:read"] } }),
    },
  });
  const half = gate();
  const todos = [{ content: "Add", status: "in_progress", active_form: "Adding" }];
  mock.answer(
    "talk",
    inTurn(
      { reasoning: ["I add."], ...calls(["todo_write", { todos }], ["calculator", { expression: "6 * 7" }]) },
      { text: ["The answer is **42**."] },
    ),
  );
  mock.answer("plain", { text: ["Good."] });
  mock.answer("slow", says("The first half, ", half.opened, "and the second half."));
  mock.answer("sums", inTurn(calls(["calculator", { expression: "1 + 1" }]), { text: ["It is 2."] }));
  mock.answer(
    "reads",
    inTurn(
      calls(["write_file", { path: "a.txt", content: "Words of a file." }]),
      calls(["read_file", { path: "a.txt" }]),
      calls(["calculator", { expression: "1 + 1" }]),
      { text: ["Done."] },
    ),
  );
  mock.answer("evil", inTurn(calls(["calculator", { expression: evil }]), { text: [evil] }));
  const server = await startServer({ atEnd, env });
  return { github, half, server, browser: await startConsoleBrowser(executable, atEnd) };
}
