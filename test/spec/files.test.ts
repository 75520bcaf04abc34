// Uploads: POST, GET and DELETE /files.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { errorTable } from "../../bus/errors.ts";
import { fileBytesMax } from "../../storage/files/file-store.ts";
import { gif, jpeg, png, svg, webp } from "../support/image-bytes.ts";
import { onOneHost } from "../support/on-two-hosts.ts";
import { apiKeys, startServer, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const { env, keys } = apiKeys({
  both: { scopes: ["files:write", "files:read"] },
  reader: { scopes: ["files:read"] },
  writer: { scopes: ["files:write"] },
  chatter: { scopes: ["chat:write"] },
  stranger: { tenant_id: "globex", scopes: ["files:write", "files:read"] },
});

const types = { "image/gif": gif, "image/jpeg": jpeg, "image/png": png(), "image/webp": webp };
const nobodys = "0".repeat(32);

function uploadOf(bytes: Buffer, media_type: string, more: object = {}) {
  return { data: bytes.toString("base64"), media_type, ...more };
}

describe("files", () => {
  const atEnd = cleanup();
  let server: TestServer;
  before(async () => {
    server = await startServer({ env, atEnd });
  });

  const post = (body: unknown, key: string = keys.both) => server.post("/files", body, { key });
  const get = (id: string, key: string = keys.both) => server.get(`/files/${id}`, { key });
  const remove = (id: string, key: string = keys.both) => server.request("DELETE", `/files/${id}`, { key });
  const refusal = async (body: unknown) => {
    const { status, json } = await post(body);
    return [status, json.error];
  };

  test("FILE-001 FILE-002 FILE-003 an image of each type comes back byte for byte", async () => {
    for (const [media_type, bytes] of Object.entries(types)) {
      const sent = uploadOf(bytes, media_type, { filename: "a b.img" });

      const kept = await post(sent);
      const read = await get(kept.json.file_id);

      assert.equal(kept.status, 200, kept.text);
      assert.match(kept.json.file_id, /^[0-9a-f]{32}$/);
      const { file_id } = kept.json;
      assert.deepEqual(kept.json, { file_id, media_type, size_bytes: bytes.length, filename: "a b.img" });
      assert.deepEqual(read.json, { file_id, size_bytes: bytes.length, data: sent.data });
      assert.equal(read.headers["x-content-type-options"], "nosniff");
    }
  });

  test("FILE-001 a file name is optional and has at most 255 characters", async () => {
    const unnamed = await post(uploadOf(gif, "image/gif"));
    const longest = await post(uploadOf(gif, "image/gif", { filename: "n".repeat(255) }));
    const longer = await post(uploadOf(gif, "image/gif", { filename: "n".repeat(256) }));
    const unknown = await post(uploadOf(gif, "image/gif", { thread_id: "t" }));

    assert.equal(unnamed.json.filename, "");
    assert.equal(longest.json.filename.length, 255);
    assert.deepEqual([longer.status, longer.json.detail[0].loc], [422, ["body", "filename"]]);
    assert.equal(unknown.status, 422);
  });

  test("FILE-001 a file name keeps its last path segment without invisible characters", async () => {
    for (const [filename, kept] of [
      ["../../etc/passwd", "passwd"],
      ["C:\\temp\\x.png", "x.png"],
      ["..", ""],
      ["a/..", ""],
      ["a\u0007b\u202egnp.exe\r\n", "abgnp.exe"],
    ] as const)
      assert.equal(
        (await post(uploadOf(gif, "image/gif", { filename }))).json.filename,
        kept,
        JSON.stringify(filename),
      );
  });

  test("FILE-004 FILE-011 deletion is repeatable without an error, and a malformed id deletes nothing", async () => {
    const { file_id } = (await post(uploadOf(gif, "image/gif"))).json;

    const first = await remove(file_id);
    const second = await remove(file_id);
    const never = await remove(nobodys);
    const malformed = await remove("no-id");

    assert.deepEqual(first.json, { file_id, deleted: true });
    assert.deepEqual(second.json, { file_id, deleted: true });
    assert.deepEqual(never.json, { file_id: nobodys, deleted: true });
    assert.deepEqual([malformed.status, malformed.json], [200, { file_id: "no-id", deleted: false }]);
    assert.equal((await get(file_id)).status, 404);
  });

  test("FILE-005 empty or non-canonical base64 is 400", async () => {
    assert.deepEqual(await refusal({ data: "", media_type: "image/gif" }), [400, "empty_data"]);
    const whole = gif.toString("base64");
    const unpadded = jpeg.toString("base64").replace(/=+$/, "");
    for (const data of [
      "@@",
      "=",
      "R0lG\n",
      ` ${whole}`,
      `${whole}=`,
      "R0lGODl_",
      "R0lGODlhAQ=",
      "R0lGODlhAR==",
      unpadded,
    ])
      assert.deepEqual(await refusal({ data, media_type: "image/gif" }), [400, "invalid_base64"], JSON.stringify(data));
    for (const body of [{ media_type: "image/gif" }, { data: 7, media_type: "image/gif" }, { data: "R0lG" }])
      assert.equal((await refusal(body))[0], 422, JSON.stringify(body));
  });

  test("FILE-006 other types, and bytes that do not match their type, are 400", async () => {
    for (const media_type of [
      "image/svg+xml",
      "text/html",
      "application/pdf",
      "image/PNG",
      "image/png; a=b",
      "",
      "png",
    ])
      assert.deepEqual(await refusal(uploadOf(png(), media_type)), [400, "media_type_not_allowed"], media_type);
    for (const bytes of [
      svg,
      gif,
      Buffer.from("hello"),
      Buffer.from("<html>"),
      Buffer.from("PK\u0003\u0004zip"),
      Buffer.alloc(4),
    ])
      assert.deepEqual(await refusal(uploadOf(bytes, "image/png")), [400, "media_type_mismatch"]);
    assert.deepEqual(await refusal(uploadOf(png(), "image/jpeg")), [400, "media_type_mismatch"]);
  });

  test("FILE-007 600 KiB are accepted, and not a byte more", async () => {
    const largest = await post(uploadOf(png(fileBytesMax), "image/png"));
    const larger = await refusal(uploadOf(png(fileBytesMax + 1), "image/png"));
    const enormous = await post(uploadOf(png(1024 * 1024), "image/png"));

    assert.deepEqual([largest.status, largest.json.size_bytes], [200, 614_400]);
    assert.equal(Buffer.from((await get(largest.json.file_id)).json.data, "base64").length, 614_400);
    assert.deepEqual(larger, [400, "file_too_large"]);
    assert.equal(enormous.status, 413);
  });

  test("FILE-010 a malformed id and an unknown one are 404", async () => {
    for (const id of ["x", nobodys, nobodys.slice(1), `${nobodys}0`, nobodys.replace("0", "A"), "svc-file"]) {
      const { status, json } = await get(id);
      assert.deepEqual(
        [status, json],
        [404, { error: "not_found", detail: "not_found", message: errorTable.not_found.help }],
        id,
      );
    }
  });

  test("FILE-005 FILE-010 FILE-011 AUTH-021 writing and reading have a scope each", async () => {
    const { file_id } = (await post(uploadOf(gif, "image/gif"), keys.writer)).json;

    assert.equal((await get(file_id, keys.reader)).status, 200);
    // The write scope includes reading.
    assert.equal((await get(file_id, keys.writer)).status, 200);
    for (const [method, key] of [
      ["POST", keys.reader],
      ["POST", keys.chatter],
      ["GET", keys.chatter],
      ["DELETE", keys.reader],
      ["DELETE", keys.chatter],
    ] as const) {
      const path = method === "POST" ? "/files" : `/files/${file_id}`;
      const body = method === "POST" ? { body: uploadOf(gif, "image/gif") } : {};
      assert.equal((await server.request(method, path, { key, ...body })).status, 403, `${method} ${key}`);
    }
  });

  test("FILE-010 FILE-011 another tenant's file does not exist, and deleting it does nothing", async () => {
    const { file_id } = (await post(uploadOf(gif, "image/gif"))).json;

    const read = await get(file_id, keys.stranger);
    const removed = await remove(file_id, keys.stranger);

    assert.equal(read.text, (await get(nobodys, keys.stranger)).text);
    assert.deepEqual(removed.json, { file_id, deleted: true });
    assert.equal((await get(file_id)).status, 200);
  });

  test("FILE-003 a file still exists after a restart", async () => {
    const { file_id } = (await post(uploadOf(webp, "image/webp"))).json;

    await server.restart();

    assert.equal((await get(file_id)).json.data, webp.toString("base64"));
  });
});

describe("the quota of files", () => {
  const atEnd = cleanup();

  test("FILE-008 bytes above the tenant's quota are 409, and deletion frees them", async () => {
    const server = await startServer({
      env: { ...env, SVC_ATTACHMENTS_MAX_BYTES_PER_TENANT: String(2 * gif.length) },
      atEnd,
    });
    const post = (key: string, bytes: Buffer = gif, type = "image/gif") =>
      server.post("/files", uploadOf(bytes, type), { key });

    const first = await post(keys.both);
    const second = await post(keys.both);
    const third = await post(keys.both);
    const others = await post(keys.stranger);
    const alone = await post(keys.stranger, png(3 * gif.length), "image/png");
    await server.restart();
    const afterRestart = await post(keys.both);
    await server.request("DELETE", `/files/${first.json.file_id}`, { key: keys.both });
    const freed = await post(keys.both);
    const full = await post(keys.both);

    assert.deepEqual([first.status, second.status, others.status, freed.status], [200, 200, 200, 200]);
    assert.deepEqual([third.status, third.json.error], [409, "attachment_quota_exceeded"]);
    assert.deepEqual([afterRestart.status, full.status, alone.status], [409, 409, 409]);
  });

  test("FILE-008 0 is no quota", async () => {
    const server = await startServer({ env: { SVC_ATTACHMENTS_MAX_BYTES_PER_TENANT: "0" }, atEnd });

    assert.equal((await server.post("/files", uploadOf(gif, "image/gif"))).status, 200);
  });

  test("FILE-009 a server without a store shared by its threads keeps no files: 503", {
    skip: onOneHost("hosts refuse SVC_OBJECT_STORE=memory"),
  }, async () => {
    const server = await startServer({ env: { SVC_OBJECT_STORE: "memory" }, atEnd });

    const posted = await server.post("/files", uploadOf(gif, "image/gif"));
    const read = await server.get(`/files/${nobodys}`);
    const removed = await server.request("DELETE", `/files/${nobodys}`);

    assert.deepEqual([posted.status, posted.json.error], [503, "object_store_unavailable"]);
    assert.equal(read.status, 404);
    assert.deepEqual(removed.json, { file_id: nobodys, deleted: false });
  });
});
