import type { ServerResponse } from "node:http";
import { gzipSync } from "node:zlib";
import type { WebSite } from "./web-site.ts";

// Pages for a browser, good ones and hostile ones.

const page = `<!doctype html><html lang="en"><head><title>A title</title><meta name="description" content="About it">
<script type="application/ld+json">{"@type":"Thing","name":"x"}</script></head>
<body><article><h1>A title</h1>${"<p>Words of the article that are long enough to be the main part of it.</p>".repeat(8)}
<p id="late"></p><p>With a <a href="/next">link</a> and <a href="javascript:alert(1)">another</a>.</p>
<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table></article>
<script>document.getElementById("late").textContent = "written by a script"</script></body></html>`;

/** A page whose script writes what it found out. Its load event waits for the script, however slow the machine is. */
const reports = (script: string) => (key: number) =>
  `<!doctype html><title>t</title><p id="out">unset</p>
<img src="/held?${key}" alt="">
<script>
const out = document.getElementById("out"); const say = (text) => { out.textContent = text; };
(async () => { ${script} })().catch((error) => say("failed: " + error)).finally(() => fetch("/let-go?${key}"));
</script>`;

/** Answers the paths of the test site. */
export function answerPages(site: WebSite): void {
  let visits = 0;
  const html = (path: string, body: string | ((key: number) => string)) =>
    site.on(path, (_, response) =>
      response
        .setHeader("content-type", "text/html; charset=utf-8")
        .end(typeof body === "string" ? body : body(++visits)),
    );
  // The two requests of a page may arrive in either order.
  const waiting = new Map<string, ServerResponse>();
  for (const path of ["/held", "/let-go"])
    site.on(path, ({ url = "" }, response) => {
      const [, key = ""] = url.split("?");
      const other = waiting.get(key);
      if (other === undefined) waiting.set(key, response);
      else for (const each of [other, response]) each.writeHead(204).end();
    });
  const to = (path: string, location: string) =>
    site.on(path, (_, response) => response.writeHead(302, { location }).end());
  const secret = `127.0.0.1:${site.port}/secret`;
  html("/page", page);
  html("/docs/a", "<p>in the docs</p>");
  html("/docs/leaves", `<script>location = "http://other.example/page"</script>`);
  site.on("/json", (_, response) => response.setHeader("content-type", "application/json").end('{"a":1}'));
  site.on("/secret", (_, response) =>
    response.setHeader("access-control-allow-origin", "*").setHeader("content-type", "text/html").end("the secret"),
  );
  to("/to-page", "/page");
  to("/to-loopback", `http://${secret}`);
  to("/to-file", "file:///etc/passwd");
  html("/meta-refresh", `<meta http-equiv="refresh" content="0; url=http://${secret}">`);
  html("/moves", `<script>location = "http://${secret}"</script>`);
  html("/moves-to-other", `<script>location = "http://other.example/page"</script>`);
  html(
    "/asks-loopback",
    reports(`
const fetched = await fetch("http://${secret}", { mode: "no-cors" }).then(() => "reached", () => "failed");
const image = await new Promise((done) => { const i = new Image(); i.onload = () => done("reached"); i.onerror = () => done("failed"); i.src = "http://localhost:${site.port}/secret"; });
const socket = await new Promise((done) => { const s = new WebSocket("ws://${secret}"); s.onopen = () => done("reached"); s.onerror = () => done("failed"); });
const code = 'fetch("http://[::1]:${site.port}/secret").then(() => postMessage("reached"), () => postMessage("failed"))';
const worker = await new Promise((done) => { const w = new Worker(URL.createObjectURL(new Blob([code]))); w.onmessage = ({ data }) => done(data); });
navigator.sendBeacon("http://${secret}");
for (const rel of ["prefetch", "preload", "stylesheet", "modulepreload", "preconnect"]) { const l = document.createElement("link"); l.rel = rel; l.as = "script"; l.href = "http://${secret}"; document.head.append(l); }
const frame = document.createElement("iframe"); frame.src = "http://${secret}"; document.body.append(frame);
await new Promise((done) => { frame.onload = done; setTimeout(done, 500); });
say("fetch " + fetched + ", image " + image + ", socket " + socket + ", worker " + worker + ", frame " + (/secret/.test(frame.contentDocument?.body?.textContent ?? "") ? "reached" : "empty"));
`),
  );
  html(
    "/asks-other",
    reports(
      `say("other " + await fetch("http://other.example/json", { mode: "no-cors" }).then(() => "reached", () => "failed"))`,
    ),
  );
  html(
    "/frames-file",
    reports(`
const frame = document.createElement("iframe"); frame.src = "file:///etc/passwd"; document.body.append(frame);
await new Promise((done) => { frame.onload = done; setTimeout(done, 500); });
let text = "nothing"; try { text = frame.contentDocument.body.textContent || "nothing"; } catch {}
say("frames: " + text);
`),
  );
  html(
    "/service-worker",
    reports(`
await navigator.serviceWorker.register("/worker.js").catch(() => {});
await ServiceWorkerContainer.prototype.register.call(navigator.serviceWorker, "/worker.js").catch(() => {});
const frame = document.createElement("iframe"); document.body.append(frame);
try { await frame.contentWindow.ServiceWorkerContainer.prototype.register.call(navigator.serviceWorker, "/worker.js"); } catch {}
say("registrations: " + (await navigator.serviceWorker.getRegistrations()).length);
`),
  );
  site.on("/worker.js", (_, response) =>
    response.setHeader("content-type", "text/javascript").end("self.onfetch = () => {}"),
  );
  site.on("/download", (_, response) =>
    response.setHeader("content-disposition", "attachment; filename=a.bin").end(Buffer.alloc(1000)),
  );
  html("/popups", `<p>opened</p><script>for (let at = 0; at < 5; at++) window.open("/page");</script>`);
  html("/dialogs", reports(`alert("one"); confirm("two"); prompt("three"); print(); say("dialogs are over")`));
  html(
    "/stays",
    `<p>a page that asks to stay</p><script>onbeforeunload = (event) => { event.preventDefault(); return "x" }</script>`,
  );
  html("/nested", `${"<div>".repeat(10_000)}bottom${"</div>".repeat(10_000)}`);
  html(
    "/nested-by-script",
    `<p>top</p><script>let at = document.body; for (let n = 0; n < 10000; n++) at = at.appendChild(document.createElement("div")); at.textContent = "bottom"</script>`,
  );
  html("/loop", "<p>before</p><script>for (;;);</script>");
  site.on("/endless", (_, response) => {
    response.setHeader("content-type", "text/html").write("<p>first words</p>");
  });
  site.on("/silent", () => {});
  site.on("/500", (_, response) => response.writeHead(500, { "content-type": "text/html" }).end("<p>broken</p>"));
  site.on("/bytes", (_, response) =>
    response
      .writeHead(200, { "content-type": "text/html; charset=utf-8" })
      .end(Buffer.from("<p>one\xfftwo</p>", "latin1")),
  );
  site.on("/flood", (_, response) => {
    response.setHeader("content-type", "text/html");
    flood(response, Buffer.alloc(65_536, "<p>x</p>"));
  });
  site.on("/reset", (request) => request.socket.destroy());
  html("/large", `<title>large</title>${"<p>many words of one paragraph</p>".repeat(330_000)}`);
  site.on("/bomb", (_, response) => {
    response.setHeader("content-type", "text/html").setHeader("content-encoding", "gzip");
    response.end(gzipSync(Buffer.alloc(200_000_000, "x")));
  });
  html("/console", `<p>chatty</p><script>const long = "x".repeat(40e6); for (;;) console.log(long, long);</script>`);
  html("/tall", `<div style="height: 20000px; background: linear-gradient(red, blue)">tall</div>`);
  html(
    "/cookies",
    reports(
      `say("cookie: " + document.cookie + ", stored: " + localStorage.getItem("k")); document.cookie = "k=v"; localStorage.setItem("k", "v")`,
    ),
  );
  html(
    "/webrtc",
    reports(`
const port = new URL(location).searchParams.get("port");
const dial = (Peer) => { if (!Peer) return; const p = new Peer({ iceServers: [{ urls: "stun:127.0.0.1:" + port }] }); p.createDataChannel("x"); p.createOffer().then((o) => p.setLocalDescription(o)); };
const frame = document.createElement("iframe"); document.body.append(frame);
const early = frame.contentWindow.RTCPeerConnection;
const doc = document.createElement("iframe"); doc.srcdoc = "<p>x</p>"; document.body.append(doc);
await new Promise((done) => { doc.onload = done; });
say("page " + typeof RTCPeerConnection + ", frame " + typeof early + ", srcdoc " + typeof doc.contentWindow.RTCPeerConnection);
for (const each of [globalThis.RTCPeerConnection, globalThis.webkitRTCPeerConnection, early, doc.contentWindow.RTCPeerConnection]) dial(each);
`),
  );
}

function flood(response: ServerResponse, part: Buffer): void {
  const more = (): void => {
    while (!response.destroyed && response.write(part));
    if (!response.destroyed) response.once("drain", more);
  };
  more();
}
