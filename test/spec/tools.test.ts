import assert from "node:assert/strict";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { checkArguments } from "../../actors/tools/arguments.ts";
import { builtInTools } from "../../actors/tools/registry/built-in.ts";
import { todosOf } from "../../bus/frames/todos.ts";
import { openFixture } from "../actors/tools/workspace/workspace-fixture.ts";

describe("calculator", () => {
  test("TOOL-002 the calculator evaluates arithmetic", async (t) => {
    const fixture = openFixture(t);

    assert.equal(await fixture.text("calculator", { expression: "2*(3+4)" }), "14");
    assert.equal(await fixture.text("calculator", { expression: "0.1 + 0.2" }), "0.3");
    assert.equal(await fixture.text("calculator", { expression: "-7 // 2" }), "-4");
    assert.equal(await fixture.text("calculator", { expression: "-7 % 3" }), "2");
    assert.equal(await fixture.text("calculator", { expression: "2**64" }), "18446744073709551616");
  });

  for (const expression of [
    "__import__('os')",
    "__import__",
    "constructor",
    "process.exit()",
    "a=1",
    "",
    "1 +",
    "9**9**9",
    "2**100000",
    "1/0",
  ]) {
    test(`TOOL-002 the calculator refuses ${JSON.stringify(expression)}`, async (t) => {
      const fixture = openFixture(t);

      const result = await fixture.call("calculator", { expression });

      assert.equal(result.error, "invalid_arguments");
      assert.match(result.text, /^invalid expression: /);
    });
  }
});

describe("list_dir", () => {
  test("TOOL-003 list_dir shows 500 of 501 entries and says so", async (t) => {
    const fixture = openFixture(t);
    for (let i = 0; i < 501; i++) fixture.put(`full/f${String(i).padStart(3, "0")}`, "");
    for (let i = 0; i < 500; i++) fixture.put(`even/f${String(i).padStart(3, "0")}`, "");

    const full = (await fixture.text("list_dir", { path: "full" })).split("\n");
    const even = (await fixture.text("list_dir", { path: "even" })).split("\n");

    assert.equal(full.length, 501);
    assert.equal(full[0], "f000\t0");
    assert.equal(full[499], "f499\t0");
    assert.equal(full[500], "[truncated at 500]");
    assert.equal(even.length, 500);
    assert.equal(even[499], "f499\t0");
  });

  test("TOOL-003 list_dir marks directories, shows sizes, and omits links", async (t) => {
    const fixture = openFixture(t);
    fixture.put("src/main.ts", "12345");
    fixture.put("b.txt", "");
    symlinkSync(fixture.outside, fixture.at("link"));

    assert.equal(await fixture.text("list_dir", {}), "b.txt\t0\nsrc/");
    assert.equal(await fixture.text("list_dir", { path: "src" }), "main.ts\t5");
    assert.equal(await fixture.text("list_dir", { path: "src/" }), "main.ts\t5");
    assert.equal((await fixture.call("list_dir", { path: "b.txt" })).error, "invalid_arguments");
    assert.equal((await fixture.call("list_dir", { path: "gone" })).error, "not_found");
  });
});

