// spec.browser_tools: a real Chromium opens pages of a test site, good ones and hostile ones.
import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import { request } from "node:http";
import { before, describe, type TestContext, test } from "node:test";
import { answerPages } from "../support/browser-pages.ts";
import { calls, shown, startChat, turn } from "../support/chat.ts";
import { findChromium } from "../support/chromium.ts";
import { type DevToolsBrowser, startDevToolsBrowser } from "../support/devtools-browser.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import type { Behaviour } from "../support/mock-model/behaviours.ts";
import type { MockModel } from "../support/mock-model.ts";
import { has } from "../support/needs.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";
import { startWebSite, type WebSite } from "../support/web-site.ts";

const { env, keys } = apiKeys({
  alice: { tenant_id: "acme", sub: "alice", scopes: ["*"] },
  bob: { tenant_id: "globex", sub: "bob", scopes: ["*"] },
});
const ops = ["content", "links", "snapshot", "screenshot", "pdf", "json"];
/** The timeout is longer than any visit needs on a slow machine. */
const tools = (fields: object = {}) =>
  ops.map((op) => ({ name: op, op, binding: "main", timeout_ms: 120_000, ...fields }));

const chromium = findChromium();
const installed = (t: TestContext) => has(t, chromium !== null, "needs Chromium: apt-get install chromium");

/** Makes the call that the user's last message names. */
const byMessage: Behaviour = ({ body }) => {
  const messages = body.messages as readonly { role: string; content: unknown }[];
  const at = messages.findLastIndex(({ content }) => JSON.stringify(content).includes("call {"));
  if (messages.slice(at).some(({ role }) => role === "tool")) return { text: "done" };
  const content = messages[at]?.content;
  const text = typeof content === "string" ? content : (content as { text: string }[])[0]?.text;
  const { tool, args } = JSON.parse((text ?? "").replace("call ", "")) as { tool: string; args: object };
  return calls([tool, args]);
};

