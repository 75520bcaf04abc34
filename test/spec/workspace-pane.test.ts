// The files of a thread, as people read and change them over HTTP next to its agent.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { before, describe, test } from "node:test";
import { calls, gate, inTurn, says, shown, startChat, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { Answer } from "../support/http-client.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, startServer, type TestServer } from "../support/server.ts";
import { cleanup, tempDir } from "../support/temp.ts";

const { env, keys } = apiKeys({
  ann: { tenant_id: "default", sub: "ann", scopes: ["chat:write", "chat:read", "audit:read"] },
  vip: { tenant_id: "default", sub: "vip", scopes: ["chat:write", "chat:read", "vip"] },
  reader: { tenant_id: "default", sub: "reader", scopes: ["chat:read"] },
  other: { tenant_id: "two", sub: "ann", scopes: ["chat:write", "chat:read"] },
});
type Name = keyof typeof keys;

const hashOf = (content: string | Uint8Array) => createHash("sha256").update(content).digest("hex");
const code = ({ status, json }: Answer) => [status, json.detail];

describe("the workspace pane", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  let root: string;
  before(async () => {
    root = tempDir(atEnd);
    const tools = ["write_file", "read_file"];
    ({ server, mock } = await startChat(atEnd, {
      models: ["plain", "works", "held"],
      manifests: {
        agent: { tools, model: { id: "works" } },
        shared: { tools, workspace: { scope: "tenant" } },
        whole: { tools, workspace: { scope: "deployment" } },
        guarded: { tools, auth: { inbound: { required_scopes: ["vip"] } } },
      },
      env: { ...env, SVC_CHAT_SCOPES: "strict", SVC_WORKSPACE_ROOT: root },
    }));
    mock.answer("plain", { text: "Yes." });
  });

  const as = (key: Name = "ann") => ({ key: keys[key] });
  const dirOf = (thread: string) => join(root, ".svc-scopes", "default", "threads", thread);
  function put(thread: string, path: string, content: string | Uint8Array = ""): string {
    const at = join(dirOf(thread), path);
    mkdirSync(dirname(at), { recursive: true });
    writeFileSync(at, content);
    return at;
  }
  const query = (fields: Record<string, string>) => new URLSearchParams(fields).toString();
  const tree = (thread_id: string, fields: Record<string, string> = {}, key: Name = "ann") =>
    server.get(`/chat/workspace/tree?${query({ thread_id, ...fields })}`, as(key));
  const pathsOf = async (thread: string, fields: Record<string, string> = {}) =>
    (await tree(thread, fields)).json.entries.map(({ path, type }: { path: string; type: string }) =>
      type === "dir" ? `${path}/` : path,
    );
  const file = (thread_id: string, path: string, key: Name = "ann", fields: Record<string, string> = {}) =>
    server.get(`/chat/workspace/file?${query({ thread_id, path, ...fields })}`, as(key));
  const change = (op: string, thread_id: string, fields: object, key: Name = "ann") =>
    server.post(`/chat/workspace/${op}`, { thread_id, ...fields }, as(key));
  const write = (thread: string, path: string, content: string, fields: object = {}, key: Name = "ann") =>
    change("write", thread, { path, content, ...fields }, key);
  const onRecord = (thread: string, event_type: string) =>
    eventually("what was done on record", async () => {
      const { json } = await server.get(`/audit?event_type=${event_type}&limit=200`, as());
      const rows = json.items.filter(
        (row: { payload: { thread_id: string } }) => row.payload.thread_id === `default:${thread}`,
      );
      return rows.length > 0 ? rows : undefined;
    });

  test("WS-001 the tree lists folders before their content, with sizes, and only own files", async () => {
    mock.answer("works", inTurn(calls(["write_file", { path: "src/main.ts", content: "let a;" }]), { text: "Done." }));
    await server.post("/chat", turn("agent", "go", { thread_id: "trees" }), as());
    for (const path of ["b.txt", "C.txt", "a.txt", "B/inside", "A/deep/er", ".hidden", "dots/.gitattributes"])
      put("trees", path, "12345");
    for (const path of [".git/config", "src/.git/HEAD", `.svc-tmp-${"0".repeat(32)}`, "worktree/.git"])
      put("trees", path, "x");
    mkdirSync(join(dirOf("trees"), "empty"));
    symlinkSync("/etc", join(dirOf("trees"), "link"));
    symlinkSync("b.txt", join(dirOf("trees"), "link.txt"));

    const { status, json } = await tree("trees", {}, "reader");

    assert.equal(status, 200);
    const { entries, ...rest } = json;
    assert.deepEqual(rest, { root_kind: "scoped", scope: "thread", manifest: "agent", truncated: false });
    assert.deepEqual(await pathsOf("trees"), [
      ".hidden",
      "A/",
      "A/deep/",
      "A/deep/er",
      "a.txt",
      "B/",
      "B/inside",
      "b.txt",
      "C.txt",
      "dots/",
      "dots/.gitattributes",
      "empty/",
      "src/",
      "src/main.ts",
      "worktree/",
    ]);
    const [first, second] = entries;
    assert.deepEqual(
      [first, second],
      [
        { path: ".hidden", type: "file", bytes: 5 },
        { path: "A", type: "dir" },
      ],
    );
  });

  test("WS-001 the tree of an empty or missing workspace is empty, and nothing is created", async () => {
    const { status, json } = await tree("nowhere");

    assert.deepEqual([status, json.entries, json.scope, json.manifest], [200, [], "thread", null]);
    assert.ok(!existsSync(dirOf("nowhere")));
    assert.equal((await server.get("/chat/sessions/nowhere", as())).json.createdAt, null);
    assert.deepEqual(code(await file("nowhere", "a")), [404, "not_found"]);
  });

  test("WS-001 a tree is cut at its limit, and says so when there is more", async () => {
    for (let at = 0; at < 10; at++) put("many", `d/f${at}`);

    for (const [limit, count, truncated] of [
      [1, 1, true],
      [2, 2, true],
      [10, 10, true],
      [11, 11, false],
      [5000, 11, false],
    ] as const) {
      const { json } = await tree("many", { limit: String(limit) });
      assert.deepEqual([json.entries.length, json.truncated], [count, truncated], String(limit));
    }
    for (const limit of ["0", "5001", "x"]) assert.equal((await tree("many", { limit })).status, 422);
  });

  test("WS-001 a huge tree delays no other request and is cut at the scan limit", async () => {
    const dir = dirOf("huge");
    mkdirSync(dir, { recursive: true });
    // Each link costs a name and is not listed, so the scan's limit ends the listing, not the answer's.
    for (let at = 0; at < 60_000; at++) symlinkSync("nowhere", join(dir, `l${at}`));
    put("huge", "zzz", "x");
    // The links took a while to create, and idle connections may have been closed since.
    server.close();

    const cut = tree("huge");
    let asked = 0;
    let answered = false;
    void cut.then(() => {
      answered = true;
    });
    while (!answered) {
      assert.equal((await server.get("/live")).status, 200);
      asked++;
    }
    const { json } = await cut;

    assert.equal(json.truncated, true);
    assert.ok(asked >= 3, `${asked} probes beside it`);
  });

  test("WS-002 a file is read unchanged: text as text, other bytes as base64", async () => {
    const bytes = Buffer.from([0xff, 0, 0x80, 10]);
    put("reads", "bytes", bytes);
    for (const [path, content] of [
      ["text", "Grüße\n\u0001\r\n"],
      ["bom", "\ufeffx"],
      ["none", ""],
    ] as const) {
      put("reads", path, content);
      const { json } = await file("reads", path, "reader");
      const expected = { path, bytes: Buffer.byteLength(content), sha256: hashOf(content), encoding: "utf-8", content };
      assert.deepEqual(json, expected);
    }

    const { json } = await file("reads", "bytes");
    assert.deepEqual([json.encoding, json.content, json.sha256], ["base64", bytes.toString("base64"), hashOf(bytes)]);
    put("reads", "nul", "a\u0000b");
    assert.equal((await file("reads", "nul")).json.encoding, "base64");
    put("reads", "largest", "x".repeat(512_000));
    put("reads", "larger", "x".repeat(512_001));
    assert.equal((await file("reads", "largest")).json.bytes, 512_000);
    assert.deepEqual(code(await file("reads", "larger")), [413, "too_large"]);
  });

  test("WS-003 the agent reads what a client writes, and the other way round", async () => {
    const content = "Hello \u00e9\n";
    const { status, json } = await write("writes", "notes/a.txt", content);
    mock.answer("works", inTurn(calls(["read_file", { path: "notes/a.txt" }]), { text: "Read." }));
    await server.post("/chat", turn("agent", "go", { thread_id: "writes" }), as());
    const { messages } = (await server.get("/chat/history/writes", as())).json;

    assert.equal(status, 200);
    assert.deepEqual([json.path, json.bytes, json.sha256], ["notes/a.txt", 9, hashOf(content)]);
    assert.ok(
      messages.some(
        (message: { role: string; content: string }) => message.role === "tool" && message.content === content,
      ),
    );
    assert.equal(statSync(join(dirOf("writes"), "notes/a.txt")).mode & 0o111, 0);
    const [row] = await onRecord("writes", "workspace_write");
    assert.deepEqual(row.payload, { thread_id: "default:writes", path: "notes/a.txt", bytes: 9, manifest: null });
    assert.deepEqual([row.principal_subj, row.status], ["ann", "ok"]);
  });

  test("WS-003 a file changed since it was read stays; the answer has its hash and size", async () => {
    const at = put("stale", "a", "old");
    const seen = hashOf("old");
    const changed = (sha256: string | null, bytes: number | null) => ({
      ...{ error: "workspace_changed", detail: "workspace_changed" },
      ...{ sha256, bytes },
    });

    assert.equal((await write("stale", "a", "new", { expected_sha256: seen.toUpperCase() })).status, 200);
    for (const refused of [
      await write("stale", "a", "mine", { expected_sha256: seen }),
      await change("delete", "stale", { path: "a", expected_sha256: seen }),
      await change("rename", "stale", { path: "a", to_path: "b", expected_sha256: seen }),
    ])
      assert.deepEqual([refused.status, refused.json], [409, changed(hashOf("new"), 3)]);
    const gone = await write("stale", "gone/there", "mine", { expected_sha256: seen });
    assert.deepEqual([gone.status, gone.json], [409, changed(null, null)]);
    writeFileSync(at, "x".repeat(512_001));
    const large = await write("stale", "a", "mine", { expected_sha256: seen });
    assert.deepEqual([large.status, large.json], [409, changed(null, 512_001)]);
    assert.deepEqual(readdirSync(dirOf("stale")), ["a"]);
    // A write without a hash replaces any file.
    assert.equal((await write("stale", "a", "mine")).status, 200);
    assert.equal((await change("delete", "stale", { path: "a", expected_sha256: hashOf("mine") })).status, 200);
    for (const hash of ["", "x".repeat(64), "0".repeat(63)])
      assert.equal((await write("stale", "a", "mine", { expected_sha256: hash })).status, 422, hash);
  });

  test("WS-003 a file has at most 512,000 bytes in any encoding", async () => {
    for (const letter of ["x", '"', "\n"]) {
      assert.equal((await write("sizes", "a", letter.repeat(512_000))).status, 200);
      assert.deepEqual(code(await write("sizes", "a", letter.repeat(512_001))), [413, "too_large"]);
    }
    assert.deepEqual(code(await write("sizes", "b", "é".repeat(256_001))), [413, "too_large"]);
    assert.deepEqual(await pathsOf("sizes"), ["a"]);
    const huge = await write("sizes", "a", "x".repeat(3 * 1024 * 1024));
    assert.deepEqual([huge.status, huge.json.error], [413, "payload_too_large"]);
  });

  test("WS-003 of simultaneous writes over one version, one succeeds", async () => {
    put("races", "a", "0");
    const seen = hashOf("0");
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, at) => write("races", "a", `w${at}`, { expected_sha256: seen })),
    );

    const won = answers.filter(({ status }) => status === 200);
    assert.equal(won.length, 1);
    const { content } = (await file("races", "a")).json;
    assert.equal(hashOf(content), won[0]?.json.sha256);
    for (const { status, json } of answers)
      if (status !== 200) assert.deepEqual([status, json.sha256, json.bytes], [409, hashOf(content), 2]);
  });

  test("WS-004 DELETE removes a file and refuses a folder; a missing path is 404", async () => {
    put("deletes", "a", "x");
    put("deletes", "dir/b", "x");

    const done = await change("delete", "deletes", { path: "a" });

    assert.deepEqual([done.status, done.json.path], [200, "a"]);
    assert.deepEqual(await pathsOf("deletes"), ["dir/", "dir/b"]);
    assert.deepEqual(code(await change("delete", "deletes", { path: "a" })), [404, "not_found"]);
    assert.deepEqual(code(await change("delete", "deletes", { path: "no/such" })), [404, "not_found"]);
    assert.deepEqual(code(await change("delete", "deletes", { path: "dir" })), [400, "not_a_file"]);
    assert.deepEqual(code(await file("deletes", "dir")), [400, "not_a_file"]);
    assert.deepEqual(code(await write("deletes", "dir", "x")), [400, "not_a_file"]);
    const rows = await onRecord("deletes", "workspace_delete");
    assert.deepEqual(
      rows.map(({ payload }: { payload: object }) => payload),
      [{ thread_id: "default:deletes", path: "a", manifest: null }],
    );
  });

  test("WS-005 a folder is deleted with its content, and links without their targets", async () => {
    const outside = join(root, "outside");
    mkdirSync(outside);
    writeFileSync(join(outside, "kept"), "kept");
    for (let at = 0; at < 300; at++) put("folders", `gone/d${at % 7}/f${at}`, "x");
    put("folders", "gone/.git/config", "x");
    put("folders", "gone/back\\slash", "x");
    symlinkSync(outside, join(dirOf("folders"), "gone/link"));
    linkSync(join(outside, "kept"), join(dirOf("folders"), "gone/hard"));
    put("folders", "stays", "x");

    const done = await change("delete_folder", "folders", { path: "gone" });

    assert.deepEqual([done.status, done.json.path, done.json.files], [200, "gone", 304]);
    assert.deepEqual(readdirSync(dirOf("folders")), ["stays"]);
    assert.equal(readFileSync(join(outside, "kept"), "utf8"), "kept");
    for (const [path, refusal] of [
      ["gone", [404, "not_found"]],
      ["stays", [400, "not_a_folder"]],
      ["stays/", [400, "invalid_path"]],
      [".", [400, "invalid_path"]],
      [".git", [400, "reserved_path"]],
    ] as const)
      assert.deepEqual(code(await change("delete_folder", "folders", { path })), refusal, path);
    symlinkSync(outside, join(dirOf("folders"), "link"));
    assert.deepEqual(code(await change("delete_folder", "folders", { path: "link" })), [400, "invalid_path"]);
    assert.ok(existsSync(join(outside, "kept")));
    const [row] = await onRecord("folders", "workspace_delete");
    assert.deepEqual([row.payload.path, row.payload.folder, row.payload.files], ["gone", true, 304]);
  });

  test("WS-006 a file is moved to a free path, and missing folders are created", async () => {
    put("moves", "a", "x");
    put("moves", "b", "y");
    put("moves", "dir/c", "z");

    const done = await change("rename", "moves", { path: "a", to_path: "new/deep/a", expected_sha256: hashOf("x") });
    const plain = await change("rename", "moves", { path: "b", to_path: "B2" });

    assert.deepEqual(
      [done.status, done.json.path, done.json.to_path, done.json.sha256],
      [200, "a", "new/deep/a", hashOf("x")],
    );
    assert.equal(plain.json.sha256, hashOf("y"));
    assert.deepEqual(await pathsOf("moves"), ["B2", "dir/", "dir/c", "new/", "new/deep/", "new/deep/a"]);
    for (const [fields, refusal] of [
      [{ path: "B2", to_path: "dir/c" }, [409, "target_exists"]],
      [{ path: "B2", to_path: "dir" }, [409, "target_exists"]],
      [{ path: "B2", to_path: "B2" }, [409, "target_exists"]],
      [{ path: "B2", to_path: "dir/c/d" }, [400, "invalid_path"]],
      [{ path: "gone", to_path: "d" }, [404, "not_found"]],
      [{ path: "dir", to_path: "d" }, [400, "not_a_file"]],
      [{ path: "B2", to_path: ".git/hooks" }, [400, "reserved_path"]],
      [{ path: "B2", to_path: "../B2" }, [400, "invalid_path"]],
    ] as const)
      assert.deepEqual(code(await change("rename", "moves", fields)), refusal, JSON.stringify(fields));
    assert.equal(readFileSync(join(dirOf("moves"), "dir/c"), "utf8"), "z");
    put("moves", "large", "x".repeat(512_001));
    assert.equal((await change("rename", "moves", { path: "large", to_path: "larger" })).json.sha256, null);
    const rows = await onRecord("moves", "workspace_rename");
    assert.deepEqual(rows.at(-1)?.payload, {
      thread_id: "default:moves",
      path: "a",
      to_path: "new/deep/a",
      manifest: null,
    });
  });

  test("WS-006 files moved back and forth concurrently are neither lost nor mixed", async () => {
    put("crossing", "a", "x");
    for (let round = 0; round < 5; round++) {
      const answers = await Promise.all(
        Array.from({ length: 8 }, (_, at) =>
          change("rename", "crossing", at % 2 ? { path: "a", to_path: "b" } : { path: "b", to_path: "a" }),
        ),
      );
      for (const { status } of answers) assert.ok([200, 404, 409].includes(status), String(status));
      assert.equal((await pathsOf("crossing")).length, 1);
    }
  });

  test("WS-007 a folder is moved with its content, and not into itself", async () => {
    put("shifts", "old/a/b", "x");
    put("shifts", "file", "x");
    put("shifts", "taken/c", "x");

    const done = await change("rename_folder", "shifts", { path: "old", to_path: "new/place" });

    assert.deepEqual([done.status, done.json.path, done.json.to_path], [200, "old", "new/place"]);
    assert.deepEqual(await pathsOf("shifts"), [
      "file",
      "new/",
      "new/place/",
      "new/place/a/",
      "new/place/a/b",
      "taken/",
      "taken/c",
    ]);
    for (const [fields, refusal] of [
      [{ path: "new", to_path: "taken" }, [409, "target_exists"]],
      [{ path: "new", to_path: "file" }, [409, "target_exists"]],
      [{ path: "new", to_path: "new" }, [409, "target_exists"]],
      [{ path: "new", to_path: "new/place/more" }, [400, "invalid_path"]],
      [{ path: "old", to_path: "older" }, [404, "not_found"]],
      [{ path: "file", to_path: "files" }, [400, "not_a_folder"]],
      [{ path: "new", to_path: "sub/.git" }, [400, "reserved_path"]],
    ] as const)
      assert.deepEqual(code(await change("rename_folder", "shifts", fields)), refusal, JSON.stringify(fields));
  });

  test("WS-005 a folder of any depth is deleted", async () => {
    for (const name of ["a", "b"]) put("deepest", `top/${name}/${"d/".repeat(200)}f`, "x");
    put("deepest", "other", "x");

    const done = await change("delete_folder", "deepest", { path: "top" });

    assert.deepEqual([done.status, done.json.files], [200, 2]);
    assert.deepEqual(await pathsOf("deepest"), ["other"]);
  });

  test("WS-007 a folder is not moved to where its content would exceed the depth limit", async () => {
    const chain = (names: number) => Array.from({ length: names }, () => "d").join("/");
    put("depths", chain(64), "x");
    const deeper = { path: "d", to_path: "e/d" };

    const refused = await change("rename_folder", "depths", deeper);
    const sideways = await change("rename_folder", "depths", { path: "d", to_path: "c" });
    const up = await change("rename_folder", "depths", { path: "c/d", to_path: "d" });
    const down = await change("rename_folder", "depths", deeper);

    // The folder is too deep already, and its move makes it no deeper.
    put("depths", `deep/${chain(70)}`, "x");
    const asDeep = await change("rename_folder", "depths", { path: "deep", to_path: "elsewhere" });

    assert.equal(asDeep.status, 200);
    assert.deepEqual(code(refused), [400, "invalid_path"]);
    assert.deepEqual([sideways.status, up.status, down.status], [200, 200, 200]);
    assert.deepEqual((await file("depths", `e/${chain(63)}`)).json.content, "x");
    for (const path of ["e", "elsewhere"])
      assert.deepEqual((await change("delete_folder", "depths", { path })).status, 200);
    assert.deepEqual(await pathsOf("depths"), ["c/"]);
  });

  test("WS-003 WS-004 WS-006 the agent reads of each change in the log, or before a live run's next call", async () => {
    const say = (model: string) => server.post("/chat", turn("agent", "hi", { thread_id: "told", model }), as());
    await say("plain");
    const done = [
      await write("told", "a", "x"),
      await change("rename", "told", { path: "a", to_path: "b" }),
      await change("delete", "told", { path: "b" }),
      await write("told", "d/e", "x"),
      await change("rename_folder", "told", { path: "d", to_path: "f" }),
      await change("delete_folder", "told", { path: "f" }),
    ];
    await write("told", "no/..", "x");
    await say("plain");

    const { transcript } = (await server.get("/chat/sessions/told", as())).json;
    const notes = transcript.filter(({ kind }: { kind: string }) => kind === "custom");
    assert.deepEqual(
      done.map(({ json }) => [json.status, json.event_id]),
      notes.map(({ id }: { id: string }) => ["recorded", id]),
    );
    const words = shown(mock.requests.at(-1))
      .map(({ content }) => content)
      .join("\n");
    for (const each of [
      'wrote "a" (1 bytes)',
      'renamed "a" to "b"',
      'deleted "b"',
      'renamed "d" to "f"',
      'deleted "f"',
    ])
      assert.ok(words.includes(each), `${each} in ${words}`);

    const more = gate();
    mock.answer("held", says("Begun", more.opened, "."));
    const live = await server.stream("/chat/stream", turn("agent", "go", { thread_id: "told", model: "held" }), as());
    await live.next();
    const queued = await write("told", "later", "x");
    more.open();
    await live.rest();
    assert.deepEqual([queued.status, queued.json.status, queued.json.event_id], [200, "queued", null]);
    assert.equal((await file("told", "later")).json.content, "x");
  });

  const hostile: Readonly<Record<string, string>> = {
    "../escape": "invalid_path",
    "a/../../escape": "invalid_path",
    "/etc/passwd": "invalid_path",
    "C:/windows": "invalid_path",
    "a\\..\\b": "invalid_path",
    "./a": "invalid_path",
    "a//b": "invalid_path",
    "a/": "invalid_path",
    "...": "invalid_path",
    "a\u0001b": "invalid_path",
    "a\nb": "invalid_path",
    "link/passwd": "invalid_path",
    "link.txt": "invalid_path",
    "hard.txt": "invalid_path",
    dangling: "invalid_path",
    "plain/below": "invalid_path",
    [`${"n".repeat(256)}`]: "invalid_path",
    ".svc-scopes/default/threads/other/a": "reserved_path",
    ".SVC-SCOPES/x": "reserved_path",
    [`.svc-tmp-${"0".repeat(32)}`]: "reserved_path",
    ".git/config": "reserved_path",
    "sub/.GIT/hooks/pre-commit": "reserved_path",
    ".git": "reserved_path",
    "git~1/config": "reserved_path",
    fifo: "not_a_file",
  };
  test("WS-002 no path leaves the workspace or enters .git or the service's files, on any route", async () => {
    const outside = join(root, "elsewhere");
    mkdirSync(outside, { recursive: true });
    writeFileSync(join(outside, "passwd"), "a secret of somebody");
    put("hostile", "plain", "x");
    put("hostile", "spare/x", "x");
    symlinkSync(outside, join(dirOf("hostile"), "link"));
    symlinkSync(join(outside, "passwd"), join(dirOf("hostile"), "link.txt"));
    symlinkSync(join(outside, "made-by-a-link"), join(dirOf("hostile"), "dangling"));
    linkSync(join(outside, "passwd"), join(dirOf("hostile"), "hard.txt"));
    mkdirSync(join(dirOf("hostile"), ".git"));
    execFileSync("mkfifo", [join(dirOf("hostile"), "fifo")]);
    const before = readdirSync(dirOf("hostile")).sort();

    for (const [path, expected] of Object.entries(hostile)) {
      const status = 400;
      for (const answer of [
        await file("hostile", path),
        await write("hostile", path, "mine"),
        await change("delete", "hostile", { path }),
        await change("rename", "hostile", { path, to_path: "moved" }),
      ]) {
        assert.deepEqual(code(answer), [status, expected], `${JSON.stringify(path)} ${answer.text}`);
        assert.ok(!answer.text.includes(root) && !answer.text.includes("/proc/"), answer.text);
      }
      // The target exists already or is invalid.
      const moved = await change("rename", "hostile", { path: "plain", to_path: path });
      assert.ok([400, 409].includes(moved.status), `${path} ${moved.text}`);
      const folder = await change("delete_folder", "hostile", { path });
      assert.equal(folder.status, 400, `${path} ${folder.text}`);
      const shifted = await change("rename_folder", "hostile", { path: "spare", to_path: path });
      assert.ok([400, 409].includes(shifted.status), `${path} ${shifted.text}`);
    }
    assert.deepEqual(code(await write("hostile", "sub/.gitattributes", "* filter=x")), [400, "reserved_path"]);
    assert.deepEqual(readdirSync(dirOf("hostile")).sort(), before);
    assert.deepEqual(readdirSync(outside), ["passwd"]);
    assert.equal(readFileSync(join(outside, "passwd"), "utf8"), "a secret of somebody");
    for (const path of ["", "p".repeat(4097)]) assert.equal((await file("hostile", path)).status, 422);
  });

  test("WS-002 a folder that is replaced by a link during writes leads nowhere", async () => {
    const outside = join(root, "trap");
    mkdirSync(outside);
    put("swapped", "dir/a", "x");
    const dir = join(dirOf("swapped"), "dir");
    for (let round = 0; round < 20; round++) {
      const writes = Array.from({ length: 4 }, (_, at) => write("swapped", `dir/f${at}`, "mine"));
      renameSync(dir, `${dir}.real`);
      symlinkSync(outside, dir);
      const answers = await Promise.all(writes);
      for (const { status, text } of answers) assert.ok([200, 400, 404, 409].includes(status), text);
      renameSync(dir, `${dir}.link${round}`);
      renameSync(`${dir}.real`, dir);
    }
    assert.deepEqual(readdirSync(outside), []);
  });

  test("the newest run's manifest selects the directory; without runs the given one", async () => {
    put("unrun", "mine", "x");
    mkdirSync(join(root, ".svc-scopes", "default", "shared"), { recursive: true });
    writeFileSync(join(root, ".svc-scopes", "default", "shared", "ours"), "x");

    assert.deepEqual(await pathsOf("unrun"), ["mine"]);
    assert.deepEqual(await pathsOf("unrun", { manifest: "shared" }), ["ours"]);
    assert.equal((await tree("unrun", { manifest: "shared" })).json.scope, "tenant");
    await server.post("/chat", turn("shared", "go", { thread_id: "unrun" }), as());
    assert.deepEqual(await pathsOf("unrun", { manifest: "agent" }), ["ours"]);
    await server.post("/chat", turn("agent", "go", { thread_id: "unrun", model: "plain" }), as());
    assert.deepEqual(await pathsOf("unrun", { manifest: "shared" }), ["mine"]);
    assert.deepEqual(code(await tree("never", { manifest: "nobody" })), [404, "unknown_manifest:nobody"]);
    assert.equal((await tree("never", { manifest: "m".repeat(257) })).status, 422);
  });

  test("the whole root is for listed tenants, and hides the scopes' directories", async () => {
    writeFileSync(join(root, "in-the-root"), "x");
    const shown = await pathsOf("never", { manifest: "whole" });
    const theirs = await tree("never", { manifest: "whole" }, "other");

    assert.ok(shown.includes("in-the-root"));
    assert.ok(!shown.some((path: string) => path.startsWith(".svc")));
    assert.deepEqual([theirs.status, theirs.json.error], [422, "invalid_manifest"]);
    assert.deepEqual(
      code(await file("never", ".svc-scopes/default/threads/unrun/mine", "ann", { manifest: "whole" })),
      [400, "reserved_path"],
    );
  });

  test("files need the right to run the manifest, changes need write, per tenant", async () => {
    put("doors", "a", "secret");
    const guarded = { manifest: "guarded" };
    assert.equal((await tree("doors", guarded, "vip")).status, 200);
    assert.deepEqual((await tree("doors", guarded)).status, 403);
    assert.equal((await file("doors", "a", "reader")).status, 200);
    for (const [op, fields] of [
      ["write", { path: "a", content: "" }],
      ["delete", { path: "a" }],
      ["delete_folder", { path: "a" }],
      ["rename", { path: "a", to_path: "b" }],
      ["rename_folder", { path: "a", to_path: "b" }],
    ] as const)
      assert.equal((await change(op, "doors", fields, "reader")).status, 403, op);

    assert.deepEqual((await tree("doors", {}, "other")).json.entries, []);
    assert.deepEqual(code(await file("doors", "a", "other")), [404, "not_found"]);
    assert.equal((await write("doors", "a", "theirs", {}, "other")).status, 200);
    assert.equal((await file("doors", "a")).json.content, "secret");
    for (const thread of ["a:b", "a/b", ""]) assert.deepEqual(code(await tree(thread)), [400, "invalid_thread_id"]);
    assert.deepEqual(code(await write("a%2fb", "x", "x")), [400, "invalid_thread_id"]);
  });

  test("a deleted conversation's own files are deleted, and its id starts without any", async () => {
    const outside = put("outside", "kept", "x");
    for (const path of ["a", "deep/.git/config", ".svc-tmp-0", `${"d/".repeat(300)}f`]) put("ended", path, "x");
    symlinkSync(dirname(outside), join(dirOf("ended"), "link"));
    await write("ended", "b", "x");
    await server.post("/chat/workspace/write", { thread_id: "ended", path: "c", content: "theirs" }, as("other"));
    await write("ended-shared", "ours", "x", { manifest: "shared" });
    // The thread's rows are deleted, or never existed.
    put("unbegun", "a", "x");
    const erase = (thread: string) => server.request("DELETE", `/chat/history/${thread}`, as());

    const done = [await erase("ended"), await erase("ended-shared"), await erase("never"), await erase("unbegun")];

    assert.deepEqual(
      done.map(({ status }) => status),
      [200, 200, 200, 200],
    );
    assert.deepEqual(
      [dirOf("ended"), dirOf("unbegun"), outside].map((path) => existsSync(path)),
      [false, false, true],
    );
    assert.deepEqual(await pathsOf("ended"), []);
    assert.deepEqual((await file("ended", "c", "other")).json.content, "theirs");
    assert.ok((await pathsOf("ended-shared", { manifest: "shared" })).includes("ours"));
  });

  test("a conversation whose files cannot be deleted stays until they can", async () => {
    put("stuck-place", "a", "x");
    await write("stuck", "a", "x");
    renameSync(dirOf("stuck"), dirOf("stuck-real"));
    symlinkSync(dirOf("stuck-place"), dirOf("stuck"));
    const erase = () => server.request("DELETE", "/chat/history/stuck", as());
    const eventsOf = async () => (await server.get("/chat/history/stuck", as())).json.events.length;

    const refused = await erase();
    const left = await eventsOf();
    unlinkSync(dirOf("stuck"));
    renameSync(dirOf("stuck-real"), dirOf("stuck"));
    const again = await erase();

    assert.deepEqual([code(refused), left], [[500, "workspace_io_error"], 1]);
    assert.deepEqual([again.status, await eventsOf(), existsSync(dirOf("stuck"))], [200, 0, false]);
    assert.ok(existsSync(join(dirOf("stuck-place"), "a")));
  });

  test("written files survive a restart, and only valid bodies are accepted", async () => {
    await write("kept", "a/b", "still");
    await server.restart();

    assert.equal((await file("kept", "a/b")).json.content, "still");
    for (const [op, fields] of [
      ["write", { path: "a" }],
      ["write", { path: "a", content: "", colour: 1 }],
      ["write", { path: "a", content: 1 }],
      ["delete", {}],
      ["rename", { path: "a" }],
      ["delete_folder", { path: "a", expected_sha256: "0".repeat(64) }],
    ] as const)
      assert.equal((await change(op, "kept", fields)).status, 422, op);
  });
});

describe("without a directory for workspaces", () => {
  const atEnd = cleanup();

  for (const [what, root] of [
    ["none is set", null],
    ["it is not there", "missing"],
  ] as const)
    test(`every route of the pane says so when ${what}`, async () => {
      const path = root === null ? {} : { SVC_WORKSPACE_ROOT: join(tempDir(atEnd), root) };
      const server = await startServer({ atEnd, env: path }).catch(() => null);
      // A missing directory may end the start.
      if (server === null) return assert.notEqual(root, null);
      const answers = [
        await server.get("/chat/workspace/tree?thread_id=t"),
        await server.get("/chat/workspace/file?thread_id=t&path=a"),
        await server.post("/chat/workspace/write", { thread_id: "t", path: "a", content: "" }),
        await server.post("/chat/workspace/delete", { thread_id: "t", path: "a" }),
        await server.post("/chat/workspace/delete_folder", { thread_id: "t", path: "a" }),
        await server.post("/chat/workspace/rename", { thread_id: "t", path: "a", to_path: "b" }),
        await server.post("/chat/workspace/rename_folder", { thread_id: "t", path: "a", to_path: "b" }),
      ];
      for (const answer of answers) assert.deepEqual(code(answer), [503, "workspace_not_configured"]);
    });
});