describe("read_file", () => {
  test("TOOL-004 read_file returns a window of lines, counted from 1", async (t) => {
    const fixture = openFixture(t);
    fixture.put("a.txt", "one\ntwo\r\nthree\nfour");

    assert.equal(await fixture.text("read_file", { path: "a.txt" }), "one\ntwo\r\nthree\nfour");
    assert.equal(await fixture.text("read_file", { path: "a.txt", offset: 2, limit: 2 }), "two\r\nthree\n");
    assert.equal(await fixture.text("read_file", { path: "a.txt", limit: 1 }), "one\n");
    assert.equal(await fixture.text("read_file", { path: "a.txt", offset: 4 }), "four");
    const past = await fixture.call("read_file", { path: "a.txt", offset: 5 });
    assert.equal(past.error, "invalid_arguments");
    assert.match(past.text, /4 lines/);
    assert.equal((await fixture.call("read_file", { path: "a.txt", offset: 0 })).error, "invalid_arguments");
  });

  test("TOOL-004 read_file refuses more than 512 KB without a window and cuts a window there", async (t) => {
    const fixture = openFixture(t);
    fixture.put("fits.txt", "x".repeat(512_000));
    fixture.put("over.txt", "x".repeat(512_001));
    fixture.put("large.txt", `${"y".repeat(99)}\n`.repeat(6000));

    assert.equal((await fixture.text("read_file", { path: "fits.txt" })).length, 512_000);
    assert.equal((await fixture.call("read_file", { path: "over.txt" })).error, "invalid_arguments");
    assert.match((await fixture.call("read_file", { path: "large.txt" })).text, /600000 bytes.*offset and limit/);
    assert.equal(await fixture.text("read_file", { path: "large.txt", offset: 5999, limit: 1 }), `${"y".repeat(99)}\n`);
    const cut = await fixture.text("read_file", { path: "large.txt", offset: 1 });
    assert.ok(cut.endsWith("\n[truncated at 512000 bytes]"));
    assert.equal(cut.length, 512_000 + "\n[truncated at 512000 bytes]".length);
  });

  test("TOOL-004 read_file cuts between characters and refuses what is not text", async (t) => {
    const fixture = openFixture(t);
    fixture.put("wide.txt", `x${"€".repeat(200_000)}`);
    fixture.put("binary", Uint8Array.of(1, 0, 2));
    fixture.put("latin1.txt", Uint8Array.of(99, 97, 102, 0xe9));

    const cut = await fixture.text("read_file", { path: "wide.txt", offset: 1 });

    assert.ok(!cut.includes("\ufffd"));
    assert.match((await fixture.call("read_file", { path: "binary" })).text, /not a text file/);
    assert.equal(await fixture.text("read_file", { path: "latin1.txt" }), "caf\ufffd");
  });
});

describe("write_file", () => {
  test("TOOL-005 write_file creates, replaces and appends", async (t) => {
    const fixture = openFixture(t);

    assert.equal(await fixture.text("write_file", { path: "a/b/c.txt", content: "één" }), "wrote a/b/c.txt (5 bytes)");
    assert.equal(
      await fixture.text("write_file", { path: "a/b/c.txt", content: "2", append: true }),
      "wrote a/b/c.txt (6 bytes)",
    );
    assert.equal(readFileSync(fixture.at("a/b/c.txt"), "utf8"), "één2");
    assert.equal(await fixture.text("write_file", { path: "a/b/c.txt", content: "new" }), "wrote a/b/c.txt (3 bytes)");
    assert.equal(readFileSync(fixture.at("a/b/c.txt"), "utf8"), "new");
    assert.equal(
      await fixture.text("write_file", { path: "fresh", content: "x", append: true }),
      "wrote fresh (1 bytes)",
    );
    assert.deepEqual(readdirSync(fixture.at("a/b")), ["c.txt"]);
  });

  test("TOOL-005 write_file refuses a file over 512 KB, also by appending, and changes nothing", async (t) => {
    const fixture = openFixture(t);
    fixture.put("old.txt", "x".repeat(511_999));

    const over = await fixture.call("write_file", { path: "new/new.txt", content: "x".repeat(512_001) });
    const wide = await fixture.call("write_file", { path: "new/new.txt", content: "é".repeat(256_001) });
    const appended = await fixture.call("write_file", { path: "old.txt", content: "xx", append: true });

    for (const result of [over, wide, appended]) assert.equal(result.error, "invalid_arguments");
    assert.equal(existsSync(fixture.at("new")), false);
    assert.equal(statSync(fixture.at("old.txt")).size, 511_999);
    await fixture.text("write_file", { path: "old.txt", content: "x", append: true });
    await fixture.text("write_file", { path: "new.txt", content: "x".repeat(512_000) });
  });

  test("TOOL-005 write_file keeps the permissions of a file that it replaces", async (t) => {
    const fixture = openFixture(t);
    fixture.put("run.sh", "old");
    chmodSync(fixture.at("run.sh"), 0o750);

    await fixture.text("write_file", { path: "run.sh", content: "new" });

    assert.equal(statSync(fixture.at("run.sh")).mode & 0o777, 0o750);
  });

  test("TOOL-005 parallel appends to one file are all kept", async (t) => {
    const fixture = openFixture(t);

    const appends = Array.from({ length: 20 }, (_, i) =>
      fixture.text("write_file", { path: "log", content: `${i}\n`, append: true }),
    );
    await Promise.all(appends);

    const lines = readFileSync(fixture.at("log"), "utf8").trim().split("\n");
    assert.deepEqual(
      lines.sort((a, b) => Number(a) - Number(b)),
      Array.from({ length: 20 }, (_, i) => String(i)),
    );
  });
});

