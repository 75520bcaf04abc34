// The console when work goes wrong: a lost server, a key that no longer works, two consoles at one approval, and very long threads.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { turn } from "../support/chat.ts";
import { findProblems } from "../support/console-browser.ts";
import { eventually } from "../support/eventually.ts";
import { tcpProxy } from "../support/tcp-proxy.ts";
import type { SharedConsole } from "./shared.ts";

/** Rows of a list that are on the screen, and near it. */
const rowsMax = 60;

export function hardTests(shared: SharedConsole): void {
  const { atEnd, keys, open, post, ready } = shared;

  test("a turn continues on the screen after the connection was lost", async (t) => {
    if (!ready(t)) return;
    const proxy = await tcpProxy(shared.server.url, atEnd);
    const { origin } = new URL(proxy.url(shared.server.url));
    const page = await open({ key: keys.admin, at: "#/chat?manifest=slow" }, origin);
    await say(page, "Tell me.");
    await page.getByText("The first half,").waitFor();

    proxy.cut();
    await page.getByText("The connection is lost.").waitFor();
    proxy.restore();
    shared.finishSlow();

    await page.getByText("The first half, and the second half.").waitFor();
    assert.equal(await page.getByText("The first half,").count(), 1);
    await page.close();
  });

  test("a list follows the news of one stream, and the tab asks for nothing else", async (t) => {
    if (!ready(t)) return;
    await post("/chat", turn("plain", "Here already", { thread_id: "early" }));
    const page = await open({ key: keys.admin, at: "#/health" });
    await page.getByText("connected", { exact: true }).waitFor();
    await page.getByRole("link", { name: "Threads" }).click();
    await page.getByText("Here already").waitFor();
    const asked: string[] = [];
    page.on("request", (request) => asked.push(new URL(request.url()).pathname));

    await post("/chat", turn("plain", "Came later", { thread_id: "late" }));
    await page.getByText("Came later").waitFor();

    assert.deepEqual([...new Set(asked)], ["/chat/sessions"]);
    await page.close();
  });

  test("a key that no longer works leads back to the login with the reason", async (t) => {
    if (!ready(t)) return;
    const page = await open({ key: keys.admin, at: "#/threads" });
    await page.getByRole("heading", { name: "Threads" }).waitFor();

    // The server gets another key than the tab holds, as after a key was withdrawn.
    await page.route("**/usage/**", (route) =>
      route.continue({ headers: { ...route.request().headers(), authorization: "Bearer withdrawn" } }),
    );
    await page.getByRole("link", { name: "Usage" }).click();

    await page.getByText("The server does not accept this key.").waitFor();
    assert.equal(await page.evaluate("sessionStorage.getItem('svc.key')"), null);
    await page.close();
  });

  test("a key that expires in mid-work leads to a login that keeps what was typed", async (t) => {
    if (!ready(t)) return;
    const until = Date.now() + 6_000;
    const made = await post("/keys", { scopes: ["*"], sub: "eve", expires_at: until });
    const next = await post("/keys", { scopes: ["*"], sub: "eve" });
    assert.deepEqual([made.status, next.status], [200, 200], made.text);
    const page = await open({ key: made.json.key, at: "#/chat?manifest=plain" });
    const field = page.getByRole("textbox", { name: "Message", exact: true });
    await field.fill("Not sent yet");
    await eventually("the key has expired", async () => {
      const { status } = await shared.server.get("/auth/whoami", { key: made.json.key });
      return status === 401;
    });
    await field.press("Enter");

    await page.getByRole("heading", { name: "Sign in again" }).waitFor();
    assert.equal(await page.evaluate("sessionStorage.getItem('svc.key')"), null);
    assert.deepEqual(await findProblems(page), []);
    await page.keyboard.press("Escape");
    await page.keyboard.press("Escape");
    await page.getByLabel("API key or token").fill("wrong");
    await page.keyboard.press("Enter");
    await page.getByText("The server does not accept this key.").waitFor();
    await page.getByLabel("API key or token").fill(next.json.key);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Sign in again" }).waitFor({ state: "detached" });
    await eventually("the text in the field", async () => (await field.inputValue()) === "Not sent yet");
    await field.press("Enter");

    await page.getByText("Good.").waitFor();
    await page.close();
  });

  test("the second of two consoles learns that an approval was decided", async (t) => {
    if (!ready(t)) return;
    await post("/chat", turn("contested", "Add.", { thread_id: "twice" }));
    // The answer to a durable turn comes before its approval exists.
    await eventually("the approval waits", async () => {
      const { json } = await shared.server.get("/approvals?status=pending", { key: keys.admin });
      return json.items.length === 1;
    });
    // Without news it shows the approval also after the other console has decided.
    const second = await open({ key: keys.admin, at: "#/inbox", without: "**/events" });
    const first = await open({ key: keys.admin, at: "#/inbox" });
    await second.getByRole("button", { name: "Approve", exact: true }).waitFor();
    await first.getByRole("button", { name: "Approve", exact: true }).click();
    await first.getByText("No approval waits").waitFor();

    await second.getByRole("button", { name: "Deny", exact: true }).click();

    await second.getByText("Somebody else has decided this.").waitFor();
    await second.getByText("No approval waits").waitFor();
    await first.close();
    await second.close();
  });

  test("a thread of 10,000 events renders only the rows near the window", async (t) => {
    if (!ready(t)) return;
    const messages = Array.from({ length: 4999 }, (_, at) => [
      { role: "user", content: `Question ${at}` },
      { role: "assistant", content: `Answer ${at}` },
    ]).flat();
    const sent = await post("/chat", {
      ...turn("plain", "Last question", { thread_id: "long" }),
      messages: [...messages, { role: "user", content: "Last question" }],
    });
    assert.equal(sent.status, 200);
    const page = await open({ key: keys.admin, at: "#/chat/long" });

    await page.locator(".messages").getByText("Last question").waitFor();
    assert.ok((await page.locator(".message").count()) < rowsMax);
    await page.evaluate("document.querySelector('.messages').scrollTop = 0");
    await page.locator(".messages").getByText("Question 0", { exact: true }).waitFor();

    assert.ok((await page.locator(".message").count()) < rowsMax);
    await page.close();
  });

  test("a message of 900 KB is cut until it is asked for", async (t) => {
    if (!ready(t)) return;
    await post("/chat", turn("plain", "x".repeat(900_000), { thread_id: "wide" }));
    const page = await open({ key: keys.admin, at: "#/chat/wide" });

    await page.getByRole("button", { name: "Show all 900,000 characters" }).click();

    await page.getByRole("region", { name: "Long text" }).waitFor();
    assert.ok(await page.evaluate("document.documentElement.scrollWidth <= innerWidth"));
    await page.close();
  });
}

async function say(page: Page, text: string): Promise<void> {
  const field = page.getByRole("textbox", { name: "Message", exact: true });
  await field.fill(text);
  await field.press("Enter");
}
