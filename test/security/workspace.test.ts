import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, linkSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, test } from "node:test";
import { Worker } from "node:worker_threads";
import fc from "fast-check";
import { checkArguments } from "../../actors/tools/arguments.ts";
import { builtInTools } from "../../actors/tools/registry/built-in.ts";
import { firstPlaces, nextPlaces, parsePattern } from "../../actors/tools/workspace/path-pattern.ts";
import { regexQuery } from "../../actors/tools/workspace/text-query.ts";
import { systemEnv } from "../../bus/env.ts";
import { type Fixture, openFixture } from "../actors/tools/workspace/workspace-fixture.ts";
import { runs } from "../support/effort.ts";

describe("threat 21: regular expressions and globs that explode in other engines", () => {
  /** A text that counts the engine's reads of its characters. */
  class CountedText extends String {
    looks = 0;
    override charCodeAt(at: number): number {
      this.looks++;
      return super.charCodeAt(at);
    }
  }

  const explosive = [
    "(a+)+$",
    "(a|a)*b",
    "(a|aa)+$",
    "(.*)*x",
    "(a*)*b",
    "^(([a-z])+.)+[A-Z]([a-z])+$",
    "(?:a?){30}a{30}",
    "([a-c]*a[a-c]{20})+[xy]",
  ];
  for (const pattern of explosive) {
    test(`${pattern} reads each character a bounded number of times`, async () => {
      const query = await regexQuery(pattern);
      const looks = [2000, 4000].map((length) => {
        const text = new CountedText(`${"a".repeat(length)}!`);
        query.find(text as unknown as string);
        return text.looks;
      });

      // A read costs at most one step for each instruction of the program, whatever follows in the text.
      for (const [at, length] of [2000, 4000].entries())
        assert.ok((looks[at] as number) <= 12 * length, `${looks[at]} looks at ${length} characters`);
      assert.ok(query.stepsPerChar <= 250);
    });
  }

  for (const pattern of [
    "x{1000}x{1000}",
    "(((a{10}){10}){10})",
    `(${"abcdefghi".repeat(15)}){1000}`,
    "(\\pL{50}){19}",
    "((a{1,100}){1,10})b",
  ]) {
    test(`${pattern.slice(0, 30)} is refused for its size`, async (t) => {
      const result = await openFixture(t).call("search_files", { query: pattern, regex: true });

      assert.equal(result.error, "invalid_arguments");
      assert.match(result.text, /too large/);
    });
  }

  for (const pattern of [
    "[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{12}",
    "(?:\\d{1,3}\\.){3}\\d{1,3}",
    "(?i)\\b(todo|fixme)\\b.{0,80}$",
    "\\bfunction\\s+\\w+\\(",
  ]) {
    test(`${pattern} is an ordinary expression and is accepted`, async () => {
      assert.ok((await regexQuery(pattern)).stepsPerChar <= 250);
    });
  }

  test("backreferences and lookarounds are refused, because they need backtracking", async (t) => {
    const fixture = openFixture(t);

    for (const query of ["(a)\\1", "a(?=b)", "(?<!a)b"])
      assert.match((await fixture.call("search_files", { query, regex: true })).text, /^invalid regular expression/);
  });

  test("the most expensive glob compares each name with each of its parts once", () => {
    const { parts } = parsePattern("**/*a*a/**/*a*a/**/*a*a/**/*a*b");
    const name = "a".repeat(255);
    const counter = { steps: 0 };

    let places = firstPlaces(parts);
    for (let depth = 0; depth < 64; depth++) {
      places = nextPlaces(parts, places, name, counter);
      assert.ok(places.length <= parts.length + 1);
    }

    // 64 names against at most 8 parts; a part has 4 or 5 characters and a name has 255.
    assert.ok(counter.steps <= 64 * parts.length * 5 * 255, `${counter.steps}`);
  });

  const looking: Readonly<Record<string, object>> = {
    glob: { pattern: "**/nothing" },
    search_files: { query: "nothing" },
    list_dir: {},
  };

  test("a search reads 50,000 names, and the result says that there are more", async (t) => {
    const fixture = openFixture(t);
    // Links are skipped, so this costs no time to open files.
    for (let i = 0; i < 50_000; i++) symlinkSync("nowhere", fixture.at(`f${i}`));
    // A clock that never advances.
    const env = { ...systemEnv(), monotonic: () => 0 };
    const results = async () => {
      const texts: string[] = [];
      for (const [tool, args] of Object.entries(looking)) texts.push(await fixture.text(tool, args, { env }));
      return texts;
    };

    const most = await results();
    symlinkSync("nowhere", fixture.at("one more"));
    const more = await results();

    assert.deepEqual(most, ["[no matches]", "[no matches]", "[empty]"]);
    assert.deepEqual(more, [
      "[stopped after 50000 names: give a path]",
      "[no matches]\n[stopped after 50000 names: give a path]",
      "[stopped after 50000 names: there are more names, which may come before these]",
    ]);
  });

  test("the names of all directories count together", async (t) => {
    const fixture = openFixture(t);
    for (let d = 0; d < 11; d++) {
      mkdirSync(fixture.at(`d${d}`));
      for (let i = 0; i < 4_999; i++) symlinkSync("nowhere", fixture.at(`d${d}/f${i}`));
    }
    const env = { ...systemEnv(), monotonic: () => 0 };

    const text = await fixture.text("glob", { pattern: "**/nothing" }, { env });

    assert.equal(text, "[stopped after 50000 names: give a path]");
  });

  test("a search takes two seconds and returns its matches so far", async (t) => {
    const fixture = openFixture(t);
    for (let i = 0; i < 100; i++) fixture.put(`f${String(i).padStart(3, "0")}`, "needle\n");
    let looks = 0;
    /** Each read of the clock after the first advances it by `stepMs`. */
    const slow = (stepMs: number) => {
      looks = 0;
      return { env: { ...systemEnv(), monotonic: () => stepMs * looks++ } };
    };

    const inTime = await fixture.text("search_files", { query: "needle", max_hits: 50 }, slow(1));
    const late = await fixture.text("search_files", { query: "needle" }, slow(15));
    const globbed = await fixture.text("glob", { pattern: "f*" }, slow(15));
    const listed = await fixture.text("list_dir", {}, slow(100));

    assert.ok(!inTime.includes("stopped"), inTime);
    const hits = late.split("\n");
    assert.equal(hits.pop(), "[stopped after 2 seconds: give a path]");
    assert.ok(hits.length > 0 && hits.length < 34, late);
    assert.equal(hits[0], "f000:1: needle");
    const found = globbed.split("\n");
    assert.equal(found.pop(), "[stopped after 2 seconds: give a path]");
    assert.ok(found.length > 0 && found.length < 34, globbed);
    const lines = listed.split("\n");
    assert.equal(lines.pop(), "[stopped after 2 seconds: there are more names, which may come before these]");
    assert.ok(lines.length > 0 && lines.length < 20, listed);
  });

  test("a regular expression stops inside a file at the time limit", async (t) => {
    const fixture = openFixture(t);
    fixture.put("long.txt", "no\n".repeat(80_000));
    let looks = 0;
    const env = { ...systemEnv(), monotonic: () => 2 * looks++ };

    const text = await fixture.text("search_files", { query: "n.e+dle", regex: true, path: "long.txt" }, { env });

    assert.equal(text, "[no matches]\n[stopped after 2 seconds: give a path]");
    assert.ok(looks <= 1_010, `${looks}`);
  });
});

