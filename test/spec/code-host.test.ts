// Connections to a code host, pull requests of agents, and the worktrees of their tasks.
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import Database from "better-sqlite3";
import { parse } from "yaml";
import { calls, inTurn, shown, startChat, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import type { Person } from "../support/github-server.ts";
import type { Answer } from "../support/http-client.ts";
import type { MockModel } from "../support/mock-model.ts";
import { onOneHost } from "../support/on-two-hosts.ts";
import { startRepoHost } from "../support/repo-host.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup, tempDir } from "../support/temp.ts";
import { filesWith, gitProcesses } from "../support/token-traces.ts";

const { env, keys } = apiKeys({
  ann: { tenant_id: "default", sub: "ann", scopes: ["chat:write", "chat:read", "audit:read", "approvals:write"] },
  admin: { tenant_id: "default", sub: "root", scopes: ["admin"] },
  foreign: { tenant_id: "two", sub: "root", scopes: ["admin"] },
});
const octocat: Person = { id: 1, login: "octocat", orgs: { acme: 100 } };
const hubot: Person = { id: 2, login: "hubot", orgs: { acme: 100 } };
const guest: Person = { id: 3, login: "guest", orgs: { globex: 200 } };
const agentToken = "ghp_token_of_the_agents_0123456789";

describe("a code host", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  let host: Awaited<ReturnType<typeof startRepoHost>>;
  let root: string;
  let starts = 0;
  before(async () => {
    host = await startRepoHost(atEnd);
    const files = { "README.md": "# The site\n", "src/main.ts": "one\ntwo\nthree\n" };
    host.add("acme/site", files, { people: [1, 9] });
    host.add("acme/private", files, { people: [1], isPrivate: true });
    host.tokens.set(agentToken, 9);
    root = tempDir(atEnd);
    const port = await freePort();
    const tools = ["read_file", "write_file"];
    const github_publish = { auth: "secret:PUBLISH", branch_prefix: "agent/" };
    // The manifest of docs/repositories.md, with the names of this test.
    const fixer = parse(readFileSync(new URL("../../examples/fixer.yaml", import.meta.url), "utf8"));
    ({ server, mock } = await startChat(atEnd, {
      models: ["scripted", "child"],
      manifests: {
        publisher: { tools, github_publish },
        gated: { ...fixer.spec, github_publish: { ...fixer.spec.github_publish, ...github_publish } },
        elsewhere: { tools, github_publish: { ...github_publish, repo: "acme/other" } },
        flows: { tools, github_publish: { ...github_publish, allow_workflows: true } },
        worker: { tools, github_publish, model: { id: "child" } },
        lead: { tools, delegation: { agents: [{ name: "worker" }], worktree: true } },
      },
      env: {
        ...env,
        ...host.settings,
        SVC_PORT: String(port),
        SVC_PUBLIC_URL: `http://127.0.0.1:${port}`,
        SVC_TRUSTED_CLIENT_IP_HEADER: "x-client",
        SVC_WORKSPACE_ROOT: root,
        SVC_SECRET_PUBLISH: agentToken,
        SVC_GITHUB_KEEP_TOKENS: "true",
        SVC_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString("base64"),
        SVC_GITHUB_APP_SLUG: "our-agent",
        SVC_GITHUB_ORGS: JSON.stringify({
          acme: { id: 100, tenant: "default", scopes: ["chat:write", "chat:read"] },
          globex: { id: 200, tenant: "two", scopes: ["chat:write", "chat:read"] },
        }),
      },
    }));
  });

  const as = (key: keyof typeof keys = "ann") => ({ key: keys[key] });
  const code = ({ status, json }: Answer) => `${status} ${json.error}`;
  const cookieOf = ({ headers }: Answer): string => String(headers["set-cookie"]?.[0]).split(";")[0] as string;
  const pathOf = (thread: string, rest = "") => `/chat/sessions/${thread}/workspace/repo${rest}`;
  const treeOf = (thread: string, tenant = "default") => join(root, ".svc-scopes", tenant, "repos", thread);

  /** Signs a person in in a browser, and returns the token of svc. */
  async function signIn(who: Person): Promise<string> {
    host.signIn.state.who = who;
    const headers = { "x-client": `10.0.0.${++starts}` };
    const asked = `return_to=${encodeURIComponent(`${server.url}/console`)}`;
    const start = await server.get(`/auth/github/authorize?${asked}`, { headers });
    assert.equal(start.status, 302, start.text);
    const { pathname, search } = new URL(String(start.headers.location));
    const away = await fetch(`${host.signIn.url}${pathname}${search}`, { redirect: "manual" });
    const back = new URL(String(away.headers.get("location")));
    const returned = await server.get(back.pathname + back.search, {
      headers: {
        cookie: cookieOf(start),
        "sec-fetch-site": "cross-site",
        "sec-fetch-mode": "navigate",
        "sec-fetch-dest": "document",
      },
    });
    assert.match(String(returned.headers.location), /svc_login=ok/);
    const token = await server.request("POST", "/auth/github/exchange", { headers: { cookie: cookieOf(returned) } });
    assert.equal(token.status, 200, token.text);
    return token.json.access_token;
  }

  async function open(thread: string, full_name = "acme/site", key: string = keys.ann) {
    const opened = await server.post(pathOf(thread), { full_name }, { key });
    assert.equal(opened.status, 202, opened.text);
    const json = await eventually("the end of the clone", async () => {
      const { json } = await server.get(pathOf(thread), { key });
      return json.state === "cloning" ? undefined : json;
    });
    assert.equal(json.state, "ready", JSON.stringify(json));
  }

  /** Runs a turn whose model makes these calls one after the other; returns their results. */
  async function results(
    thread: string,
    manifest: string,
    wanted: readonly (readonly [string, object])[],
    key: string = keys.ann,
  ): Promise<string[]> {
    mock.answer("scripted", inTurn(...wanted.map((one) => calls(one)), { text: "done" }));
    const { status, text } = await server.post("/chat", turn(manifest, "go", { thread_id: thread }), { key });
    assert.equal(status, 200, text);
    return shown(mock.requests.at(-1))
      .filter(({ role }) => role === "tool")
      .slice(-wanted.length)
      .map(({ content }) => content);
  }
  const write = (path: string, content: string) => ["write_file", { path, content }] as const;
  const publish = (branch: string, more: object = {}) =>
    ["publish_commits", { title: "Add a page", body: "It was missing.", branch, ...more }] as const;

  test("GH-005 a person who signs in in a browser is connected until the connection is removed", async () => {
    const key = await signIn(octocat);
    const keyless = await server.get("/github/connection", as());

    const connected = await server.get("/github/connection", { key });
    const removed = await server.request("DELETE", "/github/connection", { key });
    const after = await server.get("/github/connection", { key });
    const again = await server.request("DELETE", "/github/connection", { key });

    assert.deepEqual(keyless.json, { connected: false, connection: null });
    const { created_at, updated_at, refresh_expires_at, ...rest } = connected.json.connection;
    assert.deepEqual(rest, { github_user_id: 1, github_login: "octocat", status: "active" });
    assert.equal(connected.json.connected, true);
    for (const time of [created_at, updated_at]) assert.ok(Math.abs(time - Date.now()) < 60_000);
    assert.ok(refresh_expires_at > Date.now());
    assert.deepEqual([removed.status, again.status], [204, 204]);
    assert.deepEqual(after.json, { connected: false, connection: null });
    assert.equal(host.revoked.length, 1);
    assert.match(String(host.revoked[0]), /^gho_/);
    assert.equal(code(await server.get("/github/repos", { key })), "409 github_not_connected");
  });

  test("GH-006 an administrator lists and removes the connections of the tenant alone", async () => {
    await signIn(octocat);
    const key = await signIn(hubot);
    await signIn(guest);

    const listed = await server.get("/github/connections", as("admin"));
    const foreign = await server.request("DELETE", "/github/connections/2", as("foreign"));
    const removed = await server.request("DELETE", "/github/connections/2", as("admin"));

    assert.deepEqual(
      listed.json.items.map(({ github_login }: { github_login: string }) => github_login),
      ["octocat", "hubot"],
    );
    assert.doesNotMatch(listed.text, /gh[a-z]_/);
    assert.deepEqual([foreign.status, removed.status], [404, 204]);
    assert.equal((await server.request("DELETE", "/github/connections/2", as("admin"))).status, 404);
    assert.equal((await server.get("/github/connections", as())).status, 403);
    assert.equal((await server.request("DELETE", "/github/connections/1", as())).status, 403);
    assert.deepEqual((await server.get("/github/connection", { key })).json.connected, false);
  });

  test("GH-007 the repositories of a connection are those of its installations", async () => {
    const key = await signIn(octocat);

    const all = await server.get("/github/repos", { key });
    const some = await server.get("/github/repos?q=PRIV", { key });

    assert.equal(all.status, 200, all.text);
    assert.deepEqual(all.json, {
      installations: [{ id: 42, account: "acme", account_type: "Organization", repository_selection: "selected" }],
      repositories: ["site", "private"].map((name) => ({
        ...{ full_name: `acme/${name}`, private: name === "private", archived: false, default_branch: "main" },
        ...{ can_write: true, size_kb: 1, installation_id: 42 },
      })),
      truncated: false,
      install_url: "https://model.test/apps/our-agent/installations/new",
    });
    assert.deepEqual(some.json.repositories.length, 1);
    host.state.down = true;
    assert.equal(code(await server.get("/github/repos", { key })), "502 github_unavailable");
    host.state.down = false;
    host.state.isLimited = true;
    const limited = await server.get("/github/repos", { key });
    const opened = await server.post(pathOf("limited"), { full_name: "acme/site" }, as());
    host.state.isLimited = false;
    assert.deepEqual([limited, opened].map(code), ["502 github_unavailable", "502 github_unavailable"]);
  });

  test("GH-007 an expired token is refreshed once, and a refused one revokes the connection", async () => {
    host.state.expiresIn = 30;
    const key = await signIn(octocat);
    const asked = () => host.requests.filter(({ path }) => path === "POST /login/oauth/access_token").length;
    const before = asked();

    host.state.expiresIn = 28_800;
    const both = await Promise.all([server.get("/github/repos", { key }), server.get("/github/repos", { key })]);

    assert.deepEqual(
      both.map(({ status }) => status),
      [200, 200],
    );
    assert.equal(asked(), before + 1);
    host.tokens.clear();
    host.tokens.set(agentToken, 9);
    assert.equal(code(await server.get("/github/repos", { key })), "409 github_connection_revoked");
    assert.equal((await server.get("/github/connection", { key })).json.connection.status, "revoked");
    assert.equal(
      code(await server.post(pathOf("revoked"), { full_name: "acme/site" }, { key })),
      "409 github_connection_revoked",
    );
  });

  test("GH-007 the refusal of an old token does not revoke the newer one", {
    skip: onOneHost("it writes to the file of SQLite"),
  }, async () => {
    const key = await signIn(octocat);
    const old = [...host.tokens.keys()].at(-1) as string;
    host.tokens.delete(old);
    const db = new Database(join(server.dataDir, "svc.db"), { timeout: 10_000 });
    // The request has read its token; then another one stores a newer one.
    host.state.onApi = () => {
      db.prepare("UPDATE github_connections SET version = version + 1 WHERE github_user_id = 1").run();
    };

    const refused = await server.get("/github/repos", { key });

    host.state.onApi = null;
    db.close();
    assert.equal(code(refused), "502 github_unavailable");
    assert.equal((await server.get("/github/connection", { key })).json.connection.status, "active");
    assert.equal(code(await server.get("/github/repos", { key })), "409 github_connection_revoked");
  });

  test("GH-001 a private repository is cloned with the token of its person", async () => {
    const key = await signIn(octocat);
    const token = [...host.tokens.keys()].at(-1) as string;
    let seen = "";
    let onDisk = "not looked";
    host.state.onGit = () => {
      seen += gitProcesses();
      onDisk = filesWith(token, server.dataDir, root);
    };

    await open("private", "acme/private", key);
    host.state.onGit = null;

    assert.match(seen, /GIT_DIR=/);
    assert.doesNotMatch(seen, new RegExp(token));
    assert.equal(onDisk, "", "no token is on the disk in the middle of a clone");
    assert.equal(readFileSync(join(treeOf("private"), "README.md"), "utf8"), "# The site\n");
    const kept = readdirSync(join(server.dataDir, "checkouts"), { recursive: true, withFileTypes: true });
    for (const entry of kept.filter((one) => one.isFile() && !one.parentPath.includes("objects")))
      assert.doesNotMatch(readFileSync(join(entry.parentPath, entry.name), "latin1"), /gh[a-z]_\w+|x-access-token/);
    const other = await signIn(hubot);
    const refused = await server.post(pathOf("theirs"), { full_name: "acme/private" }, { key: other });
    assert.equal(code(refused), "404 repository_unreachable");
  });

  test("publish_commits pushes a new branch and opens a pull request", async () => {
    await open("pull");

    const [, published, again, taken] = await results("pull", "publisher", [
      write("page.html", "<p>A page</p>\n"),
      publish("page"),
      publish("page"),
      write("other.html", "x"),
    ]);

    const { branch, commit, url, number } = JSON.parse(String(published));
    assert.deepEqual([branch, url, number], ["agent/page", "https://model.test/acme/site/pull/1", 1]);
    assert.deepEqual(host.pulls.at(-1), {
      ...{ title: "Add a page", body: "It was missing.", head: "agent/page", base: "main", number: 1, html_url: url },
    });
    assert.equal(host.git("acme/site", "rev-parse", "agent/page"), commit);
    assert.equal(host.git("acme/site", "show", "agent/page:page.html"), "<p>A page</p>");
    assert.equal(host.git("acme/site", "rev-parse", "agent/page^"), host.git("acme/site", "rev-parse", "main"));
    assert.match(String(again), /nothing to publish/);
    assert.doesNotMatch(String(taken), /error/);
    const { json } = await server.get(pathOf("pull"), as());
    assert.deepEqual([json.branch, json.ahead, json.dirty], ["agent/page", 1, true]);
    const [refused] = await results("pull", "publisher", [publish("page")]);
    assert.match(String(refused), /the branch agent\/page exists already/);
    assert.equal(host.git("acme/site", "rev-parse", "agent/page"), commit);
    const audited = await eventually("the audit row", async () => {
      const rows = await server.get("/audit?event_type=commits_published", as());
      return rows.json.items[0];
    });
    assert.deepEqual(
      [audited.payload.repo, audited.payload.branch, audited.payload.commit],
      ["acme/site", "agent/page", commit],
    );
  });

  test("publish_commits refuses what the manifest does not allow", async () => {
    await open("bounds");
    writeFileSync(join(treeOf("bounds"), "new.txt"), "new");

    const [other] = await results("bounds", "elsewhere", [publish("x")]);
    const [none] = await results("nowhere", "publisher", [publish("x")]);
    const [base, dashes] = await results("bounds", "publisher", [publish("../x"), publish("a..b")]);
    const [, workflow] = await results("bounds", "publisher", [
      write(".github/workflows/ci.yml", "on: push"),
      publish("w"),
    ]);
    const [allowed] = await results("bounds", "flows", [publish("w")]);

    assert.match(String(other), /publishes to acme\/other only/);
    assert.match(String(none), /has no repository/);
    for (const text of [base, dashes]) assert.match(String(text), /no name of a branch/);
    assert.match(String(workflow), /\.github\/workflows\/ci\.yml is a workflow/);
    assert.match(String(allowed), /"number":/);
  });

  test("an approval of publish_commits holds for the files that the person has seen", async () => {
    await open("gated");
    mock.answer("scripted", inTurn(calls(write("seen.txt", "seen\n")), calls(publish("seen")), { text: "done" }));
    const ask = () => server.post("/chat", turn("gated", "go", { thread_id: "gated" }), as());
    const pending = () =>
      eventually("the request", async () => {
        const { json } = await server.get("/approvals?status=pending&thread_id=gated", as());
        return json.items[0];
      });
    const decide = (id: string) => server.post(`/approvals/${id}/decide`, { decision: "approved" }, as());
    const over = () =>
      eventually("the end of the run", async () => {
        const { json } = await server.get("/chat/history/gated", as());
        return json.messages.at(-1).content === "done" ? json.messages : undefined;
      });
    await ask();
    const first = await pending();
    writeFileSync(join(treeOf("gated"), "unseen.txt"), "unseen\n");
    await decide(first.approval_id);
    await over();
    const refused = String(shown(mock.requests.at(-1)).findLast(({ role }) => role === "tool")?.content);
    mock.answer("scripted", inTurn(calls(publish("seen")), { text: "done" }));
    await server.post("/chat", turn("gated", "again", { thread_id: "gated" }), as());
    const second = await pending();
    await decide(second.approval_id);
    const made = await eventually("the pull request", async () => host.pulls.find(({ head }) => head === "agent/seen"));

    assert.match(first.args.preview, /seen\.txt \| 1 \+[\s\S]*\+seen/);
    assert.match(first.args.tree, /^[0-9a-f]{40}$/);
    assert.equal(first.args.base_commit, host.git("acme/site", "rev-parse", "main"));
    assert.match(refused, /the files have changed since the call was made/);
    assert.match(second.args.preview, /unseen/);
    assert.equal(made.title, "Add a page");
    assert.equal(host.git("acme/site", "show", "agent/seen:unseen.txt"), "unseen");
  });

  test("a failed pull request is completed by the next call, and a branch is never overwritten", async () => {
    await open("later");
    host.state.refusesPulls = true;

    const [, refused] = await results("later", "publisher", [write("later.txt", "later"), publish("later")]);
    const pushed = host.git("acme/site", "rev-parse", "agent/later");
    host.state.refusesPulls = false;
    const [made] = await results("later", "publisher", [publish("later")]);

    assert.match(String(refused), /is pushed, but the pull request was refused: Pull requests are off/);
    assert.equal(JSON.parse(String(made)).commit, pushed);
  });

  test("a force-push during the work changes no file, and no branch is published from the base that is gone", async () => {
    host.add("acme/forced", { "a.txt": "a\n" }, { people: [1, 9] });
    await open("forced", "acme/forced");
    const before = host.git("acme/forced", "rev-parse", "main");
    const other = host.git("acme/forced", "commit-tree", `${before}^{tree}`, "-m", "rewritten");
    host.git("acme/forced", "update-ref", "refs/heads/main", other);

    const [, published] = await results("forced", "publisher", [write("b.txt", "b\n"), publish("forced")]);

    assert.equal(readFileSync(join(treeOf("forced"), "a.txt"), "utf8"), "a\n");
    // A shallow clone cannot push a commit whose parent no branch of the code host has any more.
    assert.match(String(published), /the code host did not accept the push/);
    assert.equal(readFileSync(join(treeOf("forced"), "b.txt"), "utf8"), "b\n");
    assert.equal(host.git("acme/forced", "branch", "--list", "agent/*"), "");
    assert.equal(host.git("acme/forced", "rev-parse", "main"), other);
  });

  test("DEL-008 a task works on files of its own, and its parent merges them", async () => {
    await open("lead");
    const ids: string[] = [];
    mock.answer(
      "child",
      inTurn(
        calls(
          write("child.txt", "of the child\n"),
          ["write_file", { path: "src/main.ts", content: "ONE\ntwo\nthree\n" }],
          publish("mine"),
        ),
        { text: "Changed." },
      ),
    );
    mock.answer("scripted", inTurn(calls(["task", { agent: "worker", prompt: "go" }]), { text: "done" }));
    await server.post("/chat", turn("lead", "go", { thread_id: "lead" }), as());
    const told = shown(mock.requests.at(-1)).at(-1)?.content ?? "";
    const [, id = ""] = /\[task ([0-9a-f]{16}) has changed files/.exec(told) ?? [];
    ids.push(id);
    const before = existsSync(join(treeOf("lead"), "child.txt"));
    const child = mock.requests.filter(({ body }) => body.model === "child").at(-1);
    const published = shown(child).findLast(({ role }) => role === "tool")?.content ?? "";

    writeFileSync(join(treeOf("lead"), "README.md"), "# Changed by the parent\n");
    const [merged] = await results("lead", "lead", [["merge_task", { task_id: id }]]);
    const [again] = await results("lead", "lead", [["merge_task", { task_id: id }]]);

    assert.match(told, /^Changed\.[\s\S]*Branch svc\/task\/[0-9a-f]{16}:\][\s\S]*child\.txt/);
    assert.equal(before, false);
    assert.match(published, /published by the run that has started it/);
    assert.match(String(merged), /^Merged\.[\s\S]*child\.txt/);
    assert.equal(readFileSync(join(treeOf("lead"), "child.txt"), "utf8"), "of the child\n");
    assert.equal(readFileSync(join(treeOf("lead"), "src/main.ts"), "utf8"), "ONE\ntwo\nthree\n");
    assert.equal(readFileSync(join(treeOf("lead"), "README.md"), "utf8"), "# Changed by the parent\n");
    assert.match(String(again), /holds work/);
    assert.ok(!existsSync(treeOf(`task-${id}`)));
  });

  test("DEL-008 at most eight tasks hold work, conflicts are marked, and empty worktrees go at once", async () => {
    await open("many");
    const work = async (content: string | null) => {
      const wanted = content === null ? ["read_file", { path: "README.md" }] : write("same.txt", content);
      mock.answer("child", inTurn(calls(wanted as [string, object]), { text: "Done." }));
      mock.answer("scripted", inTurn(calls(["task", { agent: "worker", prompt: "go" }]), { text: "done" }));
      await server.post("/chat", turn("lead", "go", { thread_id: "many" }), as());
      const told = shown(mock.requests.at(-1)).at(-1)?.content ?? "";
      return { told, id: /\[task ([0-9a-f]{16}) /.exec(told)?.[1] ?? "" };
    };

    const empty = await work(null);
    const held: { told: string; id: string }[] = [];
    for (let at = 1; at <= 8; at++) held.push(await work(`text ${at}\n`));
    const ninth = await work("text 9\n");
    const [first, second, third] = await results("many", "lead", [
      ["merge_task", { task_id: held[0]?.id }],
      ["merge_task", { task_id: held[1]?.id }],
      ["merge_task", { task_id: held[2]?.id, discard: true }],
    ]);
    const tenth = await work("text 10\n");

    assert.equal(empty.told, "Done.");
    assert.match(ninth.told, /8 tasks of this conversation hold work/);
    assert.match(String(first), /^Merged\./);
    assert.match(String(second), /conflicts, in git's marks: same\.txt/);
    assert.match(readFileSync(join(treeOf("many"), "same.txt"), "utf8"), /<<<<<<<[\s\S]*text 1[\s\S]*text 2/);
    assert.match(String(third), /is discarded/);
    assert.match(tenth.told, /has changed files/);
    const gitDir = readdirSync(join(server.dataDir, "checkouts")).length;
    assert.ok(gitDir > 0);
    assert.equal((await server.request("DELETE", pathOf("many"), as())).status, 204);
    assert.ok(
      readdirSync(join(root, ".svc-scopes/default/repos")).every((name) => !held.some(({ id }) => name.includes(id))),
    );
  });
});