describe("git paths", () => {
  const paths = [
    ".git/config",
    ".git",
    "sub/.git/hooks/pre-commit",
    ".gitattributes",
    "sub/.gitattributes",
    ".GIT/config",
    "sub/.GitAttributes",
  ];
  for (const path of paths) {
    test(`TOOL-006 write_file, edit_file and multi_edit refuse ${path}`, async (t) => {
      const fixture = openFixture(t);
      const real = path === ".git" ? ".git/HEAD" : path;
      fixture.put(real, "old");
      const edit = { old_string: "old", new_string: "new" };

      const results = [
        await fixture.call("write_file", { path, content: "new" }),
        await fixture.call("write_file", { path, content: "new", append: true }),
        await fixture.call("edit_file", { path, ...edit }),
        await fixture.call("multi_edit", { path, edits: [edit] }),
      ];

      for (const result of results) assert.equal(result.error, "permission_denied");
      assert.equal(readFileSync(fixture.at(real), "utf8"), "old");
      assert.equal(await fixture.text("read_file", { path: real }), "old");
    });
  }
});

describe("edit_file", () => {
  test("TOOL-007 edit_file keeps every other byte: CRLF, other encodings, a missing last line end", async (t) => {
    const fixture = openFixture(t);
    const before = Buffer.concat([
      Buffer.from("\ufeffa\r\nb\nold\r\n"),
      Buffer.of(0xff, 0xfe, 0, 0x80),
      Buffer.from("tail"),
    ]);
    fixture.put("mixed.bin", before);

    const text = await fixture.text("edit_file", { path: "mixed.bin", old_string: "old\r\n", new_string: "newer\r\n" });

    const after = Buffer.concat([
      Buffer.from("\ufeffa\r\nb\nnewer\r\n"),
      Buffer.of(0xff, 0xfe, 0, 0x80),
      Buffer.from("tail"),
    ]);
    assert.deepEqual(readFileSync(fixture.at("mixed.bin")), after);
    assert.equal(text, `wrote mixed.bin (${after.length} bytes)`);
  });

  test("TOOL-007 edit_file accepts files up to 4 MB, before and after", async (t) => {
    const fixture = openFixture(t);
    fixture.put("fits", `${"x".repeat(3_999_997)}old`);
    fixture.put("over", `${"x".repeat(4_999_997)}old`);
    fixture.put("grows", `${"x".repeat(3_999_997)}old`);

    await fixture.text("edit_file", { path: "fits", old_string: "old", new_string: "new" });
    const over = await fixture.call("edit_file", { path: "over", old_string: "old", new_string: "new" });
    const grows = await fixture.call("edit_file", { path: "grows", old_string: "old", new_string: "older" });

    assert.equal(readFileSync(fixture.at("fits"), "utf8").slice(-3), "new");
    assert.equal(over.error, "invalid_arguments");
    assert.equal(grows.error, "invalid_arguments");
    assert.equal(readFileSync(fixture.at("over"), "utf8").slice(-3), "old");
    assert.equal(statSync(fixture.at("grows")).size, 4_000_000);
  });

  test("TOOL-008 edit_file refuses no match, and two unless replace_all", async (t) => {
    const fixture = openFixture(t);
    fixture.put("a.txt", "one two one");

    const none = await fixture.call("edit_file", { path: "a.txt", old_string: "three", new_string: "3" });
    const two = await fixture.call("edit_file", { path: "a.txt", old_string: "one", new_string: "1" });
    const same = await fixture.call("edit_file", { path: "a.txt", old_string: "two", new_string: "two" });

    assert.equal(none.error, "not_found");
    assert.match(two.text, /more than once.*replace_all/);
    assert.equal(same.error, "invalid_arguments");
    assert.equal(readFileSync(fixture.at("a.txt"), "utf8"), "one two one");
    await fixture.text("edit_file", { path: "a.txt", old_string: "one", new_string: "1", replace_all: true });
    assert.equal(readFileSync(fixture.at("a.txt"), "utf8"), "1 two 1");
  });

  test("TOOL-008 a match that is missing only because of its line ends is explained", async (t) => {
    const fixture = openFixture(t);
    fixture.put("a.txt", "one\r\ntwo\r\n");

    const result = await fixture.call("edit_file", { path: "a.txt", old_string: "one\ntwo", new_string: "x" });

    assert.match(result.text, /end with \\r\\n/);
  });
});

