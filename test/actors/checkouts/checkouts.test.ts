// Checkouts after a killed process, and under requests at the same time.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { Checkouts } from "../../../actors/checkouts/checkouts.ts";
import { foldersOf } from "../../../actors/checkouts/folders.ts";
import { diffHead, diffStat, stateOf, treeOf } from "../../../actors/checkouts/work-tree.ts";
import { closeWorktree, mergeWorktree, openWorktree } from "../../../actors/checkouts/worktrees.ts";
import { threadCheckout } from "../../../actors/tools/workspace/thread-checkout.ts";
import { tidyRepo } from "../../../actors/workspace/repo.ts";
import { tidyUnused } from "../../../actors/workspace/unused-checkouts.ts";
import { systemEnv } from "../../../bus/env.ts";
import { Processes } from "../../../governance/processes/processes.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import {
  beginClone,
  type CheckoutRow,
  checkoutOf,
  deleteCheckoutOp,
  failStuckClones,
  openWorktreeOp,
  setCheckoutStateOp,
  useCheckoutOp,
} from "../../../storage/tables/repo-checkouts.ts";
import { testStore } from "../../support/stores.ts";
import { cleanup, tempDir } from "../../support/temp.ts";

describe("a checkout", () => {
  const atEnd = cleanup();
  const env = systemEnv();
  const settings = { workspaceRoot: tempDir(atEnd), repoCheckoutRoot: tempDir(atEnd) };
  const processes = new Processes({ shellRunnerUrl: "", shellRunnerToken: "" } as never, env);
  let own: TenantStore;
  let deps: Checkouts["deps"];
  let count = 0;
  before(async () => {
    const { store } = await testStore("sqlite", atEnd);
    own = store.tenant("acme");
    const log = { warn: () => {} };
    deps = { env, store, settings, processes, log, audit: { record: () => {} } } as unknown as Checkouts["deps"];
  });

  /** Makes a checkout with one file, as a clone leaves it. */
  async function made() {
    const thread = `t${++count}`;
    const row: CheckoutRow = {
      ...{ thread, checkout_id: env.id(), root: thread, state: "ready", owner: "h:clone", repo: "acme/site" },
      ...{ base: "main", private: 0, opened_by: "ann", created_at: 1, used_at: 1, error: null },
      ...{ branch: null, published: null },
    };
    await own.write([openWorktreeOp(own, row)]);
    const folders = foldersOf("acme", row, row, settings);
    mkdirSync(folders.workTree, { recursive: true });
    writeFileSync(join(folders.workTree, "a.txt"), "a\n");
    const git = (...args: string[]) =>
      execFileSync("git", ["-c", "user.name=t", "-c", "user.email=t@t", ...args], {
        cwd: folders.workTree,
        env: {
          ...process.env,
          ...(args[0] !== "init" && { GIT_DIR: folders.gitDir, GIT_WORK_TREE: folders.workTree }),
        },
        encoding: "utf8",
      }).trim();
    git("init", "--quiet", "--bare", "--initial-branch=main", folders.gitDir);
    git("add", "--all");
    git("commit", "--quiet", "--message", "x");
    git("update-ref", "refs/svc/base", "HEAD");
    return { key: { tenantId: "acme", thread }, row, folders, git };
  }

  /** A process whose git never ends the first command of this name, as if it were killed there. */
  function killedAt(command: string): { readonly checkouts: Checkouts; readonly reached: Promise<void> } {
    const checkouts = new Checkouts(deps);
    const { git } = checkouts;
    const run = git.run.bind(git);
    const reached = new Promise<void>((resolve) => {
      git.run = (place, args, options) => {
        if (args[0] !== command) return run(place, args, options);
        resolve();
        return new Promise(() => {});
      };
    });
    return { checkouts, reached };
  }

  test("locks of a git that was killed are deleted before the next command", async () => {
    const { folders } = await made();
    const locks = ["index.lock", "HEAD.lock", "refs/heads/main.lock", "refs/svc/base.lock"];
    for (const lock of locks) writeFileSync(join(folders.gitDir, lock), "");
    writeFileSync(join(folders.workTree, "b.lock"), "of the repository");
    const checkouts = new Checkouts(deps);

    const tree = await checkouts.alone(folders, async () => {
      await checkouts.git.run(folders, ["update-ref", "refs/heads/main", "HEAD"]);
      return treeOf(checkouts.git, folders);
    });

    assert.match(tree, /^[0-9a-f]{40}$/);
    for (const lock of locks) assert.ok(!existsSync(join(folders.gitDir, lock)), lock);
    assert.ok(existsSync(join(folders.workTree, "b.lock")));
  });

  for (const command of ["read-tree", "checkout-index"])
    test(`a worktree whose making was killed at ${command} is made anew by the repeated call`, async () => {
      const { key } = await made();
      const task_id = env.id().slice(0, 16);
      const killed = killedAt(command);
      void openWorktree(killed.checkouts, key, { task_id });
      await killed.reached;
      const row = await checkoutOf(own, `task-${task_id}`);
      const next = new Checkouts(deps);

      const opened = await openWorktree(next, key, { task_id });

      assert.equal(row?.state, "opening");
      assert.deepEqual(opened, { ok: true, value: { isMade: true } });
      const now = (await checkoutOf(own, `task-${task_id}`)) as CheckoutRow;
      const { workTree } = foldersOf("acme", now, now, settings);
      assert.equal(now.state, "working");
      assert.equal(readFileSync(join(workTree, "a.txt"), "utf8"), "a\n");
      assert.deepEqual(await openWorktree(next, key, { task_id }), { ok: true, value: { isMade: true } });
      assert.equal((await checkoutOf(own, `task-${task_id}`))?.checkout_id, now.checkout_id);
      assert.deepEqual(await closeWorktree(next, key, { task_id }), { ok: true, value: { branch: null, stat: "" } });
    });

  test("a worktree that is not whole has no work, and its remains are deleted", async () => {
    const { key, git, folders } = await made();
    const task_id = env.id().slice(0, 16);
    const killed = killedAt("checkout-index");
    void openWorktree(killed.checkouts, key, { task_id });
    await killed.reached;

    const closed = await closeWorktree(new Checkouts(deps), key, { task_id });

    assert.deepEqual(closed, { ok: true, value: { branch: null, stat: "" } });
    assert.equal(await checkoutOf(own, `task-${task_id}`), undefined);
    assert.doesNotMatch(git("for-each-ref"), /task|start/);
    assert.deepEqual(
      readdirSync(folders.gitDir).filter((name) => name.includes(task_id)),
      [],
    );
    assert.ok(!existsSync(`${folders.workTree}/../task-${task_id}.new`));
  });

  test("an expiry does nothing to a checkout that was used, removed or replaced since", async () => {
    const checkouts = new Checkouts(deps);
    const { key, row, folders } = await made();
    await own.write([useCheckoutOp(own, row.thread, 5_000, 10)]);

    await checkouts.eraseFiles("acme", row, "expired", "old");

    const used = (await checkoutOf(own, row.thread)) as CheckoutRow;
    assert.deepEqual([used.state, used.used_at, existsSync(folders.workTree)], ["ready", 5_000, true]);
    await own.write([deleteCheckoutOp(own, row), openWorktreeOp(own, { ...row, checkout_id: env.id() })]);
    await checkouts.eraseFiles("acme", row, "expired", "old");
    assert.equal(await checkouts.remove(key, row.checkout_id), false);
    assert.equal((await checkoutOf(own, row.thread))?.state, "ready");
    assert.ok(existsSync(folders.workTree));
    assert.equal(await checkouts.remove(key), true);
    assert.ok(!existsSync(folders.workTree));
  });

  test("of two removals of one checkout at once, the second leaves the next checkout alone", async () => {
    const checkouts = new Checkouts(deps);
    const { key, row, folders } = await made();
    const next = { ...row, checkout_id: env.id() };

    const first = checkouts.remove(key, row.checkout_id).then(async (isGone) => {
      await own.write([openWorktreeOp(own, next)]);
      mkdirSync(folders.workTree, { recursive: true });
      return isGone;
    });
    const both = await Promise.all([first, checkouts.remove(key, row.checkout_id)]);

    assert.deepEqual(both, [true, false]);
    assert.equal((await checkoutOf(own, row.thread))?.checkout_id, next.checkout_id);
    assert.ok(existsSync(folders.workTree));
  });

  test("reading a checkout finds the changes since HEAD, and writes no objects and no index", async () => {
    const checkouts = new Checkouts(deps);
    const { folders, git } = await made();
    const write = (path: string, text: string) => writeFileSync(join(folders.workTree, path), text);
    for (const path of ["staged and gone", "staged and changed", "new"]) write(path, "1");
    write("a.txt", "b\n");
    git("add", "--all");
    rmSync(join(folders.workTree, "staged and gone"));
    write("staged and changed", "2");
    write("a.txt", "a\n");
    write("unstaged", "3");
    const before = git("count-objects");
    const index = readFileSync(join(folders.gitDir, "index"));

    const first = await stateOf(checkouts.git, folders);
    rmSync(join(folders.workTree, "a.txt"));
    const second = await stateOf(checkouts.git, folders);

    assert.deepEqual(
      [...first.changes],
      [
        ["new", "A"],
        ["staged and changed", "A"],
        ["unstaged", "A"],
      ],
    );
    assert.deepEqual(
      first.entries.map(({ path }) => path),
      ["a.txt"],
    );
    assert.equal(second.changes.get("a.txt"), "D");
    assert.equal(git("count-objects"), before);
    assert.deepEqual(readFileSync(join(folders.gitDir, "index")), index);
    assert.ok(!existsSync(join(folders.gitDir, "index.view")));
  });

  test("checkouts are refused by name without their folders, over http, and without a git that is new enough", async () => {
    const root = settings.workspaceRoot;
    const good = { ...settings, githubUrl: "https://model.test", repoHosts: ["model.test"] };
    /** A program that prints these words, or is missing. */
    const prints = (words: string | null) => ({
      startOwn(_command: object, take: (stream: string, output: Buffer) => void) {
        if (words !== null) take("stdout", Buffer.from(words));
        const exit = Promise.resolve(words === null ? { code: null, failure: "not_found" } : { code: 0 });
        return { exit, write: async () => {}, endInput() {}, kill() {} };
      },
    });
    const rows: readonly (readonly [what: string, more: object, isConfigured: boolean])[] = [
      ["as it should be", {}, true],
      ["no workspace", { settings: { ...good, workspaceRoot: null } }, false],
      ["no folder for git", { settings: { ...good, repoCheckoutRoot: null } }, false],
      ["git in the workspace", { settings: { ...good, repoCheckoutRoot: join(root, "git") } }, false],
      ["git in place of the workspace", { settings: { ...good, repoCheckoutRoot: root } }, false],
      ["a host over http", { settings: { ...good, githubUrl: "http://model.test" } }, false],
      ["another host", { settings: { ...good, repoHosts: ["github.com"] } }, false],
      ["no git", { processes: prints(null) }, false],
      ["git 2.38", { processes: prints("git version 2.38.9") }, false],
      ["git 1.99", { processes: prints("git version 1.99.0") }, false],
      ["git 2.39", { processes: prints("git version 2.39.0 (Apple Git-145)") }, true],
      ["git 3.0", { processes: prints("git version 3.0.1") }, true],
    ];

    for (const [what, more, isConfigured] of rows) {
      const checkouts = new Checkouts({ ...deps, settings: good, ...more } as never);
      assert.equal(await checkouts.isConfigured(), isConfigured, what);
      if (isConfigured) continue;
      const opened = checkouts.open({ tenantId: "acme", thread: "x" }, { full_name: "acme/x", ref: null }, {} as never);
      await assert.rejects(opened, { code: "checkouts_misconfigured" }, what);
    }
  });

  test("a tenant has at most 20 checkouts, and clones at most four at once", async () => {
    const [full, busy] = ["full", "busy"].map((id) => deps.store.tenant(id));
    assert.ok(full && busy);
    const row = (at: number, state: CheckoutRow["state"]): CheckoutRow => ({
      ...{ thread: `t${at}`, checkout_id: env.id(), root: `t${at}`, state, owner: "h:clone", repo: "acme/site" },
      ...{ base: "main", private: 0, opened_by: "ann", created_at: 1, used_at: env.now(), error: null },
      ...{ branch: null, published: null },
    });
    for (let at = 1; at < 20; at++) await full.write([openWorktreeOp(full, row(at, "ready"))]);
    await beginClone(full, row(20, "cloning"));
    for (let at = 1; at <= 4; at++) await beginClone(busy, row(at, "cloning"));

    await assert.rejects(beginClone(full, row(21, "cloning")), { code: "checkout_busy" });
    await assert.rejects(beginClone(full, row(20, "cloning")), { code: "thread_has_repository" });
    await assert.rejects(beginClone(busy, row(5, "cloning")), { code: "checkout_busy" });
  });

  test("the periodic task fails clones older than its limit, and no younger ones", async () => {
    const rows = await Promise.all([made(), made()]);
    for (const [at, { row }] of rows.entries())
      await own.write([setCheckoutStateOp(own, row, "cloning", null, at === 0 ? 99 : 100)]);

    const failed = await failStuckClones(deps.store.system, 100);

    assert.deepEqual(failed, [{ tenant_id: "acme", thread: rows[0]?.row.thread }]);
    const states = await Promise.all(rows.map(async ({ row }) => (await checkoutOf(own, row.thread))?.state));
    assert.deepEqual(states, ["failed", "cloning"]);
  });

  test("a worktree that git cannot read can be discarded", async () => {
    const { key, folders, git } = await made();
    const task_id = env.id().slice(0, 16);
    const checkouts = new Checkouts(deps);
    await openWorktree(checkouts, key, { task_id });
    writeFileSync(join(folders.gitDir, `index.task-${task_id}`), "no index");
    git("update-ref", "-d", `refs/svc/start/${task_id}`);

    const merged = await mergeWorktree(checkouts, key, { task_id, discard: false });
    const discarded = await mergeWorktree(checkouts, key, { task_id, discard: true });

    assert.equal(merged.ok, false);
    assert.deepEqual(discarded, { ok: true, value: { stat: "", conflicts: [] } });
    assert.equal(await checkoutOf(own, `task-${task_id}`), undefined);
  });

  test("a merge keeps modes and links, and replaces folders and files by each other", async () => {
    const { key, folders, git } = await made();
    const parent = (path: string) => join(folders.workTree, path);
    mkdirSync(parent("folder/deep"), { recursive: true });
    for (const path of ["folder/deep/x", "file", "tool.sh", "plain.sh", "linked"]) writeFileSync(parent(path), "1\n");
    chmodSync(parent("plain.sh"), 0o755);
    symlinkSync("a.txt", parent("was-link"));
    git("add", "--all");
    git("commit", "--quiet", "--message", "y");
    const task_id = env.id().slice(0, 16);
    const checkouts = new Checkouts(deps);
    await openWorktree(checkouts, key, { task_id });
    const child = (path: string) => join(folders.workTree, "..", `task-${task_id}`, path);
    for (const path of ["folder", "file", "linked", "was-link"]) rmSync(child(path), { recursive: true });
    writeFileSync(child("folder"), "now a file\n");
    mkdirSync(child("file/below"), { recursive: true });
    writeFileSync(child("file/below/y"), "2\n");
    chmodSync(child("tool.sh"), 0o755);
    chmodSync(child("plain.sh"), 0o644);
    writeFileSync(child("new.sh"), "#!/bin/sh\n");
    chmodSync(child("new.sh"), 0o755);
    symlinkSync("a.txt", child("linked"));
    symlinkSync("file/below", child("new-link"));
    writeFileSync(child("was-link"), "no link\n");

    const merged = await mergeWorktree(checkouts, key, { task_id, discard: false });

    assert.deepEqual(merged.ok && merged.value.conflicts, []);
    const isRunnable = (path: string) => (statSync(parent(path)).mode & 0o100) !== 0;
    assert.deepEqual(["tool.sh", "new.sh", "plain.sh", "was-link"].map(isRunnable), [true, true, false, false]);
    assert.deepEqual(
      ["linked", "new-link"].map((path) => readlinkSync(parent(path))),
      ["a.txt", "file/below"],
    );
    assert.deepEqual(
      ["folder", "file/below/y", "was-link"].map((path) => readFileSync(parent(path), "utf8")),
      ["now a file\n", "2\n", "no link\n"],
    );
    assert.equal(lstatSync(parent("was-link")).isSymbolicLink(), false);
    assert.match(git("status", "--porcelain"), /^ M plain\.sh$/m);
  });

  test("a merge keeps names with line breaks, and refuses names that are not UTF-8 before it writes a file", async () => {
    const { key, folders } = await made();
    const checkouts = new Checkouts(deps);
    const strange = ["line\nbreak", "\u202egnp.exe", "é/日本"];
    const [plain, mangled] = [env.id().slice(0, 16), env.id().slice(0, 16)];
    const child = (task_id: string) => join(folders.workTree, "..", `task-${task_id}`);
    for (const task_id of [plain, mangled]) await openWorktree(checkouts, key, { task_id });
    mkdirSync(join(child(plain), "é"));
    for (const name of strange) writeFileSync(join(child(plain), name), name);
    writeFileSync(join(child(mangled), "good.txt"), "good");
    writeFileSync(Buffer.concat([Buffer.from(`${child(mangled)}/caf`), Buffer.from([0xe9])]), "Latin-1");

    const merged = await mergeWorktree(checkouts, key, { task_id: plain, discard: false });
    const refused = await mergeWorktree(checkouts, key, { task_id: mangled, discard: false });
    const names = readdirSync(folders.workTree);
    const discarded = await mergeWorktree(checkouts, key, { task_id: mangled, discard: true });

    assert.ok(merged.ok);
    assert.doesNotMatch(merged.value.stat, /\u202e/, "a reader sees the order of the characters");
    for (const name of strange) assert.equal(readFileSync(join(folders.workTree, name), "utf8"), name);
    assert.equal(
      !refused.ok && refused.text,
      "the name caf\ufffd is not UTF-8; rename the file in the task, or discard it",
    );
    assert.deepEqual(names.toSorted(), ["a.txt", "line\nbreak", "é", "\u202egnp.exe"].toSorted());
    assert.equal(discarded.ok, true);
    assert.equal(await checkoutOf(own, `task-${mangled}`), undefined);
    writeFileSync(Buffer.concat([Buffer.from(`${folders.workTree}/`), Buffer.from([0xff])]), "x");
    assert.equal(await checkouts.remove(key), true);
    assert.ok(!existsSync(folders.workTree));
  });

  test("the difference that a person approves shows characters that have no shape", async () => {
    const { folders } = await made();
    const { git } = new Checkouts(deps);
    writeFileSync(join(folders.workTree, "\u202egnp.exe"), "if (isAdmin\u2066) { // \u202e\r\n\u001b[2J\u200b\n");
    const tree = await treeOf(git, folders);

    const texts = await Promise.all([diffStat(git, folders, "HEAD", tree), diffHead(git, folders, "HEAD", tree)]);

    for (const text of texts) {
      assert.doesNotMatch(text, /(?![\n\r\t])[\p{Cf}\p{Cc}]/u);
      assert.match(text, /\\u\{202e\}gnp\.exe/);
    }
    assert.match(String(texts[1]), /^\+if \(isAdmin\\u\{2066\}\) \{ \/\/ \\u\{202e\}\r$/m);
    assert.match(String(texts[1]), /^\+\\u\{1b\}\[2J\\u\{200b\}$/m);
  });

  test("a merge overwrites no file that git ignores, and completes when it is gone", async () => {
    const { key, folders } = await made();
    const at = (path: string) => join(folders.workTree, path);
    writeFileSync(at(".gitignore"), "*.env\nbuild\n");
    const task_id = env.id().slice(0, 16);
    const checkouts = new Checkouts(deps);
    await openWorktree(checkouts, key, { task_id });
    const child = join(folders.workTree, "..", `task-${task_id}`);
    writeFileSync(join(child, ".gitignore"), "");
    for (const path of ["local.env", "build"]) writeFileSync(join(child, path), "of the task\n");
    writeFileSync(at("local.env"), "of the person\n");
    mkdirSync(at("build"));
    const merge = () => mergeWorktree(checkouts, key, { task_id, discard: false });

    const refusals = [await merge()];
    rmSync(at("build"), { recursive: true });
    refusals.push(await merge());
    const [ignored, person] = [".gitignore", "local.env"].map((path) => readFileSync(at(path), "utf8"));
    rmSync(at("local.env"));
    const merged = await merge();

    assert.deepEqual(
      refusals.map((refusal) => !refusal.ok && refusal.text.split(" ")[0]),
      ["build", "local.env"],
    );
    assert.deepEqual([ignored, person], ["*.env\nbuild\n", "of the person\n"]);
    assert.equal(merged.ok, true);
    assert.equal(readFileSync(at("local.env"), "utf8"), "of the task\n");
  });

  test("unneeded objects are deleted and others packed when there are many, except while a task works", async () => {
    const { key, folders, git } = await made();
    const checkouts = new Checkouts(deps);
    const close = () => closeWorktree(checkouts, key, { task_id: "0".repeat(16) });
    const loose = () => Number(git("count-objects").split(" ")[0]);
    const published = git("commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "published");
    git("update-ref", "refs/svc/published", published);
    for (let at = 0; at <= 2_000; at++) writeFileSync(join(folders.workTree, `n${at}`), String(at));
    git("add", "--all");
    for (let at = 0; at <= 2_000; at++) rmSync(join(folders.workTree, `n${at}`));
    git("add", "--all");
    const garbage = "9463411b62f21b7ed88bbe711c958b3b66153330";
    assert.equal(git("cat-file", "-p", garbage), "2000");

    writeFileSync(join(folders.gitDir, "index.task-0123456789abcdef"), "");
    await close();
    const besideTask = [loose() > 2_000, git("cat-file", "-t", garbage)];
    rmSync(join(folders.gitDir, "index.task-0123456789abcdef"));
    await close();

    assert.deepEqual(besideTask, [true, "blob"]);
    assert.equal(loose(), 0);
    assert.throws(() => git("cat-file", "-e", garbage));
    assert.equal(git("cat-file", "-t", published), "commit");
    assert.equal(git("status", "--porcelain"), "");
  });

  test("the periodic task reaches every unused checkout, a few at once, however many are kept", async () => {
    const rows = Array.from({ length: 230 }, (_, at): CheckoutRow => {
      const isTask = at >= 210;
      const thread = isTask ? `task-${String(at).padStart(16, "0")}` : `unused-${at}`;
      return {
        ...{ thread, checkout_id: env.id(), root: isTask ? "unused-0" : thread, state: isTask ? "working" : "ready" },
        ...{ owner: "h:clone", repo: "acme/site", base: "main", private: 0, opened_by: "ann", created_at: 1 },
        ...{ used_at: 1, error: null, branch: null, published: null },
      };
    });
    const lately = { ...(rows[0] as CheckoutRow), thread: "lately", root: "lately", used_at: env.now() };
    for (const row of [...rows, { ...lately, checkout_id: env.id() }]) await own.write([openWorktreeOp(own, row)]);
    const asked: string[] = [];
    let working = 0;
    let most = 0;
    const ask = async ({ key }: { key: string }) => {
      most = Math.max(most, ++working);
      await new Promise(setImmediate);
      working--;
      asked.push(key);
      throw new Error("the checkout is busy");
    };

    await tidyUnused({
      settings: { repoCheckoutTtlDays: 14, repoCloneTimeoutSeconds: 600 },
      ...{ store: deps.store, env, bus: { ask } as never },
    });

    const told = asked.filter((key) => key.startsWith("acme:unused-") || key === "acme:lately");
    assert.equal(new Set(told).size, 210);
    assert.deepEqual([told.length, most], [211, 4]);
    await own.write([...rows, lately].map((row) => deleteCheckoutOp(own, row)));
  });

  test("the work of a task whose runs have ended is committed after a while, and can be merged", async () => {
    const { key, folders, row } = await made();
    const task_id = env.id().slice(0, 16);
    const checkouts = new Checkouts(deps);
    await openWorktree(checkouts, key, { task_id });
    writeFileSync(join(folders.workTree, "..", `task-${task_id}`, "found.txt"), "work\n");
    const position = new Map<string, object>();
    const none = { run_id: null, durable_run: null };
    const bus = { ask: async ({ key: of }: { key: string }) => position.get(of) ?? none };
    const settingsOf = { ...settings, repoCheckoutTtlDays: 14 };
    const state = async () => (await checkoutOf(own, `task-${task_id}`))?.state;
    const tidy = async (of: [string, object] | null): Promise<string | undefined> => {
      position.clear();
      if (of !== null) position.set(...of);
      await tidyRepo({
        key: `acme:${key.thread}`,
        ...{ deps: { checkouts, settings: settingsOf, store: deps.store, bus }, env },
      } as never);
      return state();
    };

    await own.write([useCheckoutOp(own, row.thread, env.now() - 20 * 86_400_000, 1)]);
    const fresh = await tidy(null);
    const unused = { ...row, thread: `task-${task_id}`, state: "working" } as const;
    const { checkout_id } = (await checkoutOf(own, unused.thread)) as CheckoutRow;
    await own.write([setCheckoutStateOp(own, { ...unused, checkout_id }, "working", null, 1)]);
    const ofParent = await tidy([`acme:${key.thread}`, { run_id: null, durable_run: "r" }]);
    const ofTask = await tidy([`acme:task-${task_id}`, { run_id: "r", durable_run: null }]);
    const ended = await tidy(null);
    const merged = await mergeWorktree(checkouts, key, { task_id, discard: false });
    const root = (await checkoutOf(own, key.thread))?.state;

    assert.deepEqual([fresh, ofParent, ofTask, ended], ["working", "working", "working", "held"]);
    assert.equal(merged.ok, true);
    assert.equal(readFileSync(join(folders.workTree, "found.txt"), "utf8"), "work\n");
    assert.equal(root, "ready");
  });

  test("a run reads its checkout once, when it is ready or missing", async () => {
    const { row } = await made();
    let reads = 0;
    const store = {
      read: (...asked: Parameters<TenantStore["read"]>) => {
        reads++;
        return own.read(...asked);
      },
      write: own.write.bind(own),
      op: own.op.bind(own),
    } as unknown as TenantStore;
    const look = async (thread: string | null, times: number) => {
      const checkout = threadCheckout(store, thread, env);
      for (let at = 0; at < times; at++) await checkout();
      return checkout();
    };

    assert.deepEqual([await look("no such thread", 3), reads], [null, 1]);
    assert.deepEqual([await look(null, 3), reads], [null, 1]);
    assert.deepEqual([await look(row.thread, 3), reads], [{ isReady: true }, 2]);
    await own.write([setCheckoutStateOp(own, row, "cloning", null, env.now())]);
    assert.deepEqual([await look(row.thread, 3), reads], [{ isReady: false }, 6]);
  });
});