describe("threat 27: forged arguments", () => {
  test("no arguments make a tool throw or leave the workspace", async (t) => {
    const fixture = openFixture(t);
    writeFileSync(join(fixture.outside, "secret"), "canary-7f3a");
    fixture.put("a/b.txt", "text\n");
    symlinkSync(fixture.outside, fixture.at("link"));
    const path = fc.oneof(
      fc.constantFrom(
        "../outside/secret",
        "link/secret",
        "a/../../outside/secret",
        `${fixture.outside}/secret`,
        "a/b.txt",
        "/proc/self/environ",
        "..\\outside\\secret",
        "..%2foutside%2fsecret",
        ".svc-scopes/x",
      ),
      fc
        .array(fc.constantFrom("..", "link", "secret", "a", "b.txt", "", "."), { maxLength: 5 })
        .map((names) => names.join("/")),
    );
    const value = fc.oneof(path, fc.jsonValue({ maxDepth: 2 }));
    const names = [
      "path",
      "content",
      "append",
      "old_string",
      "new_string",
      "replace_all",
      "edits",
      "query",
      "regex",
      "pattern",
      "offset",
      "todos",
      "expression",
    ];
    const args = fc.oneof(
      fc.dictionary(fc.constantFrom(...names), value),
      fc.record(
        {
          path,
          content: fc.string(),
          query: fc.constant("canary"),
          pattern: path,
          old_string: fc.constant("canary-7f3a"),
          new_string: fc.constant("x"),
        },
        { requiredKeys: ["path"] },
      ),
    );

    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...builtInTools), args, async (tool, forged) => {
        const known = Object.keys(tool.parameters.properties as object);
        const fitting = Object.fromEntries(Object.entries(forged).filter(([name]) => known.includes(name)));
        for (const candidate of [forged, fitting]) {
          const result = await fixture.call(tool.name, candidate);
          assert.equal(typeof result.text, "string");
          assert.ok(!result.text.includes("canary-7f3a"));
        }
      }),
      { numRuns: runs(400) },
    );

    assert.deepEqual(readdirSync(fixture.outside), ["secret"]);
    assert.equal(readFileSync(join(fixture.outside, "secret"), "utf8"), "canary-7f3a");
  });

  test("keys that lead to prototypes are refused as data and change nothing", async () => {
    for (const tool of builtInTools)
      for (const key of ["__proto__", "constructor", "prototype", "\\u005f_proto__"]) {
        const checked = await checkArguments(tool, `{"${key}":{"polluted":true}}`, { defer: setImmediate });
        assert.equal(!checked.ok && checked.refusal.error, "invalid_arguments");
      }
    assert.equal(({} as Record<string, unknown>).polluted, undefined);
  });
});