describe("multi_edit", () => {
  test("TOOL-009 multi_edit applies its edits in order, each to the result of the one before", async (t) => {
    const fixture = openFixture(t);
    fixture.put("a.txt", "abc");

    const edits = [
      { old_string: "a", new_string: "xx" },
      { old_string: "x", new_string: "y", replace_all: true },
      { old_string: "yybc", new_string: "done" },
    ];
    assert.equal(await fixture.text("multi_edit", { path: "a.txt", edits }), "wrote a.txt (4 bytes)");

    assert.equal(readFileSync(fixture.at("a.txt"), "utf8"), "done");
  });

  test("TOOL-009 multi_edit applies 1 to 50 edits, all or none, to files up to 512 KB", async (t) => {
    const fixture = openFixture(t);
    fixture.put("a.txt", "abc");
    fixture.put("large.txt", "x".repeat(512_001));
    fixture.put("grows.txt", `${"x".repeat(511_999)}y`);
    const step = { old_string: "a", new_string: "a2", replace_all: true };

    const many = await fixture.call("multi_edit", { path: "a.txt", edits: Array(51).fill(step) });
    const none = await fixture.call("multi_edit", { path: "a.txt", edits: [] });
    const failing = await fixture.call("multi_edit", {
      path: "a.txt",
      edits: [step, { old_string: "zzz", new_string: "" }],
    });
    const large = await fixture.call("multi_edit", {
      path: "large.txt",
      edits: [{ old_string: "x", new_string: "", replace_all: true }],
    });
    const grows = await fixture.call("multi_edit", {
      path: "grows.txt",
      edits: [
        { old_string: "y", new_string: "yy" },
        { old_string: "yy", new_string: "y" },
      ],
    });

    for (const result of [many, none, large, grows]) assert.equal(result.error, "invalid_arguments");
    assert.match(failing.text, /edit 2: old_string is not in the file/);
    assert.equal(readFileSync(fixture.at("a.txt"), "utf8"), "abc");
    assert.equal(statSync(fixture.at("large.txt")).size, 512_001);
    await fixture.text("multi_edit", { path: "a.txt", edits: Array(50).fill(step) });
  });
});

