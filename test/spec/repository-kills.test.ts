// A process that is killed while git works leaves nothing half done, and no token is where others could read it.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { hasBubblewrap } from "../support/bubblewrap.ts";
import { calls, inTurn, shown, startChatProcess, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { MockModel } from "../support/mock-model.ts";
import { startRepoHost } from "../support/repo-host.ts";
import type { ProcessServer } from "../support/server.ts";
import { cleanup, tempDir } from "../support/temp.ts";
import { filesWith, gitProcesses } from "../support/token-traces.ts";

const token = "ghp_token_of_the_agents_0123456789";
const files = { "README.md": "# The site\n" };

describe("a killed process", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  let mock: MockModel;
  let host: Awaited<ReturnType<typeof startRepoHost>>;
  let root: string;
  before(async () => {
    host = await startRepoHost(atEnd);
    host.add("acme/site", files, { people: [9] });
    host.tokens.set(token, 9);
    root = tempDir(atEnd);
    const { SVC_GITHUB_URL, SVC_GITHUB_API_URL, SVC_REPO_HOSTS, SVC_EGRESS_CA_FILE, SVC_TEST_RESOLVE } = host.settings;
    const tools = ["read_file", "write_file"];
    ({ server, mock } = await startChatProcess(atEnd, {
      models: ["scripted"],
      manifests: {
        publisher: { tools, github_publish: { auth: "secret:PUBLISH" }, execution: { mode: "durable" } },
        coder: {
          tools,
          github_publish: { auth: "secret:PUBLISH" },
          shell_tools: [{ name: "run", commands: ["bash"] }],
        },
      },
      env: {
        ...{ SVC_GITHUB_URL, SVC_GITHUB_API_URL, SVC_REPO_HOSTS, SVC_EGRESS_CA_FILE, SVC_TEST_RESOLVE },
        ...{ SVC_WORKSPACE_ROOT: root, SVC_SECRET_PUBLISH: token, SVC_SHELL_LOCAL: "bwrap" },
        SVC_REPO_CLONE_MAX_MB: "1",
      },
    }));
  });

  const pathOf = (thread: string) => `/chat/sessions/${thread}/workspace/repo`;
  const repos = join("/.svc-scopes/default/repos");
  const gitDirs = () => readdirSync(join(server.dataDir, "checkouts")).filter((name) => !name.endsWith(".pem"));
  const state = async (thread: string) => (await server.get(pathOf(thread))).json;
  /** Clones a repository; returns the checkout at the end. */
  async function cloned(thread: string, full_name: string) {
    const opened = await server.post(pathOf(thread), { full_name });
    assert.equal(opened.status, 202, opened.text);
    return eventually("the end of the clone", async () => {
      const found = await state(thread);
      return found.state === "cloning" ? undefined : found;
    });
  }
  async function open(thread: string, full_name = "acme/site") {
    const json = await cloned(thread, full_name);
    assert.equal(json.state, "ready", JSON.stringify(json));
  }
  /** Holds the code host at the first request for which `isIt` is true; resolves when it comes. */
  function held(isIt: (path: string) => boolean): Promise<() => void> {
    return new Promise((reached) => {
      host.state.onGit = (path) =>
        isIt(path)
          ? new Promise((resolve) => {
              host.state.onGit = null;
              reached(resolve);
            })
          : undefined;
    });
  }
  const filesWithToken = () => filesWith(token, server.dataDir, root);

  test("a clone that was cut off fails by name after the restart, and leaves no files", async () => {
    const reached = held((path) => path.startsWith("POST"));
    await server.post(pathOf("cut"), { full_name: "acme/site" });
    const free = await reached;
    assert.ok(gitDirs().some((name) => name.endsWith(".new")));

    await server.kill();
    free();
    await server.restart();

    const failed = await eventually("the failure", async () => {
      const found = await state("cut");
      return found.state === "failed" && gitDirs().length === 0 ? found : undefined;
    });
    assert.equal(failed.error, "the server stopped during the clone");
    const left = existsSync(root + repos) ? readdirSync(root + repos) : [];
    assert.deepEqual(left, []);
    await open("cut");
  });

  test("GH-001 a clone ends at its limits of bytes and time, and follows no redirect", async () => {
    const bytes = 2 * 1024 * 1024;
    host.add("acme/bulky", { "random.txt": randomBytes(bytes).toString("base64") });
    host.add("acme/zeros", { "zeros.txt": "0".repeat(bytes) });
    host.state.redirectsGit = "acme/site";
    host.add("acme/moved", files);
    const asked = () => host.requests.filter(({ path }) => path.includes("/acme/site.git")).length;
    const before = asked();

    const moved = await cloned("moved", "acme/moved");
    const redirected = asked() - before;
    host.state.redirectsGit = null;
    const bulky = await cloned("bulky", "acme/bulky");
    const zeros = await cloned("zeros", "acme/zeros");
    await server.restart({ SVC_REPO_CLONE_TIMEOUT_SECONDS: "1" });
    const reached = held((path) => path.startsWith("POST"));
    const slow = cloned("slow", "acme/site");
    const free = await reached;
    const late = await slow;
    free();
    await server.restart({ SVC_REPO_CLONE_TIMEOUT_SECONDS: "600" });

    const ends = [moved, bulky, zeros, late];
    assert.deepEqual(
      ends.map(({ state: at, error }) => [at, error]),
      [
        ["failed", "the code host did not send the repository"],
        ["failed", "repository_too_large: more was sent than SVC_REPO_CLONE_MAX_MB"],
        ["failed", "repository_too_large: its files are larger than SVC_REPO_CLONE_MAX_MB"],
        ["failed", "the clone took longer than SVC_REPO_CLONE_TIMEOUT_SECONDS"],
      ],
    );
    assert.equal(redirected, 0);
    assert.deepEqual(readdirSync(root + repos), ["cut"]);
  });

  for (const [where, at] of [
    ["before its push", "push"],
    ["after its pull request", "pull"],
  ] as const)
    test(`a publication that was cut off ${where} is completed once`, async () => {
      const thread = `publish-${at}`;
      await open(thread);
      const write = ["write_file", { path: `${at}.txt`, content: at }] as const;
      const publish = ["publish_commits", { title: `Add ${at}`, branch: `add-${at}` }] as const;
      mock.answer("scripted", inTurn(calls(write), calls(publish), { text: "done" }));
      let free = (): void => {};
      const reached =
        at === "push"
          ? held((path) => path === "POST /git-receive-pack").then((resolve) => {
              free = resolve;
            })
          : new Promise<void>((resolve) => {
              host.state.onPull = () =>
                new Promise((done) => {
                  free = done;
                  host.state.onPull = null;
                  resolve();
                });
            });
      await server.post("/chat", turn("publisher", "go", { thread_id: thread }));
      await reached;
      const seen = gitProcesses();

      await server.kill();
      const onDisk = filesWithToken();
      free();
      await server.restart();

      const { json } = await eventually("the end of the run", async () => {
        const answer = await server.get(`/chat/history/${thread}`);
        return answer.json.messages.at(-1)?.content === "done" ? answer : undefined;
      });
      const told = json.messages.findLast(({ role }: { role: string }) => role === "tool").content;
      if (at === "push") assert.match(seen, /GIT_DIR=/);
      assert.equal(onDisk, "");
      assert.doesNotMatch(seen, new RegExp(token));
      const made = host.pulls.filter(({ head }) => head === `add-${at}`);
      assert.equal(made.length, 1);
      assert.equal(JSON.parse(told).url, made[0]?.html_url);
      assert.equal(host.git("acme/site", "show", `add-${at}:${at}.txt`), at);
      assert.equal(host.git("acme/site", "rev-list", "--count", `main..add-${at}`), "1");
      assert.deepEqual((await state(thread)).branch, `add-${at}`);
    });

  test("git runs no program of a folder that commands of the agent have made a repository", async (t) => {
    if (!hasBubblewrap(t)) return;
    await open("planted");
    const mark = join(tempDir(atEnd), "planted");
    const tree = `${root}${repos}/planted`;
    const script = `#!/bin/sh\ntouch ${mark}\n`;
    for (const folder of ["", "sub"]) {
      const git = join(tree, folder, ".git");
      mkdirSync(join(git, "refs/heads"), { recursive: true });
      mkdirSync(join(git, "objects"), { recursive: true });
      mkdirSync(join(git, "hooks"), { recursive: true });
      writeFileSync(join(git, "HEAD"), "ref: refs/heads/main\n");
      for (const hook of ["pre-commit", "post-index-change", "reference-transaction"])
        writeFileSync(join(git, "hooks", hook), script, { mode: 0o755 });
      const evil = `touch ${mark}`;
      writeFileSync(
        join(git, "config"),
        `[core]\n\tfsmonitor = ${evil}\n\trepositoryformatversion = 0\n[filter "x"]\n\tclean = ${evil}\n\tsmudge = ${evil}\n[diff "x"]\n\ttextconv = ${evil}\n\tcommand = ${evil}\n`,
      );
      writeFileSync(join(tree, folder, ".gitattributes"), "* filter=x diff=x\n");
      writeFileSync(join(tree, folder, "file.txt"), "text\n");
    }

    const listed = await server.get(`${pathOf("planted")}/files`);
    mock.answer("scripted", inTurn(calls(["publish_commits", { title: "Add", branch: "planted" }]), { text: "done" }));
    await server.post("/chat", turn("coder", "go", { thread_id: "planted" }));
    const told = shown(mock.requests.at(-1)).findLast(({ role }) => role === "tool")?.content ?? "";

    assert.equal(listed.status, 200, listed.text);
    assert.match(told, /"number":/);
    assert.ok(!existsSync(mark));
    assert.equal(host.git("acme/site", "show", "planted:file.txt"), "text");
    assert.doesNotMatch(host.git("acme/site", "ls-tree", "-r", "--name-only", "planted"), /\.git\/|^sub$/m);
  });

  test("git does not look into a submodule that commands of the agent have filled", async () => {
    const path = host.add("acme/linked", files, { people: [9] });
    const commit = host.git("acme/linked", "rev-parse", "main");
    const index = { cwd: path, env: { ...process.env, GIT_INDEX_FILE: join(path, "linked.index") } };
    const git = (...args: string[]) =>
      execFileSync("git", ["-c", "user.name=t", "-c", "user.email=t@t", ...args], {
        ...index,
        encoding: "utf8",
      }).trim();
    git("read-tree", "main");
    git("update-index", "--add", "--cacheinfo", `160000,${commit},sub`);
    git("update-ref", "refs/heads/main", git("commit-tree", git("write-tree"), "-p", "main", "-m", "link"));
    await open("linked", "acme/linked");
    const mark = join(tempDir(atEnd), "linked");
    const sub = `${root}${repos}/linked/sub`;
    mkdirSync(sub, { recursive: true });
    const inSub = (...args: string[]) =>
      execFileSync("git", ["-c", "user.name=t", "-c", "user.email=t@t", ...args], { cwd: sub });
    inSub("init", "--quiet");
    writeFileSync(join(sub, "a.txt"), "a");
    inSub("add", "--all");
    inSub("commit", "--quiet", "--message", "x");
    writeFileSync(join(sub, ".gitattributes"), "* filter=x\n");
    writeFileSync(join(sub, "a.txt"), "b");
    const config = readFileSync(join(sub, ".git/config"), "utf8");
    const evil = `touch ${mark}; cat`;
    writeFileSync(
      join(sub, ".git/config"),
      `${config}[core]\n\tfsmonitor = ${evil}\n[filter "x"]\n\tclean = ${evil}\n`,
    );
    execFileSync("git", ["status"], { cwd: sub, stdio: "ignore" });
    assert.ok(existsSync(mark), "the trap works");
    rmSync(mark);

    const listed = await server.get(`${pathOf("linked")}/files`);
    const found = await state("linked");
    const write = ["write_file", { path: "new.txt", content: "new" }] as const;
    mock.answer(
      "scripted",
      inTurn(calls(write), calls(["publish_commits", { title: "Add", branch: "linked" }]), { text: "done" }),
    );
    await server.post("/chat", turn("coder", "go", { thread_id: "linked" }));

    assert.deepEqual(
      listed.json.files.map((file: { path: string }) => file.path),
      ["README.md"],
    );
    assert.equal(found.dirty, false);
    assert.ok(!existsSync(mark));
    assert.match(host.git("acme/linked", "ls-tree", "linked"), new RegExp(`160000 commit ${commit}\\tsub`));
    assert.equal(host.git("acme/linked", "show", "linked:new.txt"), "new");
  });

  test("commands of the agent work in the checkout", async (t) => {
    if (!hasBubblewrap(t)) return;
    await open("shell");
    mock.answer("scripted", inTurn(calls(["run", { argv: ["bash", "-c", "cat README.md; ls -a"] }]), { text: "done" }));

    await server.post("/chat", turn("coder", "go", { thread_id: "shell" }));

    const told = shown(mock.requests.at(-1)).findLast(({ role }) => role === "tool")?.content ?? "";
    assert.match(told, /# The site/);
    assert.doesNotMatch(told, /\.git\b/);
  });
});
