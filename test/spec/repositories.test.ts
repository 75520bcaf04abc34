// Repositories that threads work in, against git's own server over https: clone, files, tools, and the ends of a checkout.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { calls, gate, inTurn, says, shown, startChat, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import type { Answer } from "../support/http-client.ts";
import type { MockModel } from "../support/mock-model.ts";
import { startRepoHost } from "../support/repo-host.ts";
import { changeIn } from "../support/rows-in.ts";
import { sqliteIn } from "../support/seed.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup, tempDir } from "../support/temp.ts";

const { env, keys } = apiKeys({
  ann: { tenant_id: "default", sub: "ann", scopes: ["chat:write", "chat:read", "audit:read"] },
  other: { tenant_id: "two", sub: "ann", scopes: ["chat:write", "chat:read"] },
});
type Name = keyof typeof keys;
const files = {
  "README.md": "# The site\n",
  "src/main.ts": "export const answer = 41;\n",
  "src/deep/er.txt": "deep\n",
  ".gitignore": "ignored/\n",
  "link.md": "-> README.md",
  "folder-link": "-> src",
};

describe("the repository of a thread", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  let host: Awaited<ReturnType<typeof startRepoHost>>;
  let root: string;
  before(async () => {
    host = await startRepoHost(atEnd);
    host.add("acme/site", files);
    host.addMany("acme/many", 100_001);
    root = tempDir(atEnd);
    const port = await freePort();
    const tools = ["read_file", "write_file", "edit_file", "list_dir", "search_files", "glob"];
    ({ server, mock } = await startChat(atEnd, {
      models: ["scripted"],
      manifests: {
        agent: { tools },
        shared: { tools, workspace: { scope: "tenant" } },
      },
      env: {
        ...env,
        ...host.settings,
        SVC_PORT: String(port),
        SVC_PUBLIC_URL: `http://127.0.0.1:${port}`,
        SVC_TRUSTED_CLIENT_IP_HEADER: "x-client",
        SVC_WORKSPACE_ROOT: root,
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

  const as = (key: Name = "ann") => ({ key: keys[key] });
  const pathOf = (thread: string, rest = "") => `/chat/sessions/${thread}/workspace/repo${rest}`;
  const open = (thread: string, full_name: string, more: object = {}, key: Name = "ann") =>
    server.post(pathOf(thread), { full_name, ...more }, as(key));
  const state = (thread: string, key: Name = "ann") => server.get(pathOf(thread), as(key));
  const treeOf = (thread: string) => join(root, ".svc-scopes", "default", "repos", thread);
  const gitDirs = () => {
    const folder = join(server.dataDir, "checkouts");
    return existsSync(folder) ? readdirSync(folder).filter((name) => !name.endsWith(".pem")) : [];
  };
  const code = ({ status, json }: Answer) => `${status} ${json.error}`;
  const ended = (thread: string) =>
    eventually("the end of the clone", async () => {
      const { json } = await state(thread);
      return json.state === "cloning" ? undefined : json;
    });
  async function ready(thread: string, full_name = "acme/site", more: object = {}) {
    const opened = await open(thread, full_name, more);
    assert.equal(opened.status, 202, opened.text);
    const json = await ended(thread);
    assert.equal(json.state, "ready", JSON.stringify(json));
    return json;
  }
  async function results(thread: string, ...wanted: readonly (readonly [string, object])[]): Promise<string[]> {
    mock.answer("scripted", inTurn(calls(...wanted), { text: "done" }));
    const { status, text } = await server.post("/chat", turn("agent", "go", { thread_id: thread }), as());
    assert.equal(status, 200, text);
    return shown(mock.requests.at(-1))
      .slice(-wanted.length)
      .map(({ content }) => content);
  }

  test("GH-001 GH-002 a repository is cloned into the thread's own checkout", async () => {
    assert.equal(code(await state("first")), "404 no_repository");

    const opened = await open("first", "acme/site");

    assert.equal(opened.status, 202, opened.text);
    const { created_at, ...rest } = opened.json;
    const none = { error: null, branch: null, ahead: null, dirty: null };
    assert.deepEqual(rest, {
      ...{ state: "cloning", repo: "acme/site", base: "main", private: false, opened_by: "ann" },
      ...none,
    });
    assert.ok(Math.abs(created_at - Date.now()) < 60_000);
    const { created_at: _, ...after } = await ended("first");
    assert.deepEqual(after, { ...rest, state: "ready", branch: "main", ahead: 0, dirty: false });
    assert.equal(readFileSync(join(treeOf("first"), "src/main.ts"), "utf8"), files["src/main.ts"]);
    assert.ok(!existsSync(join(treeOf("first"), ".git")));
    assert.equal(code(await open("first", "acme/site")), "409 thread_has_repository");
  });

  test("GH-004 the files of the checkout are those of git, with their changes", async () => {
    await ready("listed");
    writeFileSync(join(treeOf("listed"), "src/main.ts"), "changed");
    writeFileSync(join(treeOf("listed"), "new.txt"), "new");
    execFileSync("mkdir", ["-p", join(treeOf("listed"), "ignored")]);
    writeFileSync(join(treeOf("listed"), "ignored/x"), "x");
    execFileSync("rm", [join(treeOf("listed"), "README.md")]);

    const { status, json } = await server.get(pathOf("listed", "/files"), as());
    const below = await server.get(pathOf("listed", "/files?prefix=src/&limit=1"), as());

    assert.equal(status, 200);
    assert.deepEqual(json, {
      state: "ready",
      truncated: false,
      files: [
        { path: ".gitignore", kind: "file", size: 9, status: "clean" },
        { path: "README.md", kind: "missing", size: null, status: "deleted" },
        { path: "folder-link", kind: "symlink", size: null, status: "clean" },
        { path: "link.md", kind: "symlink", size: null, status: "clean" },
        { path: "new.txt", kind: "file", size: 3, status: "untracked" },
        { path: "src/deep/er.txt", kind: "file", size: 5, status: "clean" },
        { path: "src/main.ts", kind: "file", size: 7, status: "modified" },
      ],
    });
    assert.deepEqual(
      [below.json.files.map(({ path }: { path: string }) => path), below.json.truncated],
      [["src/deep/er.txt"], true],
    );
    for (const prefix of ["/etc", "../x", "a/../../b", "a%00b"])
      assert.equal(
        code(await server.get(pathOf("listed", `/files?prefix=${prefix}`), as())),
        "400 invalid_prefix",
        prefix,
      );
    assert.equal((await state("listed")).json.dirty, true);
    const tracked = host.git("acme/site", "ls-tree", "-r", "--name-only", "main").split("\n");
    const listed = json.files.map(({ path }: { path: string }) => path);
    assert.deepEqual(
      tracked.filter((path) => !listed.includes(path)),
      [],
    );
  });

  test("WS-020 the tools and the pane of a thread work in its checkout", async () => {
    await ready("tools");

    const [read, written, searched] = await results(
      "tools",
      ["read_file", { path: "src/main.ts" }],
      ["write_file", { path: "src/more.ts", content: "more" }],
      ["search_files", { query: "answer = 41" }],
    );

    assert.match(String(read), /answer = 41/);
    assert.doesNotMatch(String(written), /tool error/);
    assert.match(String(searched), /src\/main\.ts/);
    assert.equal(readFileSync(join(treeOf("tools"), "src/more.ts"), "utf8"), "more");
    const tree = await server.get("/chat/workspace/tree?thread_id=tools", as());
    assert.deepEqual([tree.json.root_kind, tree.json.scope], ["checkout", null]);
    assert.ok(tree.json.entries.some(({ path }: { path: string }) => path === "src/more.ts"));
    const put = await server.post("/chat/workspace/write", { thread_id: "tools", path: "a.txt", content: "a" }, as());
    assert.equal(put.status, 200, put.text);
    assert.ok(existsSync(join(treeOf("tools"), "a.txt")));
  });

  test("WS-013 WS-014 paths of a checkout are bounded, and links and .git are refused", async () => {
    await ready("bounded");

    const refused = await results(
      "bounded",
      ["read_file", { path: "/etc/passwd" }],
      ["read_file", { path: "../x" }],
      ["read_file", { path: "link.md" }],
      ["read_file", { path: "folder-link/main.ts" }],
      ["write_file", { path: "folder-link/x", content: "x" }],
      ["write_file", { path: ".git/config", content: "x" }],
      ["write_file", { path: ".gitattributes", content: "* filter=x" }],
    );

    assert.match(String(refused[0]), /absolute/);
    assert.match(String(refused[1]), /leaves the workspace/);
    for (const text of refused.slice(2, 5)) assert.match(text, /symlinks are not followed/);
    assert.match(String(refused[5]), /not written/);
    assert.match(String(refused[6]), /not written/);
  });

  test("GH-003 a removed checkout leaves nothing, and the thread has its old files", async () => {
    await ready("gone");
    const before = gitDirs().length;

    const removed = await server.request("DELETE", pathOf("gone"), as());

    assert.equal(removed.status, 204, removed.text);
    assert.equal(code(await state("gone")), "404 no_repository");
    assert.equal(code(await server.request("DELETE", pathOf("gone"), as())), "404 no_repository");
    assert.ok(!existsSync(treeOf("gone")));
    assert.equal(gitDirs().length, before - 1);
    const tree = await server.get("/chat/workspace/tree?thread_id=gone", as());
    assert.deepEqual([tree.json.root_kind, tree.json.entries], ["scoped", []]);
  });

  test("GH-003 the deletion of a thread deletes its checkout", async () => {
    await ready("erased");
    await results("erased", ["list_dir", {}]);

    const erased = await server.request("DELETE", "/chat/history/erased", as());

    assert.equal(erased.status, 200, erased.text);
    assert.ok(!existsSync(treeOf("erased")));
    assert.equal(code(await state("erased")), "404 no_repository");
  });

  test("another tenant sees no repository, and cannot remove one", async () => {
    await ready("mine");

    const answers = [
      await state("mine", "other"),
      await server.get(pathOf("mine", "/files"), as("other")),
      await server.request("DELETE", pathOf("mine"), as("other")),
    ];

    for (const answer of answers) assert.equal(code(answer), "404 no_repository");
    const theirs = await open("mine", "acme/site", {}, "other");
    assert.equal(theirs.status, 202, theirs.text);
    assert.equal((await ended("mine")).state, "ready");
    assert.ok(existsSync(treeOf("mine")));
  });

  test("a checkout outlives a restart, and expires after its days without use", async () => {
    const thread = "expires";
    await ready(thread);
    await ready("used-lately");
    await ready("with-changes");
    writeFileSync(join(treeOf("with-changes"), "new.txt"), "new");
    await server.restart();
    assert.equal((await state(thread)).json.state, "ready");
    const days = (count: number) => Date.now() - count * 86_400_000;
    const age = "UPDATE repo_checkouts SET used_at = ? WHERE thread IN (?, ?)";
    await changeIn(sqliteIn(server.dataDir), age, days(15), thread, "with-changes");
    const before = gitDirs().length;

    await server.restart();

    const expired = await eventually("the expiry", async () => {
      const { json } = await state(thread);
      return json.state === "expired" && gitDirs().length < before ? json : undefined;
    });
    assert.match(expired.error, /not used for 14 days/);
    assert.ok(!existsSync(treeOf(thread)));
    assert.deepEqual((await server.get(pathOf(thread, "/files"), as())).json.files, []);
    for (const kept of ["used-lately", "with-changes"]) assert.equal((await state(kept)).json.state, "ready", kept);
    await ready(thread);
  });

  test("GH-001 a tenant clones four repositories at once, and a run keeps its checkout", async () => {
    let free = (): void => {};
    const served = new Promise<void>((resolve) => {
      free = resolve;
    });
    host.state.onGit = () => served;
    for (const at of [1, 2, 3, 4]) assert.equal((await open(`clone-${at}`, "acme/site")).status, 202);
    const fifth = await open("clone-5", "acme/site");
    const cloning = await server.get(pathOf("clone-1", "/files"), as());
    const [tool] = await results("clone-1", ["read_file", { path: "README.md" }]);
    const removed = await server.request("DELETE", pathOf("clone-4"), as());
    host.state.onGit = null;
    free();

    assert.equal(code(fifth), "409 checkout_busy");
    assert.equal(code(cloning), "409 checkout_cloning");
    assert.match(String(tool), /repository of this conversation is not ready/);
    assert.equal(removed.status, 204);
    assert.equal(code(await state("clone-4")), "404 no_repository");
    for (const at of [1, 2, 3]) assert.equal((await ended(`clone-${at}`)).state, "ready");
    const more = gate();
    const sent = mock.requests.length;
    mock.answer("scripted", says("Begun", more.opened, "."));
    const turned = server.post("/chat", turn("agent", "go", { thread_id: "clone-1" }), as());
    await eventually("the model call", async () => (mock.requests.length > sent ? true : undefined));
    const busy = await server.request("DELETE", pathOf("clone-1"), as());
    const another = await open("clone-1", "acme/site");
    more.open();
    await turned;
    assert.equal(code(busy), "409 checkout_busy");
    assert.equal(code(another), "409 checkout_busy");
  });

  test("GH-001 what cannot be cloned is refused or fails by name, and leaves nothing", async () => {
    host.add("acme/empty", null);
    host.add("acme/escape", { "a/out": "-> ../../etc" });
    host.add("acme/absolute", { out: "-> /etc/passwd" });
    host.add("acme/gitlink", { "a/hooks": "-> ../.GIT/hooks" });
    host.add("acme/chained", { "d/self": "-> .", "d/out": "-> self/../.." });
    host.add("acme/secret", { a: "a" }, { isPrivate: true });
    host.add("acme/large", { a: "a" });
    host.repo("acme/large").size = 600 * 1024;
    const gitDir = host.add("acme/dotgit", { a: "a" });
    plantGitFolder(gitDir);
    const before = gitDirs().length;
    const cases = [
      ["acme/empty", /no branch main, or is empty/],
      ["acme/escape", /symlink a\/out leads out/],
      ["acme/absolute", /symlink out leads out/],
      ["acme/gitlink", /symlink a\/hooks leads out/],
      ["acme/chained", /symlink d\/out leads out/],
      ["acme/dotgit", /a path that git refuses/],
      ["acme/many", /repository_too_large: it has more than 100000 files/],
    ] as const;
    for (const [repo, error] of cases) {
      const thread = `bad-${repo.split("/")[1]}`;
      assert.equal((await open(thread, repo)).status, 202);
      const json = await ended(thread);
      assert.equal(json.state, "failed", repo);
      assert.match(json.error, error);
      assert.ok(!existsSync(treeOf(thread)));
      assert.deepEqual((await server.get(pathOf(thread, "/files"), as())).json.state, "failed");
      const tools = await results(thread, ["list_dir", {}]);
      assert.match(String(tools[0]), /repository of this conversation is not ready/);
      const pane = await server.get(`/chat/workspace/tree?thread_id=${thread}`, as());
      assert.deepEqual([pane.status, pane.json.detail], [409, "workspace_unavailable"]);
    }
    assert.equal(gitDirs().length, before);
    assert.match((await ready("bad-empty", "acme/site")).repo, /site/);
    const refused = [
      ["acme/large", "413 repository_too_large"],
      ["acme/secret", "409 github_not_connected"],
      ["acme/nothing", "409 github_not_connected"],
    ] as const;
    for (const [repo, why] of refused) assert.equal(code(await open("refused", repo)), why);
    for (const full_name of [
      "https://x:y@model.test/acme/site",
      "acme/site/x",
      "acme/..",
      "-x",
      "a b/c",
      "acme/site?x",
    ])
      assert.equal((await open("refused", full_name)).status, 422, full_name);
    for (const ref of ["-x", "a..b", "a b", "a:b", "x@{1}"])
      assert.equal((await open("refused", "acme/site", { ref })).status, 422, ref);
    assert.equal(code(await state("refused")), "404 no_repository");
  });

  test("GH-004 submodules, hooks, LFS, filters and strange names of a repository are files and nothing else", async () => {
    const gitDir = host.add("acme/hostile", { a: "a" });
    const strange = [
      "line\nbreak",
      "tab\there",
      'quo"te',
      "back\\slash",
      "\u202egnp.exe",
      "-rf",
      "é/日本",
      "#$(id)`id`",
    ];
    const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n";
    const marker = join(tempDir(atEnd), "ran");
    const attributes = `* filter=evil ident working-tree-encoding=UTF-16\n*.bin filter=lfs diff=evil merge=evil\n`;
    plantTree(gitDir, [
      ["100644", ".gitattributes", attributes],
      ["100644", ".lfsconfig", `[lfs]\n\turl = https://evil.example\n[filter "lfs"]\n\tsmudge = touch ${marker}\n`],
      [
        "100644",
        ".gitmodules",
        `[submodule "sub"]\n\tpath = sub\n\turl = https://evil.example/x.git\n\tupdate = !touch ${marker}\n`,
      ],
      ["160000", "sub", `${"0".repeat(39)}1`],
      ["100755", "hooks/post-checkout", `#!/bin/sh\ntouch ${marker}\n`],
      // A folder in the form of a bare repository, which git would enter from within.
      ["100644", "bare/HEAD", "ref: refs/heads/main\n"],
      ["100644", "bare/config", `[core]\n\tbare = true\n\tfsmonitor = touch ${marker}\n`],
      ["100644", "bare/objects/info/packs", "\n"],
      ["100644", "bare/refs/heads/keep", `${"0".repeat(40)}\n`],
      ["100755", "bare/hooks/post-index-change", `#!/bin/sh\ntouch ${marker}\n`],
      ["100644", "large.bin", pointer],
      ["100644", "ident.txt", "$Id$\nplain\n"],
      ...strange.map((name) => ["100644", name, name] as const),
    ]);

    await ready("hostile", "acme/hostile");
    const { json } = await server.get(pathOf("hostile", "/files"), as());
    const [, edited] = await results(
      "hostile",
      ["write_file", { path: "large.bin", content: `${pointer}x` }],
      ["read_file", { path: "ident.txt" }],
    );
    const changed = await server.get(pathOf("hostile", "/files?prefix=large"), as());

    const tree = treeOf("hostile");
    const paths = json.files.map(({ path }: { path: string }) => path);
    assert.deepEqual(new Set(paths.filter((path: string) => strange.includes(path))), new Set(strange));
    assert.equal(paths.filter((path: string) => path.startsWith("bare/")).length, 5);
    assert.ok(
      !paths.includes("sub") && (!existsSync(join(tree, "sub")) || readdirSync(join(tree, "sub")).length === 0),
    );
    for (const { path, status, kind } of json.files) assert.deepEqual([path, status, kind], [path, "clean", "file"]);
    for (const name of strange) assert.equal(readFileSync(join(tree, name), "utf8"), name);
    assert.match(String(edited), /\$Id\$/);
    assert.equal(readFileSync(join(tree, "ident.txt"), "utf8"), "$Id$\nplain\n");
    assert.deepEqual(
      changed.json.files.map(({ status }: { status: string }) => status),
      ["modified"],
    );
    assert.ok(!existsSync(marker));
  });
});

/** Gives the branch a tree of these entries: mode, path and content, or the commit of a submodule. */
function plantTree(gitDir: string, entries: readonly (readonly [mode: string, path: string, content: string])[]): void {
  const git = (args: readonly string[], input = "", more: object = {}) =>
    execFileSync("git", ["-c", "user.name=t", "-c", "user.email=t@t", ...args], {
      cwd: gitDir,
      input,
      encoding: "utf8",
      env: { ...process.env, GIT_INDEX_FILE: join(gitDir, "planted"), ...more },
    }).trim();
  for (const [mode, path, content] of entries) {
    const id = mode === "160000" ? content : git(["hash-object", "-w", "--stdin"], content);
    git(["update-index", "-z", "--index-info"], `${mode} ${id}\t${path}\0`);
  }
  git(["update-ref", "refs/heads/main", git(["commit-tree", git(["write-tree"]), "-m", "x"])]);
}

/** Gives the branch a tree with a file in `.git`, which git itself would never add. */
function plantGitFolder(gitDir: string): void {
  const git = (args: readonly string[], input = "") =>
    execFileSync("git", ["-c", "user.name=t", "-c", "user.email=t@t", ...args], {
      cwd: gitDir,
      input,
      encoding: "utf8",
    }).trim();
  const blob = git(["hash-object", "-w", "--stdin"], "[core]\n\tfsmonitor = touch /tmp/planted\n");
  const inner = git(["mktree"], `100644 blob ${blob}\tconfig\n`);
  const tree = git(["mktree"], `040000 tree ${inner}\t.git\n`);
  git(["update-ref", "refs/heads/main", git(["commit-tree", tree, "-m", "x"])]);
}