describe("search_files", () => {
  test("TOOL-010 search_files returns path, line and text", async (t) => {
    const fixture = openFixture(t);
    fixture.put("src/a.ts", "first\nconst needle = 1;\r\nlast needle");
    fixture.put("src/b.ts", "Needle\n");
    fixture.put("other/c.ts", "needle");

    assert.equal(
      await fixture.text("search_files", { query: "needle", path: "src" }),
      "src/a.ts:2: const needle = 1;\nsrc/a.ts:3: last needle",
    );
    assert.equal(await fixture.text("search_files", { query: "needle", path: "other/c.ts" }), "other/c.ts:1: needle");
    assert.equal(
      await fixture.text("search_files", { query: "(?i)^needle$", regex: true }),
      "other/c.ts:1: needle\nsrc/b.ts:1: Needle",
    );
    assert.equal(await fixture.text("search_files", { query: "n.edle" }), "[no matches]");
    assert.match((await fixture.call("search_files", { query: "(", regex: true })).text, /^invalid regular expression/);
  });

  test("TOOL-010 search_files stops at 50 hits and at max_hits", async (t) => {
    const fixture = openFixture(t);
    for (let i = 0; i < 3; i++) fixture.put(`f${i}`, "needle\n".repeat(20));

    for (const regex of [false, true]) {
      const lines = (await fixture.text("search_files", { query: "needle", regex })).split("\n");
      assert.equal(lines.length, 51);
      assert.equal(lines[49], "f2:10: needle");
      assert.equal(lines[50], "[truncated at 50 hits]");
      const two = await fixture.text("search_files", { query: "needle", regex, max_hits: 2 });
      assert.equal(two, "f0:1: needle\nf0:2: needle\n[truncated at 2 hits]");
    }
    assert.equal((await fixture.call("search_files", { query: "needle", max_hits: 51 })).error, "invalid_arguments");
  });

  test("TOOL-010 search_files skips binaries, links, .git, and reports files over 256 KB", async (t) => {
    const fixture = openFixture(t);
    fixture.put("large", `needle${"x".repeat(255_995)}`);
    fixture.put("fits", `needle\n${"x".repeat(255_993)}`);
    fixture.put("binary", "needle\0");
    fixture.put(".git/HEAD", "needle");
    writeFileSync(join(fixture.outside, "secret"), "needle");
    symlinkSync(join(fixture.outside, "secret"), fixture.at("link"));

    const text = await fixture.text("search_files", { query: "needle" });

    assert.equal(text, "fits:1: needle\n[passed by files over 256000 bytes: 1]");
    assert.equal((await fixture.call("search_files", { query: "needle", path: "large" })).error, "invalid_arguments");
    assert.equal(await fixture.text("search_files", { query: "needle", path: ".git" }), ".git/HEAD:1: needle");
  });

  test("TOOL-010 a hit in a long line is shown with the text around it", async (t) => {
    const fixture = openFixture(t);
    fixture.put("long", `${"x".repeat(5000)}needle${"y".repeat(5000)}\n`);

    const literal = await fixture.text("search_files", { query: "needle" });
    const regex = await fixture.text("search_files", { query: "ne{2}dle", regex: true });

    assert.equal(literal, `long:1: …${"x".repeat(100)}needle${"y".repeat(194)}…`);
    assert.ok(regex.startsWith(literal));
    assert.match(regex, /first \d+ characters of long lines: 1/);
  });
});

describe("glob", () => {
  test("TOOL-011 glob finds files by path, sorted, from the workspace's root", async (t) => {
    const fixture = openFixture(t);
    for (const path of ["a.ts", "src/b.ts", "src/deep/er/c.ts", "src/d.js", "src/.e.ts", ".git/f.ts"])
      fixture.put(path, "");

    assert.equal(await fixture.text("glob", { pattern: "**/*.ts" }), "a.ts\nsrc/.e.ts\nsrc/b.ts\nsrc/deep/er/c.ts");
    assert.equal(await fixture.text("glob", { pattern: "src/?.ts" }), "src/b.ts");
    assert.equal(await fixture.text("glob", { pattern: "**", path: "src/deep" }), "src/deep/er/c.ts");
    assert.equal(await fixture.text("glob", { pattern: "src/**/er/*" }), "src/deep/er/c.ts");
    assert.equal(await fixture.text("glob", { pattern: ".git/*" }), ".git/f.ts");
    assert.equal(await fixture.text("glob", { pattern: "a.ts" }), "a.ts");
    assert.equal(await fixture.text("glob", { pattern: "gone/*.ts" }), "[no matches]");
    assert.equal((await fixture.call("glob", { pattern: "*.ts", path: "gone" })).error, "not_found");
  });

  test("TOOL-011 glob returns 500 of 501 matches and says so", async (t) => {
    const fixture = openFixture(t);
    for (let i = 0; i < 501; i++) fixture.put(`d${i % 3}/f${i}`, "");

    const lines = (await fixture.text("glob", { pattern: "*/f*" })).split("\n");
    const few = await fixture.text("glob", { pattern: "*/f*", max_results: 1 });

    assert.equal(lines.length, 501);
    assert.equal(lines[500], "[truncated at 500]");
    assert.equal(few, "d0/f0\n[truncated at 1]");
    assert.equal((await fixture.call("glob", { pattern: "*", max_results: 501 })).error, "invalid_arguments");
  });

  const refused = [
    "../*",
    "a/../b",
    "/etc/*",
    "*a*b*c*d*e*f*g*h*i",
    "?????????",
    "**/**/**/**/**",
    "a/**b",
    "{a,b}",
    "[ab]",
    "a//b",
    "a\\b",
    "./a",
  ];
  for (const pattern of refused) {
    test(`TOOL-012 glob refuses ${pattern}`, async (t) => {
      const fixture = openFixture(t);

      const result = await fixture.call("glob", { pattern });

      assert.equal(result.error, "invalid_arguments");
      assert.match(result.text, /^the pattern /);
    });
  }

  for (const pattern of ["*a*b*c*d*e*f*g*h", "????????", "**/**/**/**/a"]) {
    test(`TOOL-012 glob accepts ${pattern}, which is at the bound`, async (t) => {
      const fixture = openFixture(t);

      assert.equal(await fixture.text("glob", { pattern }), "[no matches]");
    });
  }
});

