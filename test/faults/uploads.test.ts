// Uploads that are cut off by the server's end or by the client.
import assert from "node:assert/strict";
import { globSync, readdirSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { describe, test } from "node:test";
import Database from "better-sqlite3";
import type { Answer } from "../support/http-client.ts";
import { png } from "../support/image-bytes.ts";
import { type ProcessServer, startServerProcess } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

/** The rows and objects of a stopped server. */
function found({ dataDir }: ProcessServer) {
  const [path] = globSync(join(dataDir, "*.db"));
  const db = new Database(path as string, { readonly: true });
  const rows = db.prepare<[], { file_id: string; state: string }>("SELECT file_id, state FROM files").all();
  db.close();
  const objects = globSync(join(dataDir, "objects", "files", "*", "*")).map((file) => file.split("/").at(-1) as string);
  return { rows, objects, drafts: readdirSync(join(dataDir, "objects", "+drafts")) };
}

describe("an upload that is cut off", () => {
  const atEnd = cleanup();
  const upload = { data: png(300_000).toString("base64"), media_type: "image/png" };

  test("acknowledged files survive SIGKILL whole, and no object lacks its row", async () => {
    const server = await startServerProcess({ atEnd });
    const answered: Answer[] = [];
    const some = Promise.withResolvers<void>();
    const sent = Array.from({ length: 60 }, () =>
      server.post("/files", upload).then(
        (answer) => {
          if (answered.push(answer) === 5) some.resolve();
        },
        () => {},
      ),
    );
    await some.promise;

    await server.kill();
    await Promise.all(sent);
    const { rows, objects } = found(server);
    const known = new Set(rows.map(({ file_id }) => file_id));
    await server.restart();

    assert.ok(answered.length < 60, "the kill came too late to cut anything off");
    for (const { json } of answered) {
      const read = await server.get(`/files/${json.file_id}`);
      assert.equal(read.json.data, upload.data);
    }
    for (const object of objects) assert.ok(known.has(object), object);
    for (const { file_id, state } of rows)
      assert.equal((await server.get(`/files/${file_id}`)).status, state === "kept" ? 200 : 404, state);
  });

  test("half an upload leaves neither a row nor an object", async () => {
    const server = await startServerProcess({ atEnd });
    const body = JSON.stringify(upload);
    const { hostname, port } = new URL(server.url);
    const head = `POST /files HTTP/1.1\r\nHost: ${hostname}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`;

    for (const length of [0, 1, body.length / 2, body.length - 1]) {
      const socket = connect(Number(port), hostname);
      socket.on("error", () => {});
      await new Promise<void>((resolve) => socket.write(head + body.slice(0, length), () => resolve()));
      await new Promise<void>((resolve) => {
        socket.on("close", () => resolve());
        socket.destroy();
      });
    }
    const whole = await server.post("/files", upload);
    await server.stop();

    const { rows, objects, drafts } = found(server);
    assert.deepEqual(rows, [{ file_id: whole.json.file_id, state: "kept" }]);
    assert.deepEqual(objects, [whole.json.file_id]);
    assert.deepEqual(drafts, []);
  });
});
