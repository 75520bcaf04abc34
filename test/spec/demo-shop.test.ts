// npm run demo:shop, as a process.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { freePort } from "../support/free-port.ts";
import { root } from "../support/source.ts";
import { cleanup, tempDir } from "../support/temp.ts";

test("SHOP-008 the demo serves a brand of 60 products, and a page with its chat", async (t) => {
  const atEnd = cleanup(t);
  const [page, port] = [await freePort(), await freePort()];
  const demo = spawn(process.execPath, ["--import", "./strip-types.js", "examples/shop/demo.ts"], {
    cwd: root,
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, DEMO_PORT: String(page), SVC_PORT: String(port), SVC_DATA_DIR: tempDir(atEnd) },
  });
  const ended = once(demo, "exit");
  atEnd.after(async () => {
    demo.kill("SIGTERM");
    await ended;
  });

  const [said] = await Promise.race([once(demo.stdout, "data"), ended]);
  const html = await (await fetch(`http://127.0.0.1:${page}/`)).text();
  const config = await fetch(`http://127.0.0.1:${port}/shop/lumen/config`);
  const frame = await fetch(`http://127.0.0.1:${port}/widget/frame?storefront=lumen`);
  const chat = await fetch(`http://127.0.0.1:${port}/shop/lumen/chat`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ messages: [{ role: "user", content: "2+2" }] }),
  });

  assert.match(String(said), /60 products/);
  assert.match(html, new RegExp(`src="http://127.0.0.1:${port}/widget/loader.js" data-storefront="lumen"`));
  assert.deepEqual([config.status, frame.status, chat.status], [200, 200, 200], await chat.text());
});