describe("todo_write", () => {
  test("TOOL-016 todo_write accepts 100 items and one in progress", async (t) => {
    const fixture = openFixture(t);
    const todos = Array.from({ length: 100 }, (_, i) => ({
      content: `step ${i}`,
      status: i === 3 ? "in_progress" : "pending",
    }));

    assert.equal(await fixture.text("todo_write", { todos }), "the list has 100 items, 0 of them completed");
    assert.equal(await fixture.text("todo_write", { todos: [] }), "the list has 0 items, 0 of them completed");
    assert.equal(fixture.frames.length, 2);
  });

  const item = { content: "a", status: "in_progress" };
  const refused: [string, unknown][] = [
    ["101 items", Array(101).fill({ content: "a" })],
    ["two in progress", [item, item]],
    ["empty content", [{ content: "" }]],
    ["blank content", [{ content: " \t" }]],
    ["content of 501 characters", [{ content: "x".repeat(501) }]],
    ["an unknown status", [{ content: "a", status: "done" }]],
    ["an unknown key", [{ content: "a", id: "7" }]],
  ];
  for (const [name, todos] of refused) {
    test(`TOOL-016 todo_write refuses ${name} and sends no frame`, async (t) => {
      const fixture = openFixture(t);

      const result = await fixture.call("todo_write", { todos });

      assert.equal(result.error, "invalid_arguments");
      assert.deepEqual(fixture.frames, []);
    });
  }

  test("STREAM-037 an accepted todo_write sends todo_updated with the whole list, ids by position", async (t) => {
    const fixture = openFixture(t);

    await fixture.text("todo_write", {
      todos: [
        { content: "read", status: "completed" },
        { content: "write", status: "in_progress", active_form: "writing" },
        { content: "rest" },
      ],
    });

    const data = {
      todos: [
        { id: "1", content: "read", status: "completed", active_form: "" },
        { id: "2", content: "write", status: "in_progress", active_form: "writing" },
        { id: "3", content: "rest", status: "pending", active_form: "" },
      ],
    };
    assert.deepEqual(fixture.frames, [{ frame: "todo_updated", data }]);
  });

  test("SESS-018 the list of a logged call is the list of its frame", async (t) => {
    const fixture = openFixture(t);
    const args = { todos: [{ content: "a", status: "completed" as const }, { content: "b" }] };

    await fixture.text("todo_write", args);

    assert.deepEqual({ todos: todosOf(args) }, fixture.frames[0]?.data);
  });
});