describe("browser tools", () => {
  const atEnd = cleanup();
  let site: WebSite;
  let server: TestServer;
  let mock: MockModel;
  let browser: DevToolsBrowser;
  let mortal: DevToolsBrowser;
  let proxyPort: number;
  before(async () => {
    if (chromium === null) return;
    site = await startWebSite(atEnd);
    [browser, mortal] = await Promise.all([
      startDevToolsBrowser(chromium, atEnd),
      startDevToolsBrowser(chromium, atEnd),
    ]);
    proxyPort = await freePort();
    const plain = `127.0.0.1:${site.port}`;
    ({ server, mock } = await startChat(atEnd, {
      models: ["scripted"],
      routes: { eyes: { provider: "openai", model: "scripted", modalities: ["text", "image"] } },
      manifests: {
        agent: { browser_tools: tools() },
        brief: { browser_tools: tools({ timeout_ms: 6_000 }) },
        // A page that never ends is read after six tenths of this time.
        patient: { browser_tools: tools({ timeout_ms: 15_000 }) },
        below: { browser_tools: tools({ path_prefix: "http://site.example/docs" }) },
        sees: { browser_tools: tools(), model: { id: "eyes" } },
        dying: { browser_tools: tools({ binding: "mortal" }) },
        hanging: { browser_tools: tools({ binding: "mortal", timeout_ms: 3_000 }) },
        gone: { browser_tools: tools({ binding: "gone" }) },
        boss: { network: { allow_hosts: ["site.example"] }, delegation: { agents: [{ name: "agent" }] } },
        durable: { browser_tools: tools(), execution: { mode: "durable" } },
      },
      env: {
        ...env,
        SVC_BROWSERS: JSON.stringify({
          main: { url: browser.url, tenants: "*" },
          mortal: { url: mortal.url, tenants: "*" },
          gone: { url: "http://127.0.0.1:1", tenants: "*" },
          theirs: { url: browser.url, tenants: ["acme"] },
        }),
        SVC_BROWSER_PROXY_BIND: `127.0.0.1:${proxyPort}`,
        SVC_TEST_RESOLVE: JSON.stringify({
          "site.example": plain,
          "other.example": plain,
          "model.test": `127.0.0.1:${site.tlsPort}`,
        }),
        SVC_EGRESS_PRIVATE: JSON.stringify([{ host: "127.0.0.1", port: site.port, tenants: ["acme"] }]),
      },
    }));
    // The last message of the user says which tool to call, so that turns may run side by side.
    mock.answer("scripted", byMessage);
    answerPages(site);
  });

  let threads = 0;
  /** Runs one turn whose model makes one call. */
  async function visit(tool: string, args: object, manifest = "agent", key = keys.alice) {
    const thread_id = `t${threads++}`;
    const said = `call ${JSON.stringify({ tool, args })}`;
    const { status, text } = await server.post("/chat", turn(manifest, said, { thread_id }), { key });
    assert.equal(status, 200, text);
    const asked = mock.requests.findLast(({ body }) =>
      JSON.stringify(body.messages).includes(JSON.stringify(said).slice(1, -1)),
    );
    const content: unknown = shown(asked).findLast(({ role }) => role === "tool")?.content;
    const result = typeof content === "string" ? content : String((content as { text?: string }[])?.[0]?.text);
    return { result, thread_id, asked: JSON.stringify(asked?.body.messages) };
  }

  const visited = async (tool: string, path: string, manifest?: string, key?: string): Promise<string> =>
    (await visit(tool, { url: path.includes(":") ? path : `http://site.example${path}` }, manifest, key)).result;

  /** The logged result of a thread's last call. */
  async function resultEvent(thread_id: string) {
    const { json } = await server.get(`/chat/sessions/${thread_id}`, { key: keys.alice });
    return json.transcript.findLast(({ kind }: { kind: string }) => kind === "tool_result");
  }

  const hits = (path: string): number => site.requests.filter(({ url }) => url === path).length;

  describe("pages", { concurrency: 3 }, () => {
    const blocked = /^\[tool error\/permission_denied\] egress_blocked: destination not permitted$/;
    const cases: readonly [name: string, tool: string, path: string, expected: RegExp, manifest?: string][] = [
      [
        "content runs scripts and returns Markdown",
        "content",
        "/page",
        /^HTTP 200 http:\/\/site\.example\/page\n\n# A title\n.*written by a script.*\[link\]\(http:\/\/site\.example\/next\)/s,
      ],
      ["content of a JSON document is its text", "content", "/json", /\n\n\{"a":1\}$/],
      ["links lists http and https links", "links", "/page", /\n\nhttp:\/\/site\.example\/next link$/],
      ["snapshot outlines roles and names", "snapshot", "/page", /- heading "A title" \[level=1\].*- link "link"/s],
      [
        "json returns title, headings, tables and data",
        "json",
        "/page",
        /"title": "A title".*"level": 1.*"@type": "Thing".*"2"/s,
      ],
      ["json returns a JSON document", "json", "/json", /\n\n\{"a":1\}$/],
      [
        "an https page is loaded through the proxy",
        "content",
        "https://model.test/page",
        /^HTTP 200 https:\/\/model\.test\/page\n.*written by a script/s,
      ],
      ["a redirect is followed", "content", "/to-page", /^HTTP 200 http:\/\/site\.example\/page\n/],
      ["status 404 is reported", "content", "/none", /^\[tool error\/not_found\] HTTP 404 .*no such page/s],
      ["status 500 is reported", "content", "/500", /^\[tool error\/provider_error\] HTTP 500 .*broken/s],
      ["a page of invalid UTF-8 is read", "content", "/bytes", /one\uFFFDtwo/],
      ["a redirect to loopback is refused", "content", "/to-loopback", blocked, "agent"],
      ["a redirect to a file is refused", "content", "/to-file", blocked],
      // A refresh begins after the page has loaded, and the page may be read before.
      [
        "a meta refresh to loopback is refused, or not waited for",
        "content",
        "/meta-refresh",
        /egress_blocked: destination not permitted$|^HTTP 200 http:\/\/site\.example\/meta-refresh\n(?!.*secret)/s,
      ],
      ["a script that moves the page to loopback is refused", "content", "/moves", blocked],
      [
        "a page that moves to another site is read there",
        "content",
        "/moves-to-other",
        /^HTTP 200 http:\/\/other\.example\/page/,
      ],
      [
        "requests of a page to loopback fail",
        "content",
        "/asks-loopback",
        /fetch failed, image failed, socket failed, worker failed, frame empty/,
      ],
      ["a frame of a file stays empty", "content", "/frames-file", /frames: nothing/],
      ["a service worker is not registered", "content", "https://model.test/service-worker", /registrations: 0/],
      ["a download is refused", "content", "/download", /^\[tool error\/provider_error\] the address is a download/],
      ["windows that a page opens are closed", "content", "/popups", /opened/],
      ["a page that shows dialogs is read", "content", "/dialogs", /dialogs are over/],
      ["a dialog at the end does not hold the page", "content", "/stays", /a page that asks to stay/],
      ["a page nested 10,000 deep is plain text", "content", "/nested", /bottom/],
      ["a page nested 10,000 deep by a script is read or refused", "content", "/nested-by-script", /bottom|tool error/],
      [
        "a script that never ends ends the visit",
        "content",
        "/loop",
        /^\[tool error\/timeout\] no complete answer within 6000 ms$/,
        "brief",
      ],
      [
        "a page that never ends is read as far as it came",
        "content",
        "/endless",
        /first words.*\[the page was still loading\]/s,
        "patient",
      ],
      [
        "a page that never begins is a timeout",
        "content",
        "/silent",
        /^\[tool error\/timeout\] no complete answer within 6000 ms$/,
        "brief",
      ],
      ["a reset connection is reported", "content", "/reset", /^\[tool error\/transport_unavailable\]/],
      ["an address with a password is refused", "content", "http://a:b@site.example/page", blocked],
      [
        "an address that is no URL is refused",
        "content",
        "http://[",
        /^\[tool error\/invalid_arguments\] url is not a URL/,
      ],
      [
        "an unknown host is reported",
        "content",
        "http://unknown.invalid/",
        /^\[tool error\/transport_unavailable\] the request failed: the host name is not known$/,
      ],
      ["an address below the prefix is opened", "content", "/docs/a", /in the docs/, "below"],
      [
        "an address beside the prefix is refused",
        "content",
        "/docsx",
        /egress_blocked: the address is not below/,
        "below",
      ],
      [
        "a page that leaves the origin of the prefix is refused",
        "content",
        "/docs/leaves",
        /egress_blocked: the page has moved away from http:\/\/site\.example$/,
        "below",
      ],
      [
        "a browser that is not there is reported",
        "content",
        "/page",
        /^\[tool error\/transport_unavailable\] the browser gone does not answer/,
        "gone",
      ],
    ];
    for (const [name, tool, path, expected, manifest] of cases)
      test(name, async (t) => {
        if (!installed(t)) return;
        assert.match(await visited(tool, path, manifest, keys.bob), expected);
      });
  });

  test("a page cannot reach loopback by any of its requests", async (t) => {
    if (!installed(t)) return;
    const before = hits("/secret");

    await visited("content", "/asks-loopback", "agent", keys.bob);

    assert.equal(hits("/secret"), before);
  });

  test("SVC_EGRESS_PRIVATE opens its address to the pages of its tenants", async (t) => {
    if (!installed(t)) return;
    const url = `http://127.0.0.1:${site.port}/page`;

    assert.match(await visited("content", url), /A title/);
    assert.match(await visited("content", url, "agent", keys.bob), /egress_blocked/);
  });

  test("WebRTC is off in a page, its frames and its windows", async (t) => {
    if (!installed(t)) return;
    const packets: Buffer[] = [];
    const socket = createSocket("udp4", (packet) => packets.push(packet));
    await new Promise<void>((resolve) => socket.bind(0, "127.0.0.1", resolve));
    atEnd.after(() => new Promise<void>((resolve) => socket.close(resolve)));

    const text = await visited("content", `/webrtc?port=${socket.address().port}`);

    assert.match(text, /page undefined, frame undefined, srcdoc undefined/);
    assert.equal(packets.length, 0);
  });

  test("each call begins without the cookies and the storage of others", async (t) => {
    if (!installed(t)) return;
    assert.match(await visited("content", "/cookies"), /cookie: , stored: null/);
    assert.match(await visited("content", "/cookies", "agent", keys.bob), /cookie: , stored: null/);
    assert.equal(site.requests.findLast(({ url }) => url === "/cookies")?.headers.cookie, undefined);
  });

  test("a picture is shown to people and to models that see", async (t) => {
    if (!installed(t)) return;
    const { thread_id, asked } = await visit(
      "screenshot",
      { url: "http://site.example/tall", full_page: true },
      "sees",
    );

    assert.match(asked, /data:image\/jpeg;base64,/);
    const [file] = (await resultEvent(thread_id)).metadata.attachments;
    assert.equal(file.media_type, "image/jpeg");
    assert.match(asked, /a picture of 1280 × 4000 pixels/);
  });

  test("a PDF file is kept for people, and the model reads a mark", async (t) => {
    if (!installed(t)) return;
    const { thread_id, asked, result } = await visit("pdf", { url: "http://site.example/page" }, "sees");

    assert.match(result, /a PDF file of \d+ bytes/);
    assert.doesNotMatch(asked, /base64|image_url|omitted/);
    const [file] = (await resultEvent(thread_id)).metadata.attachments;
    assert.equal(file.media_type, "application/pdf");
    const id = file.url.replace("svc-file://", "");
    const read = await server.get(`/files/${id}`, { key: keys.alice });
    assert.match(Buffer.from(read.json.data, "base64").toString("latin1"), /^%PDF-/);
    assert.equal((await server.get(`/files/${id}`, { key: keys.bob })).status, 404);
    const attached = [{ url: file.url, media_type: "image/png" }];
    const messages = [
      {
        role: "user",
        content: 'call {"tool":"links","args":{"url":"http://site.example/page"}}',
        attachments: attached,
      },
    ];
    await server.post("/chat", { manifest: "sees", thread_id, messages }, { key: keys.alice });
    assert.doesNotMatch(JSON.stringify(mock.requests.at(-1)?.body.messages), /base64/);
  });

  test("a result is marked with its sources, and refused destinations are audited", async (t) => {
    if (!installed(t)) return;
    const { thread_id } = await visit("content", { url: "http://site.example/page" });
    await visited("content", "/asks-loopback", "agent", keys.bob);

    const { metadata } = await resultEvent(thread_id);
    await eventually("the row is written", async () => {
      const { json } = await server.get("/audit?event_type=egress&limit=500", { key: keys.bob });
      return (json.events as { status: string; payload: { host?: string } }[]).some(
        ({ status, payload }) => status === "blocked" && payload.host === "127.0.0.1",
      );
    });
    assert.deepEqual(metadata.taint, ["browser", "web:site.example"]);
  });

  test("a task reaches its parent run's hosts only, also with parts of its pages", async (t) => {
    if (!installed(t)) return;
    mock.answer("scripted", ({ body }) => {
      const messages = body.messages as readonly { role: string; content: string }[];
      if (messages.at(-1)?.role === "tool") return { text: messages.at(-1)?.content ?? "" };
      const asked = messages.at(-1)?.content ?? "";
      const url = asked.replace("visit ", "");
      return asked.startsWith("visit ")
        ? calls(["content", { url }])
        : calls(["task", { agent: "agent", prompt: `visit ${asked}` }]);
    });
    t.after(() => mock.answer("scripted", byMessage));
    const ask = async (url: string): Promise<string> =>
      (await server.post("/chat", turn("boss", url, { thread_id: `t${threads++}` }), { key: keys.alice })).text;

    assert.match(await ask("http://site.example/page"), /written by a script/);
    assert.match(await ask("http://other.example/page"), /egress_blocked/);
    assert.match(await ask("http://site.example/asks-other"), /other failed/);
  });

  test("the proxy refuses requests without the password of a call", async (t) => {
    if (!installed(t)) return;
    const ask = (authorization?: string): Promise<number> =>
      new Promise((resolve, reject) => {
        const headers = authorization === undefined ? {} : { "proxy-authorization": authorization };
        request({ host: "127.0.0.1", port: proxyPort, path: "http://site.example/page", headers }, (answer) => {
          answer.resume();
          resolve(answer.statusCode ?? 0);
        })
          .on("error", reject)
          .end();
      });

    assert.equal(await ask(), 407);
    assert.equal(await ask(`Basic ${Buffer.from("a:b").toString("base64")}`), 407);
  });

  test("a call that is given up disposes of its page", async (t) => {
    if (!installed(t)) return;
    const before = hits("/silent");
    const leaving = new AbortController();
    const said = `call ${JSON.stringify({ tool: "content", args: { url: "http://site.example/silent" } })}`;
    const asked = fetch(`${server.url}/chat`, {
      method: "POST",
      headers: { authorization: `Bearer ${keys.alice}`, "content-type": "application/json" },
      body: JSON.stringify(turn("agent", said)),
      signal: leaving.signal,
    }).catch(() => {});
    const isOpen = async (): Promise<boolean> => (await browser.pages()) > 1;

    await eventually("the page is requested", async () => hits("/silent") > before);
    assert.ok(await isOpen());
    leaving.abort();
    await asked;

    await eventually("the page is closed", async () => !(await isOpen()));
  });

  test("a browser that hangs, and one that dies, end their visits", async (t) => {
    if (!installed(t)) return;
    mortal.freeze();
    assert.match(await visited("content", "/page", "hanging"), /^\[tool error\/(?:timeout|transport_unavailable)\]/);
    mortal.thaw();
    assert.match(await visited("content", "/page", "dying"), /written by a script/);
    const before = hits("/silent");
    const visiting = visited("content", "/silent", "dying");
    await eventually("the page is requested", async () => hits("/silent") > before);
    await mortal.kill();

    assert.match(await visiting, /^\[tool error\/transport_unavailable\] the browser has closed the connection/);
    assert.match(
      await visited("content", "/page", "dying"),
      /^\[tool error\/transport_unavailable\] the browser mortal/,
    );
    assert.match(await visited("content", "/page"), /written by a script/);
  });

  test("a browser of another tenant is unknown to a manifest", async (t) => {
    if (!installed(t)) return;
    const put = (binding: string, key: string) => {
      const manifest = { metadata: { name: "mine" }, spec: { browser_tools: [{ name: "b", binding }] } };
      return server.request("PUT", "/manifests/mine", { key, body: { manifest } });
    };

    assert.equal((await put("theirs", keys.alice)).status, 200);
    const [theirs, none] = await Promise.all([put("theirs", keys.bob), put("none", keys.bob)]);
    assert.match(theirs.text, /names an unknown browser: theirs/);
    assert.equal(theirs.text.replaceAll("theirs", "none"), none.text);
  });
});