describe("threat 28: file safety", () => {
  /** Swaps a directory and a file with links to the outside and back, as fast as it can, until it is stopped. */
  const swapper = `
    const { workerData } = require("node:worker_threads");
    const fs = require("node:fs");
    const { root, outside, stop } = workerData;
    const rounds = new Int32Array(stop);
    function swap(name, target) {
      const real = root + "/" + name + ".real";
      try {
        fs.renameSync(root + "/" + name, real);
        fs.symlinkSync(target, root + "/" + name);
        fs.unlinkSync(root + "/" + name);
      } catch {}
      while (fs.existsSync(real)) {
        try {
          fs.renameSync(real, root + "/" + name);
        } catch {
          // A write may have created a directory or a file in the gap, and may add more during the removal.
          try {
            fs.rmSync(root + "/" + name, { recursive: true, force: true });
          } catch {}
        }
      }
    }
    while (Atomics.load(rounds, 0) === 0) {
      swap("dir", outside);
      swap("leaf", outside + "/file");
      Atomics.add(rounds, 1, 1);
    }
  `;

  test("a path that becomes a link between check and open is not followed", async (t) => {
    const fixture = openFixture(t);
    mkdirSync(join(fixture.outside, "sub"));
    for (const path of ["file", "sub/file"]) writeFileSync(join(fixture.outside, path), "canary-7f3a");
    fixture.put("dir/file", "mine");
    fixture.put("dir/sub/file", "mine");
    fixture.put("leaf", "mine");
    const stop = new SharedArrayBuffer(8);
    const counters = new Int32Array(stop);
    const worker = new Worker(swapper, {
      eval: true,
      workerData: { root: fixture.root, outside: fixture.outside, stop },
    });
    const ended = new Promise((resolve, reject) => worker.once("exit", resolve).once("error", reject));
    const outcomes = new Map<string, number>();

    try {
      for (let round = 0; round < 150; round++) {
        const results = await Promise.all([
          fixture.call("read_file", { path: "dir/file" }),
          fixture.call("read_file", { path: "dir/sub/file" }),
          fixture.call("read_file", { path: "leaf" }),
          fixture.call("write_file", { path: "dir/new", content: "mine" }),
          fixture.call("write_file", { path: "leaf", content: "mine" }),
          fixture.call("edit_file", { path: "dir/sub/file", old_string: "canary-7f3a", new_string: "taken" }),
          fixture.call("search_files", { query: "canary" }),
          fixture.call("list_dir", { path: "dir/sub" }),
        ]);
        for (const { text, error } of results) {
          assert.ok(!text.includes("canary-7f3a"), text);
          outcomes.set(error ?? "done", (outcomes.get(error ?? "done") ?? 0) + 1);
        }
      }
    } finally {
      Atomics.store(counters, 0, 1);
      await ended;
    }

    t.diagnostic(`${counters[1]} swaps; ${JSON.stringify(Object.fromEntries(outcomes))}`);
    assert.deepEqual(readdirSync(fixture.outside).sort(), ["file", "sub"]);
    assert.deepEqual(readdirSync(join(fixture.outside, "sub")), ["file"]);
    for (const path of ["file", "sub/file"])
      assert.equal(readFileSync(join(fixture.outside, path), "utf8"), "canary-7f3a");
  });

  test("a file with hard links is neither read nor written", async (t) => {
    const fixture = openFixture(t);
    writeFileSync(join(fixture.outside, "file"), "canary-7f3a");
    linkSync(join(fixture.outside, "file"), fixture.at("hard"));

    await refusesAll(fixture, "hard", /^hard: has hard links/);
    assert.equal(await fixture.text("search_files", { query: "canary" }), "[no matches]");

    assert.equal(readFileSync(join(fixture.outside, "file"), "utf8"), "canary-7f3a");
  });

  test("fifos, sockets and devices are refused at once and never listed", async (t) => {
    const fixture = openFixture(t);
    execFileSync("mkfifo", [fixture.at("fifo")]);
    const server = createServer().listen(fixture.at("socket"));
    t.after(() => server.close());
    await new Promise((resolve) => server.once("listening", resolve));
    // Only root can create a device.
    const device = spawnSync("mknod", [fixture.at("device"), "c", "1", "5"]).status === 0;

    for (const name of device ? ["fifo", "socket", "device"] : ["fifo", "socket"])
      await refusesAll(fixture, name, /is not a regular file$/);
    assert.equal(await fixture.text("list_dir", {}), "[empty]");
    assert.equal(await fixture.text("glob", { pattern: "*" }), "[no matches]");
    assert.equal(await fixture.text("search_files", { query: "x" }), "[no matches]");
  });

  test("no link leads into the directories of scopes", async (t) => {
    const scope = { workspaceScope: "thread" as const };
    for (const link of [
      ".svc-scopes",
      ".svc-scopes/default",
      ".svc-scopes/default/threads",
      ".svc-scopes/default/threads/t1",
    ]) {
      const fixture = openFixture(t);
      writeFileSync(join(fixture.outside, "file"), "canary-7f3a");
      mkdirSync(join(fixture.at(link), ".."), { recursive: true });
      symlinkSync(fixture.outside, fixture.at(link));

      const read = await fixture.call("read_file", { path: "file" }, scope);
      const write = await fixture.call("write_file", { path: "new", content: "x" }, scope);

      for (const result of [read, write]) assert.equal(result.text, "symlinks are not followed in workspace paths");
      assert.deepEqual(readdirSync(fixture.outside), ["file"]);
    }
  });

  test("hostile names of tenants and threads get separate directories", async (t) => {
    const fixture = openFixture(t);
    const names = [
      "..",
      ".",
      "a",
      "A",
      "../shared",
      "shared",
      "%41",
      "con",
      "a/b",
      "a%2fb",
      "\u212b",
      "\u00c5",
      "A\u030a",
      "x".repeat(200),
      "€".repeat(200),
    ];

    for (const tenantId of names)
      await fixture.text(
        "write_file",
        { path: "who", content: `tenant ${tenantId}` },
        { tenantId, workspaceScope: "tenant" },
      );
    for (const threadSuffix of names)
      await fixture.text(
        "write_file",
        { path: "who", content: `thread ${threadSuffix}` },
        { threadSuffix, workspaceScope: "thread" },
      );

    for (const name of names) {
      assert.equal(
        await fixture.text("read_file", { path: "who" }, { tenantId: name, workspaceScope: "tenant" }),
        `tenant ${name}`,
      );
      assert.equal(
        await fixture.text("read_file", { path: "who" }, { threadSuffix: name, workspaceScope: "thread" }),
        `thread ${name}`,
      );
    }
    const tenants = readdirSync(fixture.at(".svc-scopes"));
    assert.equal(new Set(tenants.map((name) => name.toLowerCase())).size, names.length + 1);
    assert.equal(readdirSync(fixture.at(".svc-scopes/default/threads")).length, names.length);
    assert.deepEqual(readdirSync(fixture.root), [".svc-scopes"]);
    assert.deepEqual(readdirSync(fixture.outside), []);
  });

  test(".git is not written in any case or spelling that file systems may fold", async (t) => {
    const fixture = openFixture(t);
    fixture.put(".git/config", "old");

    for (const name of [".git", ".GIT", ".Git.", ".git ", "git~1", ".g\u200cit", ".git::$INDEX_ALLOCATION"])
      for (const path of [`${name}/config`, `sub/${name}/hooks/post-checkout`]) {
        const result = await fixture.call("write_file", { path, content: "x" });
        assert.equal(result.error, "permission_denied", path);
      }
    assert.deepEqual(readdirSync(fixture.root), [".git"]);
    assert.equal(readFileSync(fixture.at(".git/config"), "utf8"), "old");
  });

  test("a cancelled call changes nothing", async (t) => {
    const fixture = openFixture(t);
    fixture.put("a", "old");
    const signal = AbortSignal.abort();

    for (const [tool, args] of [
      ["write_file", { path: "b", content: "x" }],
      ["edit_file", { path: "a", old_string: "old", new_string: "new" }],
      ["search_files", { query: "old" }],
      ["glob", { pattern: "*" }],
    ] as const)
      assert.equal((await fixture.call(tool, args, { signal })).error, "interrupted", tool);

    assert.equal(existsSync(fixture.at("b")), false);
    assert.equal(readFileSync(fixture.at("a"), "utf8"), "old");
  });

  test("a missing root is reported without its path", async (t) => {
    const fixture = openFixture(t);
    writeFileSync(fixture.at("file"), "");

    for (const root of [fixture.at("gone"), fixture.at("file")]) {
      const result = await fixture.call(
        "list_dir",
        {},
        { workspace: { root, deploymentTenants: ["default"], checkout: async () => null } },
      );
      assert.equal(result.error, "transport_unavailable");
      assert.match(result.text, /^workspace_root/);
    }
  });

  /** Asserts that every tool that opens a file by name refuses this one for the reason. */
  async function refusesAll(fixture: Fixture, path: string, reason: RegExp): Promise<void> {
    const edit = { old_string: "a", new_string: "b" };
    for (const [tool, args] of [
      ["read_file", {}],
      ["read_file", { offset: 1 }],
      ["write_file", { content: "x" }],
      ["write_file", { content: "x", append: true }],
      ["edit_file", edit],
      ["multi_edit", { edits: [edit] }],
    ] as const) {
      const result = await fixture.call(tool, { ...args, path });
      assert.equal(result.error, "permission_denied", `${tool}: ${result.text}`);
      assert.match(result.text, reason);
    }
  }
});