describe("workspace", () => {
  const calls: [string, Record<string, unknown>][] = [
    ["list_dir", {}],
    ["read_file", {}],
    ["write_file", { content: "x" }],
    ["edit_file", { old_string: "a", new_string: "b" }],
    ["multi_edit", { edits: [{ old_string: "a", new_string: "b" }] }],
    ["search_files", { query: "a" }],
    ["glob", { pattern: "*" }],
  ];

  for (const [tool, args] of calls) {
    test(`WS-013 ${tool} refuses absolute paths and traversal`, async (t) => {
      const fixture = openFixture(t);
      writeFileSync(join(fixture.outside, "x"), "a");

      for (const path of ["/etc/passwd", "../outside/x", "a/../../outside/x", "..", "C:/x"]) {
        const result = await fixture.call(tool, { ...args, path });
        assert.equal(result.error, "invalid_arguments", `${path}: ${result.text}`);
        assert.match(result.text, /^the path /);
      }
      assert.equal(readFileSync(join(fixture.outside, "x"), "utf8"), "a");
    });

    test(`WS-014 ${tool} does not follow a link, at the end or on the way`, async (t) => {
      const fixture = openFixture(t);
      mkdirSync(join(fixture.outside, "sub"));
      writeFileSync(join(fixture.outside, "sub/x"), "a");
      symlinkSync(join(fixture.outside, "sub"), fixture.at("dir"));
      symlinkSync(join(fixture.outside, "sub/x"), fixture.at("file"));
      symlinkSync("nowhere", fixture.at("dangling"));

      for (const path of ["dir", "dir/x", "dir/deep/er", "file", "dangling"]) {
        const result = await fixture.call(tool, { ...args, path });
        assert.equal(result.text, "symlinks are not followed in workspace paths", path);
        assert.equal(result.error, "permission_denied");
      }
      assert.deepEqual(readdirSync(join(fixture.outside, "sub")), ["x"]);
      assert.equal(readFileSync(join(fixture.outside, "sub/x"), "utf8"), "a");
      assert.equal(existsSync(fixture.at("nowhere")), false);
    });

    test(`WS-015 ${tool} fails while SVC_WORKSPACE_ROOT is unset`, async (t) => {
      const fixture = openFixture(t);

      for (const workspaceScope of ["thread", "tenant", "deployment"] as const) {
        const overrides = {
          workspaceScope,
          workspace: { root: null, deploymentTenants: ["default"], checkout: async () => null },
        };
        const result = await fixture.call(tool, { path: "a", ...args }, overrides);
        assert.equal(result.text, "workspace_root is not configured");
        assert.equal(result.error, "transport_unavailable");
      }
    });

    test(`WS-019 ${tool} is refused in a turn without a thread under scope thread`, async (t) => {
      const fixture = openFixture(t);

      const overrides = { workspaceScope: "thread" as const, threadSuffix: null };
      const result = await fixture.call(tool, { path: "a", ...args }, overrides);

      assert.equal(result.error, "permission_denied");
      assert.match(result.text, /needs a thread_id/);
      assert.deepEqual(readdirSync(fixture.root), []);
    });
  }

  test("WS-016 each scope has its own directory", async (t) => {
    const fixture = openFixture(t);

    for (const workspaceScope of ["thread", "tenant", "deployment"] as const)
      await fixture.text("write_file", { path: "a", content: workspaceScope }, { workspaceScope });

    assert.equal(readFileSync(fixture.at(".svc-scopes/default/threads/t1/a"), "utf8"), "thread");
    assert.equal(readFileSync(fixture.at(".svc-scopes/default/shared/a"), "utf8"), "tenant");
    assert.equal(readFileSync(fixture.at("a"), "utf8"), "deployment");
  });

  test("WS-017 two threads are separate, and a tenant's threads share under scope tenant", async (t) => {
    const fixture = openFixture(t);
    const thread = { workspaceScope: "thread" as const };
    const tenant = { workspaceScope: "tenant" as const };

    await fixture.text("write_file", { path: "a", content: "of t1" }, { ...thread, threadSuffix: "t1" });
    await fixture.text("write_file", { path: "a", content: "of all" }, { ...tenant, threadSuffix: "t1" });

    assert.equal(await fixture.text("list_dir", {}, { ...thread, threadSuffix: "t2" }), "[empty]");
    assert.equal(
      (await fixture.call("read_file", { path: "a" }, { ...thread, threadSuffix: "t2" })).error,
      "not_found",
    );
    assert.equal(await fixture.text("read_file", { path: "a" }, { ...thread, threadSuffix: "t1" }), "of t1");
    assert.equal(await fixture.text("read_file", { path: "a" }, { ...tenant, threadSuffix: "t2" }), "of all");
    assert.equal(await fixture.text("read_file", { path: "a" }, { ...tenant, threadSuffix: null }), "of all");
    for (const scope of [thread, tenant])
      assert.equal(
        (await fixture.call("read_file", { path: "a" }, { ...scope, tenantId: "other" })).error,
        "not_found",
      );
  });

  test("WS-018 scope deployment is the root itself, for listed tenants only", async (t) => {
    const fixture = openFixture(t);
    fixture.put("a", "shared");

    const allowed = await fixture.text("read_file", { path: "a" });
    const refused = await fixture.call("read_file", { path: "a" }, { tenantId: "other" });

    assert.equal(allowed, "shared");
    assert.equal(refused.error, "permission_denied");
    assert.match(refused.text, /not allowed for this tenant/);
  });

  test("WS-018 the directories of other scopes are hidden under scope deployment", async (t) => {
    const fixture = openFixture(t);
    await fixture.text("write_file", { path: "a", content: "secret" }, { workspaceScope: "thread" });

    assert.equal(await fixture.text("list_dir", {}), "[empty]");
    assert.equal(await fixture.text("glob", { pattern: "**" }), "[no matches]");
    assert.equal(await fixture.text("search_files", { query: "secret" }), "[no matches]");
    for (const path of [
      ".svc-scopes",
      ".svc-scopes/default/threads/t1/a",
      ".SVC-Scopes/default",
      "x/.svc-scopes/y",
      "SVC-SC~1/default",
    ])
      for (const [tool, args] of calls)
        assert.equal((await fixture.call(tool, { ...args, path })).error, "permission_denied", `${tool} ${path}`);
    assert.equal((await fixture.call("glob", { pattern: ".svc-scopes/**" })).error, "permission_denied");
  });
});

test("each tool declares its effect, its risk and whether it works on files", () => {
  const declared = builtInTools.map((tool) => [tool.name, tool.effect, tool.risk, tool.workspace]);

  assert.deepEqual(declared, [
    ["calculator", "read", "reads", false],
    ["list_dir", "read", "reads", true],
    ["read_file", "read", "reads", true],
    ["write_file", "once", "writes", true],
    ["edit_file", "once", "writes", true],
    ["multi_edit", "once", "writes", true],
    ["search_files", "read", "reads", true],
    ["glob", "read", "reads", true],
    ["todo_write", "idempotent", "writes", false],
    ["plan_create", "once", "writes", false],
    ["plan_update_step", "idempotent", "writes", false],
    ["plan_get", "read", "reads", false],
    ["ask_user", "read", "reads", false],
    ["trigger_event", "read", "reads", false],
    ["search_documents", "read", "reads", false],
    ["list_skills", "read", "reads", false],
    ["activate_skill", "idempotent", "reads", false],
    ["deactivate_skill", "idempotent", "reads", false],
    ["read_skill_file", "read", "reads", false],
  ]);
});

test("every tool's schema is plain and closed, and describes each property", async () => {
  for (const tool of builtInTools) {
    const schema = JSON.parse(JSON.stringify(tool.parameters));
    assert.deepEqual(schema, tool.parameters, "nothing in it is lost as JSON");
    checkObject(schema, tool.name);
    assert.equal((await checkArguments(tool, '{"surplus":1}', { defer: setImmediate })).ok, false);
  }

  function checkObject(schema: Record<string, unknown>, where: string): void {
    assert.equal(schema.type, "object", where);
    assert.equal(schema.additionalProperties, false, where);
    assert.ok(!JSON.stringify(schema).includes("$ref"), where);
    for (const [name, property] of Object.entries(schema.properties as Record<string, Record<string, unknown>>)) {
      assert.equal(typeof property.description, "string", `${where}.${name}`);
      const items = property.items as Record<string, unknown> | undefined;
      if (items && items.type !== "string") checkObject(items, `${where}.${name}`);
    }
  }
});
